"""Sharing rules as an administrator writes them: in a YAML file, or as a list in the configuration.

Rule of this module: everything is checked when the agent starts, and an error says where it is, with file
and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_gpupool.backends.rules import Sharing, SharingRule
from jupyter_gpupool.cluster.written import Placed, place_value, read_placed
from jupyter_gpupool.core.errors import GPUPoolError

#: What a rule may have.
_KEYS = ("model", "sharing", "frameworks")
#: What a file may have beside its rules, as such files have it elsewhere.
_TOP_KEYS = ("version", "sharing")
#: "1.7" or ">=1.7".
_VERSION = re.compile(r"(?:>=)?\s*(\d+(?:\.\d+)*)")
#: Distributions that people know by another name than we do.
_SAME = {"torch": "pytorch"}


class BadSharingRules(GPUPoolError):
    """Raised when sharing rules cannot be understood. The message says where, and what is possible."""

    code = "bad_sharing_rules"


def read_file(path: Path) -> tuple[SharingRule, ...]:
    """Read the rules of a file.

    Raises
    ------
    BadSharingRules
        If it cannot be read or understood.
    """
    root = read_placed(path, BadSharingRules)
    return () if root is None else _rules(_rule_list(root))


def from_list(rules: Sequence[Mapping[str, Any]], trait: str) -> tuple[SharingRule, ...]:
    """Read rules that were given as a list of dictionaries.

    Raises
    ------
    BadSharingRules
        If they cannot be understood; the message names ``trait`` and the number of the rule.
    """
    placed = [
        place_value(rule, f"{trait}, rule {number}", BadSharingRules) for number, rule in enumerate(rules, 1)
    ]
    return _rules(Placed(placed, trait, BadSharingRules))


def _rule_list(root: Placed) -> Placed:
    """Return the list of rules of a file: it is the file, or is called ``sharing`` in it."""
    if not isinstance(root.value, dict):
        return root
    for key, item in root.value.items():
        if key not in _TOP_KEYS:
            raise item.wrong(f"“{key}” is not known here; a file has {' and '.join(_TOP_KEYS)}.")
    rules: Placed = root.value.get("sharing", Placed([], root.where, BadSharingRules))
    return rules


def _rules(listed: Placed) -> tuple[SharingRule, ...]:
    if not isinstance(listed.value, list):
        raise listed.wrong("the rules must be a list, each beginning with “- model: …”.")
    return tuple(_rule(entry) for entry in listed.value)


def _rule(entry: Placed) -> SharingRule:
    if not isinstance(entry.value, dict):
        raise entry.wrong(f"a rule must have {', '.join(_KEYS)}.")
    for key, item in entry.value.items():
        if key not in _KEYS:
            raise item.wrong(f"“{key}” is not known; a rule has {', '.join(_KEYS)}.")
    for key in ("model", "sharing"):
        if key not in entry.value:
            raise entry.wrong(f"the rule has no “{key}”.")
    model = entry.value["model"]
    if not isinstance(model.value, str) or not model.value.strip():
        raise model.wrong('“model” must be a pattern for models\' names, such as "*A100*".')
    frameworks = tuple(_frameworks(entry.value.get("frameworks", Placed({}, entry.where, BadSharingRules))))
    sharing = _sharing(entry.value["sharing"])
    if frameworks and sharing not in {Sharing.AUTO, Sharing.TIMESLICE}:
        raise entry.value["frameworks"].wrong(
            f"“frameworks” says who may time-slice, but the rule shares by {sharing.value}."
        )
    return SharingRule(model=model.value.strip(), sharing=sharing, frameworks=frameworks)


def _sharing(item: Placed) -> Sharing:
    words = [each.value for each in Sharing]
    if item.value not in words:
        raise item.wrong(f"“sharing” is “{item.value}”; it must be one of {', '.join(words)}.")
    return Sharing(item.value)


def _frameworks(item: Placed) -> Iterator[tuple[str, str]]:
    if not isinstance(item.value, dict):
        raise item.wrong('“frameworks” must map names to oldest versions, such as pytorch: ">=1.7".')
    for name, oldest in item.value.items():
        found = _VERSION.fullmatch(str(oldest.value).strip())
        if found is None:
            raise oldest.wrong(f'the oldest version of {name} is “{oldest.value}”; write it as ">=1.7".')
        yield _SAME.get(str(name), str(name)), str(found[1])
