"""The files around the code: that they parse, and that they name what exists."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_binder_installs_the_demo_and_its_start_page_exists() -> None:
    environment = yaml.safe_load((ROOT / "binder" / "environment.yml").read_text())
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pip == [".[demo,widgets]"]
    start_page = re.search(r"docs/examples/\S+\.ipynb", (ROOT / "binder" / "postBuild").read_text())
    assert start_page is not None
    assert (ROOT / start_page[0]).exists()


@pytest.mark.parametrize("script", [".ci/run", "binder/postBuild"])
def test_shell_scripts_parse_and_can_be_run(script: str) -> None:
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True, timeout=30)
    assert os.access(ROOT / script, os.X_OK)


def test_pre_commit_needs_no_network() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    assert {hook["language"] for repo in config["repos"] for hook in repo["hooks"]} == {"system"}


def test_the_demo_and_the_tests_pin_one_torch() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "torch==2.13.0" in extras["demo"]
    assert "jupyter_gpupool[demo,s3,widgets]" in extras["test"]


def test_the_front_ends_lock_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "labextension" / "package-lock.json").read_text()


def links_of(page: Path) -> list[str]:
    """Return the relative files that a Markdown page links to."""
    found = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    return [link for link in found if "://" not in link]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "benchmarks/README.md", "CHANGELOG.md"])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    broken = [link for link in links_of(ROOT / page) if not (ROOT / page).parent.joinpath(link).exists()]
    assert not broken


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_map_of_the_tree_names_what_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    named = re.findall(r"`((?:core|protocol|backends|cluster|service|client|kernel|server)/[\w./]*)`", text)
    missing = [name for name in named if not (ROOT / "jupyter_gpupool" / name).exists()]
    assert not missing
    targets = set(re.findall(r"make ([a-z-]+)", text)) - {"made"}
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets <= known


def test_the_verification_page_names_tests_that_exist() -> None:
    named = re.findall(r"`((?:tests|\.ci)/[\w./]+)`", (ROOT / "docs" / "verification.md").read_text())
    assert named
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing
