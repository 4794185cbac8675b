"""Sharing rules as an administrator writes them: in a YAML file, or as a list in the configuration.

Rules of this module: everything is checked when the agent starts, and an error says where it is, with file
and line; the only door to PyYAML, which is opened only where there is a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_gpupool.backends.rules import Sharing, SharingRule
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


@dataclass(frozen=True, slots=True)
class Placed:
    """A value, and where it was written.

    Attributes
    ----------
    value : object
        Text, number, list of Placed, or dict of text to Placed.
    where : str
        For a person: ``/etc/gpupool-sharing.yaml, line 4``.
    """

    value: Any
    where: str

    def wrong(self, what: str) -> BadSharingRules:
        """Return an error about it."""
        return BadSharingRules(f"{self.where}: {what}")


def read_file(path: Path) -> tuple[SharingRule, ...]:
    """Read the rules of a file.

    Raises
    ------
    BadSharingRules
        If it cannot be read or understood.
    """
    import yaml

    try:
        root = yaml.compose(path.read_text(), Loader=yaml.SafeLoader)
    except OSError as error:
        raise BadSharingRules(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadSharingRules(f"{path} is not text in UTF-8.") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        alias = "alias" in f"{error.context} {error.problem}"
        hint = "Put patterns in quotes: a * is something else in YAML." if alias else ""
        raise BadSharingRules(f"{path}, line {line}: {error.problem}.", hint=hint) from error
    if root is None:
        return ()
    return _rules(_rule_list(_placed(root, path)))


def from_list(rules: Sequence[Mapping[str, Any]], trait: str) -> tuple[SharingRule, ...]:
    """Read rules that were given as a list of dictionaries.

    Raises
    ------
    BadSharingRules
        If they cannot be understood; the message names ``trait`` and the number of the rule.
    """
    placed = [_placed_value(rule, f"{trait}, rule {number}") for number, rule in enumerate(rules, 1)]
    return _rules(Placed(placed, trait))


def _rule_list(root: Placed) -> Placed:
    """Return the list of rules of a file: it is the file, or is called ``sharing`` in it."""
    if not isinstance(root.value, dict):
        return root
    for key, item in root.value.items():
        if key not in _TOP_KEYS:
            raise item.wrong(f"“{key}” is not known here; a file has {' and '.join(_TOP_KEYS)}.")
    rules: Placed = root.value.get("sharing", Placed([], root.where))
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
    frameworks = tuple(_frameworks(entry.value.get("frameworks", Placed({}, entry.where))))
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


def _placed(node: Any, path: Path) -> Placed:
    """Turn a node of YAML into values that know their lines; scalars stay as they were written."""
    import yaml

    where = f"{path}, line {node.start_mark.line + 1}"
    if isinstance(node, yaml.SequenceNode):
        return Placed([_placed(item, path) for item in node.value], where)
    if isinstance(node, yaml.MappingNode):
        return Placed({str(key.value): _placed(item, path) for key, item in node.value}, where)
    return Placed(node.value, where)


def _placed_value(value: Any, where: str) -> Placed:
    """Do the same for values of Python."""
    if isinstance(value, Mapping):
        return Placed({str(key): _placed_value(item, where) for key, item in value.items()}, where)
    return Placed(str(value) if isinstance(value, float | int) else value, where)
