"""What an administrator decides about a node: traits, sharing rules, and errors that say where."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from traitlets import TraitError
from traitlets.config import Config

from jupyter_gpupool.backends.rules import Action, HostLimits, NodeRules, Sharing, SharingRule
from jupyter_gpupool.cluster.settings import BadAgentSettings, PoolAgent, dump_rules, load_rules
from jupyter_gpupool.cluster.sharing_file import BadSharingRules, read_file
from jupyter_gpupool.core.leases import Resource, Strength


def agent(**traits: object) -> PoolAgent:
    return PoolAgent(config=Config({"PoolAgent": traits}))


def test_nothing_has_to_be_decided() -> None:
    assert agent().rules() == NodeRules()


def test_every_rule_of_a_node_has_a_setting_with_help() -> None:
    fields = {field.name for field in dataclasses.fields(NodeRules)}
    traits = PoolAgent.class_own_traits(config=True)
    assert fields <= traits.keys()
    assert all(trait.help for trait in traits.values())


def test_what_is_set_arrives() -> None:
    made = agent(
        require_isolation=["memory:hard", "compute:soft"],
        unmanaged="end",
        over_limit="interrupt",
        warn_percent=80.0,
        host_limits="none",
        exclusive_process=True,
        ignored_xids=[79],
    ).rules()
    assert made.require_isolation == ((Resource.MEMORY, Strength.HARD), (Resource.COMPUTE, Strength.SOFT))
    assert (made.unmanaged, made.over_limit) == (Action.END, Action.INTERRUPT)
    assert (made.warn_percent, made.host_limits, made.exclusive_process) == (80.0, HostLimits.NONE, True)
    assert made.ignored_xids == (79,)


@pytest.mark.parametrize(
    ("trait", "value"),
    [("unmanaged", "interrupt"), ("over_limit", "show"), ("warn_percent", 0.0), ("default_sharing", "all")],
)
def test_what_makes_no_sense_is_refused_when_it_is_read(trait: str, value: object) -> None:
    with pytest.raises(TraitError, match=trait):
        agent(**{trait: value})


def test_a_requirement_that_is_none_is_refused_with_what_is_possible() -> None:
    with pytest.raises(BadAgentSettings, match=r"“memory:firm”.*memory:hard"):
        agent(require_isolation=["memory:firm"]).rules()


# --- sharing rules ------------------------------------------------------------------------------------


def test_rules_count_in_order_and_the_default_is_the_last(tmp_path: Path) -> None:
    path = tmp_path / "sharing.yaml"
    path.write_text('version: v1\nsharing:\n  - model: "*T4*"\n    sharing: timeslice\n')
    rules = agent(
        sharing=[{"model": "*A100*", "sharing": "mps"}], sharing_file=str(path), default_sharing="mig"
    ).rules()
    assert rules.sharing == (
        SharingRule(model="*A100*", sharing=Sharing.MPS),
        SharingRule(model="*T4*", sharing=Sharing.TIMESLICE),
        SharingRule(model="*", sharing=Sharing.MIG),
    )
    assert rules.rule_for("NVIDIA A100-SXM4-80GB").sharing is Sharing.MPS
    assert rules.rule_for("Tesla T4").sharing is Sharing.TIMESLICE
    assert rules.rule_for("NVIDIA L40S").sharing is Sharing.MIG
    assert NodeRules().rule_for("NVIDIA L40S").sharing is Sharing.AUTO


def test_a_rule_may_name_frameworks_and_their_oldest_versions() -> None:
    frameworks = {"torch": ">=1.7", "tensorflow": 2.4}
    [rule] = agent(sharing=[{"model": "*", "sharing": "timeslice", "frameworks": frameworks}]).rules().sharing
    assert rule.frameworks == (("pytorch", "1.7"), ("tensorflow", "2.4"))


GOOD = '- model: "*A100*"\n  sharing: mps\n'


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (
            GOOD + '- model: "*T4*"\n  sharing: mpx\n',
            4,
            "“sharing” is “mpx”; it must be one of auto, mig, mps",
        ),
        (GOOD + '- modle: "*T4*"\n  sharing: mps\n', 3, "“modle” is not known; a rule has model, sharing"),
        (GOOD + "- sharing: mps\n", 3, "the rule has no “model”"),
        (GOOD + "- model: [a]\n  sharing: mps\n", 3, "“model” must be a pattern"),
        (GOOD + "- just text\n", 3, "a rule must have model, sharing, frameworks"),
        (
            '- model: "*"\n  sharing: timeslice\n  frameworks:\n    pytorch: "<2"\n',
            4,
            "the oldest version of pytorch is “<2”; write it as",
        ),
        (
            '- model: "*"\n  sharing: mps\n  frameworks:\n    pytorch: "2"\n',
            4,
            "“frameworks” says who may time-slice, but the rule shares by mps",
        ),
        ("sharing:\n  mps\n", 2, "the rules must be a list"),
        ("rules: []\n", 1, "“rules” is not known here"),
        ("- model: *A100*\n", 1, "Put patterns in quotes"),
        (GOOD + "- model: {\n", 4, "expected"),
    ],
)
def test_an_error_in_a_file_is_told_with_file_and_line(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    path = tmp_path / "sharing.yaml"
    path.write_text(text)
    with pytest.raises(BadSharingRules) as wrong:
        read_file(path)
    assert str(wrong.value).startswith(f"{path}, line {line}: ")
    assert says in str(wrong.value)


def test_an_error_in_a_list_is_told_with_the_setting_and_the_number_of_the_rule() -> None:
    rules = [{"model": "*", "sharing": "mps"}, {"model": "*", "sharing": "mpx"}]
    with pytest.raises(BadSharingRules, match=r"PoolAgent\.sharing, rule 2: “sharing” is “mpx”"):
        agent(sharing=rules).rules()


def test_a_file_that_is_missing_or_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    assert read_file(tmp_path / "empty.yaml") == ()
    with pytest.raises(BadSharingRules, match="cannot be read: No such file"):
        read_file(tmp_path / "none.yaml")


# --- on the way to the agent --------------------------------------------------------------------------


def test_rules_travel_from_the_service_to_its_agent_unchanged() -> None:
    rules = agent(
        sharing=[{"model": "*A100*", "sharing": "timeslice", "frameworks": {"pytorch": "1.7"}}],
        require_isolation=["memory:hard"],
        over_limit="end",
    ).rules()
    assert load_rules(dump_rules(rules)) == rules
    with pytest.raises(BadAgentSettings, match="--rules cannot be read"):
        load_rules("{")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours to its end."""
    return subprocess.run(
        [sys.executable, "-m", "jupyter_gpupool", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name", ["serve", pytest.param("agent", marks=SLOW), pytest.param("config", marks=SLOW)]
)
def test_a_wrong_file_ends_every_command_with_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "sharing.yaml"
    path.write_text(GOOD.replace("mps", "mpx"))
    done = command(name, "--sharing-file", str(path))
    assert done.returncode == 1
    said = (
        f"jupyter gpupool: {path}, line 2: “sharing” is “mpx”; it must be one of auto, mig, mps, timeslice."
    )
    assert done.stderr.strip() == said


def test_config_shows_the_rules_as_they_count(tmp_path: Path) -> None:
    path = tmp_path / "sharing.yaml"
    path.write_text(GOOD)
    done = command("config", "--sharing-file", str(path), "--sharing", "timeslice", "--unmanaged", "warn")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "PoolAgent.unmanaged 'warn' command line" in lines
    assert "sharing rule 1 *A100*: mps PoolAgent" in lines
    assert "sharing rule 2 *: timeslice PoolAgent" in lines


@pytest.mark.slow
def test_a_value_that_a_setting_cannot_have_is_no_traceback() -> None:
    done = command("agent", "--unmanaged", "interrupt")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "expected any of ['show', 'warn', 'end']" in done.stderr
