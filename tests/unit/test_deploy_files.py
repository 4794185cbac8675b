"""The units and the container file of the documentation: they parse, and start commands that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
from traitlets.config import Application

from jupyter_gpupool.app import GPUPoolApp
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.join import AGENT_PORT, API_PORT, CONTROL_PORT

DOCS = Path(__file__).resolve().parents[2] / "docs"
UNITS = sorted((DOCS / "deploy").glob("*.service"))
CONTAINER = DOCS / "deploy" / "Containerfile"
KNOWN_VARIABLES = {value for name, value in vars(names).items() if name.startswith("ENV_")}


def _unit(path: Path) -> ConfigParser:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


def _instructions() -> list[tuple[str, str]]:
    """Return the instructions of the container file."""
    text = re.sub(r"\\\n", " ", CONTAINER.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def _unknown(arguments: list[str]) -> list[str]:
    """Return the options of a command that it does not have."""
    command: type[Application] = GPUPoolApp.subcommands[arguments[0]][0]
    traits = {
        f"{kind.__name__}.{name}" for kind in (command, *command.classes) for name in kind.class_trait_names()
    }
    known = {*command.aliases, *command.flags, *traits}
    options = [it.removeprefix("--").partition("=")[0] for it in arguments if it.startswith("--")]
    return [it for it in options if it not in known]


def test_there_are_units_for_both_processes() -> None:
    assert [it.name for it in UNITS] == ["gpupool-agent.service", "gpupool-serve.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda it: it.name)
def test_a_unit_starts_a_command_that_exists_in_private_directories(path: Path) -> None:
    service = _unit(path)["Service"]
    program, subcommand, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name == "jupyter"
    assert subcommand == "gpupool"
    assert not _unknown(arguments)
    assert service["RuntimeDirectoryMode"] == service["StateDirectoryMode"] == "0700"
    variables = re.findall(r"^Environment=(\w+)=", path.read_text(), re.MULTILINE)
    assert set(variables) == {names.ENV_RUNTIME_DIR, names.ENV_DATA_DIR}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
@pytest.mark.parametrize("path", UNITS, ids=lambda it: it.name)
def test_systemd_understands_the_unit(path: Path, tmp_path: Path) -> None:
    # what it starts is not there, so something that is takes its place
    text = path.read_text().replace("/opt/gpupool/bin/jupyter", shutil.which("true") or "/bin/true")
    unit = tmp_path / path.name
    unit.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert not complaints


def test_the_container_starts_a_command_that_exists_as_an_ordinary_user() -> None:
    found = _instructions()
    words = {word for word, _ in found}
    assert words <= {"FROM", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
    last = dict(found)
    assert json.loads(last["ENTRYPOINT"])[1:] == ["gpupool"]
    assert not _unknown(json.loads(last["CMD"]))
    assert last["USER"] not in ("root", "0")
    assert last["EXPOSE"].split() == [str(API_PORT), str(CONTROL_PORT)]
    assert {it.partition("=")[0] for it in last["ENV"].split()} <= KNOWN_VARIABLES


def test_the_page_lists_the_ports_and_names_commands_that_exist() -> None:
    page = (DOCS / "cluster.md").read_text()
    assert all(f"| {port} (" in page for port in (API_PORT, CONTROL_PORT, AGENT_PORT))
    commands = re.findall(r"jupyter gpupool (\w+)(?: (\w+))?([^`#\n|]*)", page)
    assert len(commands) > 10
    for command, below, rest in commands:
        further = vars(GPUPoolApp.subcommands[command][0]).get("subcommands")
        if further:
            assert not below or below in further
        else:
            assert not _unknown([command, *re.findall(r"--[\w.-]+", rest)])


def test_the_batch_job_starts_an_agent_that_exists_with_a_name_and_directories_of_its_own(
    tmp_path: Path,
) -> None:
    """Run the script with an ``srun`` and a ``jupyter`` that write down what they are told."""
    text = (DOCS / "deploy" / "gpupool-agent.sbatch").read_text()
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for name, does in (
        ("srun", 'exec "$@"'),
        ("jupyter", 'printf "%s\\n" "$@"; env | grep ^JUPYTER_GPUPOOL'),
    ):
        (bin_dir / name).write_text(f"#!/bin/sh\n{does}\n")
        (bin_dir / name).chmod(0o755)
    script = tmp_path / "job.sbatch"
    script.write_text(text.replace("/opt/gpupool/bin/jupyter", str(bin_dir / "jupyter")))
    slurm = {
        "SLURM_JOB_ID": "17",
        "SLURMD_NODENAME": "n5",
        "HOME": "/home/ann",
        "PATH": f"{bin_dir}:/usr/bin:/bin",
    }
    done = subprocess.run(["bash", str(script)], env=slurm, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    told = [word for word in words if not word.startswith("JUPYTER_GPUPOOL")]
    assert told[:2] == ["gpupool", "agent"]
    assert _unknown(told[1:]) == []
    assert told[told.index("--node") + 1] == "n5-17"
    assert told[told.index("--join-token-file") + 1] == "/home/ann/.gpupool-join-token"
    assert {word.partition("=")[0] for word in words} - set(told) <= KNOWN_VARIABLES
    assert all("17" in word for word in words if word not in told)
