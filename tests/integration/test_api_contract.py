"""openapi.yaml is the contract: valid, complete, and kept by the running service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from jupyter_gpupool.protocol import administration, documents, launches
from jupyter_gpupool.service.api import ROUTES
from jupyter_gpupool.service.errors import STATUS
from tests.support.pool_process import PoolProcess, running_pool, world

TEXT = files("jupyter_gpupool.service").joinpath("openapi.yaml").read_text()
CONTRACT: dict[str, Any] = yaml.safe_load(TEXT)
SCHEMAS = CONTRACT["components"]["schemas"]
METHODS = ("get", "post", "put", "patch", "delete")


def test_the_contract_is_valid_openapi() -> None:
    from openapi_spec_validator import validate

    validate(CONTRACT)


def test_every_path_and_method_that_is_served_is_in_the_contract() -> None:
    served = {(path, method.lower()) for path, methods in ROUTES.items() for method in methods}
    promised = {
        (path, method) for path, item in CONTRACT["paths"].items() for method in item if method in METHODS
    }
    assert served == promised


@pytest.mark.parametrize("name", [name for name, schema in SCHEMAS.items() if "properties" in schema])
def test_every_document_has_the_fields_that_are_sent(name: str) -> None:
    fields = msgspec.structs.fields(_said(name))
    assert set(SCHEMAS[name]["properties"]) == {field.name for field in fields}
    required = {field.name for field in fields if field.required}
    assert set(SCHEMAS[name].get("required", [])) == required


@pytest.mark.parametrize("name", [name for name, schema in SCHEMAS.items() if "enum" in schema])
def test_every_enumeration_has_the_values_that_are_sent(name: str) -> None:
    assert set(SCHEMAS[name]["enum"]) == {member.value for member in _said(name)}


def _said(name: str) -> Any:
    """Return what the contract has under a name."""
    return getattr(documents, name, None) or getattr(launches, name, None) or getattr(administration, name)


def test_every_status_of_an_error_is_promised_somewhere() -> None:
    promised = {
        int(status)
        for item in CONTRACT["paths"].values()
        for method, operation in item.items()
        if method in METHODS
        for status in operation["responses"]
    }
    # what is refused before any operation is chosen
    elsewhere = {404, 405}
    assert set(STATUS.values()) <= promised | elsewhere


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolProcess]:
    home = tmp_path_factory.mktemp("contract")
    arguments = ("--PoolService.waiter_grace_seconds=0.5", "--PoolService.attach_seconds=2")
    with running_pool(world(home), emulate="8xA100-80GB", arguments=arguments) as running:
        yield running


def test_the_service_serves_its_contract(pool: PoolProcess) -> None:
    answer = pool.get("/api/v1/openapi.yaml", token="")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert answer.body == TEXT


@pytest.mark.slow
def test_the_service_keeps_its_contract(pool: PoolProcess, tmp_path: Path) -> None:
    """Schemathesis makes requests up from the contract, good ones and bad ones, and checks every answer."""
    contract = tmp_path / "openapi.yaml"
    contract.write_text(TEXT)
    # a body that is too large is refused with 413, before anybody looks at what is wrong in it
    (tmp_path / "schemathesis.toml").write_text(
        "[checks.negative_data_rejection]\nexpected-statuses = [400, 401, 403, 404, 413, 415, 422, 429]\n"
    )
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("schemathesis"), "run", contract),
            *("--url", pool.url, "--header", f"Authorization: Bearer {pool.token}"),
            *("--exclude-path", "/api/v1/events", "--phases", "examples,coverage,fuzzing,stateful"),
            *("--max-examples", "25", "--seed", "1", "--request-timeout", "30", "--no-color"),
            # 1.0 is an integer to JSON Schema and not to us, and 422 is an answer to good requests, too;
            # of a lease that has ended it can still be read why
            *("--exclude-checks", "positive_data_acceptance,use_after_free"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert pool.process is not None
    assert pool.process.poll() is None
    assert "Traceback" not in pool.log()
