"""The administrator's guide: what is to be typed exists, and its files do what the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from traitlets.config import Application, Config

from jupyter_gpupool.app import GPUPoolApp
from jupyter_gpupool.cluster.settings import PoolAgent
from jupyter_gpupool.protocol import names
from jupyter_gpupool.service.quota_config import read_quotas
from jupyter_gpupool.service.reservation_config import read_reservations

DOCS = Path(__file__).resolve().parents[2] / "docs"
DEPLOY = DOCS / "deploy"
PAGES = [DOCS / "administrators.md", DOCS / "hub.md"]

#: What of the chart's values the recipe uses; other names would be none of the chart's.
_ANY = {"type": "object"}
_IMAGE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tag": {"type": "string"}},
    "additionalProperties": False,
}
_CIDRS = {"type": "array", "items": {"properties": {"ipBlock": {"required": ["cidr"]}}}}
_HUB = {"image": _IMAGE, "extraEnv": _ANY, "extraConfig": {"additionalProperties": {"type": "string"}}}
_POLICY = {
    way: {"type": "array", "items": {"properties": {peer: _CIDRS}, "additionalProperties": False}}
    for way, peer in (("ingress", "from"), ("egress", "to"))
}
_CLOSED = {"type": "object", "additionalProperties": False}
CHART: dict[str, Any] = {
    **_CLOSED,
    "properties": {
        "hub": {**_CLOSED, "properties": {**_HUB, "networkPolicy": {**_CLOSED, "properties": _POLICY}}},
        "singleuser": {
            **_CLOSED,
            "properties": {"image": _IMAGE, "networkPolicy": {**_CLOSED, "properties": _POLICY}},
        },
        "cull": {
            **_CLOSED,
            "properties": {"enabled": {"type": "boolean"}, "timeout": {"type": "integer"}},
        },
    },
}


def commands() -> list[list[str]]:
    """Return every command of the pages, without what is only named in passing."""
    text = "\n".join(page.read_text() for page in PAGES)
    lines = re.findall(r"(?:^|`)jupyter gpupool ([^`\n]+)", text, re.MULTILINE)
    return [shlex.split(line) for line in lines]


def unknown(words: list[str]) -> list[str]:
    """Return what a command does not know of its words."""
    command: type[Application] = GPUPoolApp.subcommands[words[0]][0]
    below = getattr(command, "subcommands", None)
    if isinstance(below, dict) and below and len(words) > 1:
        return unknown_options(below[words[1]][0], words[2:])
    return unknown_options(command, words[1:])


def unknown_options(command: type[Application], words: list[str]) -> list[str]:
    """Return the options that a command does not have."""
    if isinstance(command, str):
        return []
    traits = {
        f"{kind.__name__}.{it}" for kind in (command, *command.classes) for it in kind.class_trait_names()
    }
    known = {*command.aliases, *command.flags, *traits}
    options = [it.removeprefix("--").partition("=")[0] for it in words if it.startswith("--")]
    return [it for it in options if it not in known]


def configured(source: str) -> Config:
    """Run a Hub's configuration, and return what it says."""
    c = Config()
    exec(compile(source, "jupyterhub_config.py", "exec"), {"c": c})  # noqa: S102 - as a Hub does
    return c


def test_every_command_exists_with_its_options() -> None:
    found = commands()
    assert len(found) > 12
    assert {" ".join(words): unknown(words) for words in found if unknown(words)} == {}


def test_the_quotas_and_reservations_are_read_and_belong_together() -> None:
    quotas = read_quotas(DEPLOY / "class-quotas.yaml")
    assert {group.name for group in quotas.groups} == {"students", "staff"}
    (reserved,) = read_reservations(DEPLOY / "class-reservations.yaml", quotas)
    assert reserved.group == "students"


def test_the_class_is_played() -> None:
    scenario = f"--scenario={DEPLOY / 'class-simulation.yaml'}"
    words = ["-m", "jupyter_gpupool", "simulate", scenario, "--users=8", "--days=1", "--json"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["outcomes"]) == 2


def test_the_hubs_configuration_starts_a_service_with_arguments_that_it_has() -> None:
    c = configured((DEPLOY / "class-jupyterhub_config.py").read_text())
    (service,) = c.JupyterHub.services
    words = service["command"][service["command"].index("serve") :]
    assert unknown(words) == []
    assert {names.ENV_RUNTIME_DIR, names.ENV_DATA_DIR} <= service["environment"].keys()
    for option in ("quotas_file", "reservations_file"):
        (path,) = (it.partition("=")[2] for it in words if f".{option}=" in it)
        assert (DEPLOY / Path(path).name).exists()


def test_the_nodes_configuration_has_settings_that_agents_have() -> None:
    c = configured((DEPLOY / "class-agent_config.py").read_text())
    agent = PoolAgent(config=c)
    assert (agent.launcher, agent.require_encryption) == ("setuid", True)
    assert set(c.PoolAgent) <= set(PoolAgent.class_trait_names(config=True))


def test_the_values_have_names_of_the_chart_and_configure_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    values = yaml.safe_load((DEPLOY / "zero-to-jupyterhub.yaml").read_text())
    jsonschema.validate(values, CHART)
    (variable,) = values["hub"]["extraEnv"]
    monkeypatch.setitem(os.environ, variable, "a" * 64)
    (source,) = values["hub"]["extraConfig"].values()
    c = configured(source)
    (service,) = c.JupyterHub.services
    assert service["api_token"] == "a" * 64
    assert "command" not in service, "it is started elsewhere"
    assert c.Spawner.environment.get_value({})[names.ENV_HUB_URL] == service["url"]


def test_the_snippets_of_the_page_about_the_hub_are_run() -> None:
    snippets = re.findall(r"```python\n(.*?)```", (DOCS / "hub.md").read_text(), re.DOTALL)
    assert len(snippets) == 3
    for snippet in snippets:
        c = configured(f"import jupyter_gpupool.hub\n{snippet}")
        assert c.JupyterHub.services
