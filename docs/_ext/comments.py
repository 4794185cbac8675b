"""Reads what stands beside constants and enumeration members in ``#:`` comments."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

_ASSIGNMENT = re.compile(r'^\s*([A-Z][A-Z_]*) = "?([^"#]*)"?\s*(?:#: (.*?))?(?:\s*# .*)?$')


def read_comments(source: type | ModuleType) -> dict[str, tuple[str, str]]:
    """Return name -> (value, comment) of each constant: the comment lies above it, or at its end."""
    found: dict[str, tuple[str, str]] = {}
    above: list[str] = []
    for line in inspect.getsource(source).splitlines():
        stripped = line.strip()
        if stripped.startswith("#: "):
            above.append(stripped.removeprefix("#: "))
        elif match := _ASSIGNMENT.match(line):
            found[match[1]] = (match[2].strip(), match[3] or " ".join(above))
            above = []
        else:
            above = []
    return found


def sentence(text: str) -> str:
    """Return a comment as a sentence that may stand in a Markdown table."""
    text = text.strip().rstrip(".")
    return (text[:1].upper() + text[1:] + ".").replace("|", "\\|") if text else ""
