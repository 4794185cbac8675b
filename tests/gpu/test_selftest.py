"""What only a real GPU can show: the self-test, run as a person runs it, and every claim of it.

Skipped where there is no GPU; with GPUPOOL_REQUIRE_GPU=1 that is a failure instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.nvidia.discovery import Discovery

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

PROVED, FAILED, NOT_POSSIBLE = "proved", "failed", "not possible here"
#: What has to be proved wherever a share is put on a GPU, however it is shared.
ALWAYS = ("attach", "memory.under", "kill", "release")


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """Run the self-test on the first device."""
    nvml = NVML()
    discovery = Discovery(nvml)
    found = [gpu for gpu in discovery.look() if not gpu.mig_enabled]
    nvml.close()
    if not found:
        why = f"no GPU is here: {discovery.problem or 'NVML lists none'}"
        if os.environ.get("GPUPOOL_REQUIRE_GPU") == "1":
            pytest.fail(f"a GPU was promised, but {why}")
        pytest.skip(why)
    command = [sys.executable, "-m", "jupyter_gpupool", "selftest", "--json", "--device", found[0].name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.stdout, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def claims(result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the claims with a name, of all ways of sharing."""
    return [each for each in result["claims"] if each["name"] == name]


def hidden(claim: dict[str, Any]) -> bool:
    """Say whether a claim cannot be shown because this container hides which process is whose."""
    return claim["outcome"] == NOT_POSSIBLE and "--pid=host" in claim["detail"]


def test_no_claim_fails(result: dict[str, Any]) -> None:
    failed = [each for each in result["claims"] if each["outcome"] == FAILED]
    assert not failed, json.dumps(failed, indent=2)


def test_it_takes_less_than_four_minutes(result: dict[str, Any]) -> None:
    assert result["seconds"] < 240


def test_every_mechanism_is_possible_or_says_why_not(result: dict[str, Any]) -> None:
    assert result["rungs"]
    assert not [each for each in result["rungs"] if not each["possible"] and not each["reason"]]


def test_a_share_is_put_in_force_and_leaves_nothing_however_the_device_is_shared(
    result: dict[str, Any],
) -> None:
    ways = {each["sharing"] for each in result["claims"] if each["sharing"]}
    assert ways
    for name in ALWAYS:
        found = Counter(each["outcome"] for each in claims(result, name) if not hidden(each))
        hidden_ones = sum(map(hidden, claims(result, name)))
        assert found[PROVED] + hidden_ones == len(ways), name


def test_limits_hold_against_raw_cuda_calls_or_their_breach_is_told(result: dict[str, Any]) -> None:
    for claim in claims(result, "memory.past.driver"):
        if claim["outcome"] == NOT_POSSIBLE:  # frameworks' caps: they bind no raw calls, and say so
            (watched,) = [
                each for each in claims(result, "memory.watch") if each["sharing"] == claim["sharing"]
            ]
            assert watched["outcome"] == PROVED or hidden(watched)


def test_two_holders_share_the_device(result: dict[str, Any]) -> None:
    measured = [each for each in claims(result, "two.holders") if each["outcome"] != NOT_POSSIBLE]
    if not measured:
        pytest.skip("the first device is leased whole or not at all")
    assert {each["outcome"] for each in measured} == {PROVED}


def test_compute_is_capped_where_the_lease_says_so_and_equal_where_it_says_not(
    result: dict[str, Any],
) -> None:
    for claim in claims(result, "compute.rate") + claims(result, "compute.equal"):
        assert claim["outcome"] == PROVED, claim
