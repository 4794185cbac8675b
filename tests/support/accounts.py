"""Accounts that a test makes and removes, and a sudo and a systemd-run that stand in for the real ones."""

from __future__ import annotations

import itertools
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_numbers = itertools.count(1)
#: Takes the words that the launcher gives sudo, and no others; root needs no password to become somebody.
SUDO = """#!/bin/sh
[ "$1 $2 $4" = "-n -u --" ] || { echo "sudo: a password is required" >&2; exit 1; }
user=$3; shift 4
exec runuser -u "$user" -- "$@"
"""
#: Writes down what it was told, and does it.
SYSTEMD_RUN = """#!/bin/sh
printf '%s\\n' "$@" > "$(dirname "$0")/told"
for word; do shift; case "$word" in --uid=*) user=${word#--uid=};; --) break;; esac; done
exec runuser -u "$user" -- "$@"
"""


@contextmanager
def account(name: str, *options: str) -> Iterator[pwd.struct_passwd]:
    """Make an account for as long as a test lasts."""
    subprocess.run(["useradd", "-M", *options, name], check=True, capture_output=True, timeout=60)
    try:
        yield pwd.getpwnam(name)
    finally:
        subprocess.run(["userdel", "-f", name], check=True, capture_output=True, timeout=60)


def unique(stem: str) -> str:
    """Return the name of an account that no other test makes, in this process or another."""
    return f"jgp{stem}{os.getpid()}x{next(_numbers)}"


def program(directory: Path, name: str, text: str) -> Path:
    """Write a program that stands in for another."""
    path = directory / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def see_that_it_can_run(uid: int, gid: int, code: str = "pass") -> None:
    """Skip where another account cannot reach this Python and our package: below a private home."""
    try:
        failed = subprocess.run(
            [sys.executable, "-c", code], user=uid, group=gid, cwd="/", capture_output=True, timeout=60
        ).returncode
    except OSError:
        failed = 1
    if failed:
        pytest.skip(
            f"other accounts cannot run {sys.executable} with what it needs: it lies in a private place"
        )
