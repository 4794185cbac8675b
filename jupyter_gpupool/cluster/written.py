"""What administrators write into YAML files, with the place of every value.

Rules of this module: nothing is interpreted here, scalars stay as they were written; an error says file and
line. The only door to PyYAML, which is opened only where there is a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_gpupool.core.errors import GPUPoolError


@dataclass(frozen=True, slots=True)
class Placed:
    """A value, and where it was written.

    Attributes
    ----------
    value : object
        Text, number, list of Placed, or dict of text to Placed.
    where : str
        For a person: ``/etc/gpupool-sharing.yaml, line 4``.
    error : type of GPUPoolError
        What is raised when it is wrong.
    """

    value: Any
    where: str
    error: type[GPUPoolError] = GPUPoolError

    def wrong(self, what: str) -> GPUPoolError:
        """Return an error about it."""
        return self.error(f"{self.where}: {what}")

    def fields(self, what: str, known: tuple[str, ...]) -> Mapping[str, Placed]:
        """Return the entries of a dict that has no others than the known ones."""
        if not isinstance(self.value, dict):
            raise self.wrong(f"{what} must have {', '.join(known)}.")
        for key, item in self.value.items():
            if key not in known:
                raise item.wrong(f"“{key}” is not known; {what} has {', '.join(known)}.")
        return self.value

    def items(self, what: str) -> Iterator[Placed]:
        """Yield the entries of a list."""
        if not isinstance(self.value, list):
            raise self.wrong(f"{what} must be a list.")
        yield from self.value


def read_placed(path: Path, error: type[GPUPoolError]) -> Placed | None:
    """Read a YAML file; None when it is empty.

    Raises
    ------
    GPUPoolError
        Of the given type, if it cannot be read or is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as fault:
        raise error(f"{path} cannot be read: {fault.strerror}.") from fault
    except UnicodeDecodeError as fault:
        raise error(f"{path} is not text in UTF-8.") from fault
    return read_placed_text(text, path, error)


def read_placed_text(text: str, path: Path | str, error: type[GPUPoolError]) -> Placed | None:
    """Read YAML; None when it is empty.

    Parameters
    ----------
    text : str
        What was written.
    path : Path or str
        What it is called in errors.
    error : type of GPUPoolError
        What they are.

    Raises
    ------
    GPUPoolError
        Of the given type, if it is not YAML.
    """
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as fault:
        line = fault.problem_mark.line + 1 if fault.problem_mark else 1
        alias = "alias" in f"{fault.context} {fault.problem}"
        hint = "Put patterns in quotes: a * is something else in YAML." if alias else ""
        raise error(f"{path}, line {line}: {fault.problem}.", hint=hint) from fault
    except yaml.YAMLError as fault:  # characters that no YAML may have
        raise error(f"{path} is not YAML: {str(fault).splitlines()[0]}.") from fault
    return None if root is None else _placed(root, path, error)


def _placed(node: Any, path: Path | str, error: type[GPUPoolError]) -> Placed:
    """Turn a node of YAML into values that know their lines; scalars stay as they were written."""
    import yaml

    where = f"{path}, line {node.start_mark.line + 1}"
    if isinstance(node, yaml.SequenceNode):
        return Placed([_placed(item, path, error) for item in node.value], where, error)
    if isinstance(node, yaml.MappingNode):
        entries = {str(key.value): _placed(item, path, error) for key, item in node.value}
        return Placed(entries, where, error)
    return Placed(node.value, where, error)


def place_value(value: Any, where: str, error: type[GPUPoolError]) -> Placed:
    """Do the same for values of Python."""
    if isinstance(value, Mapping):
        entries = {str(key): place_value(item, where, error) for key, item in value.items()}
        return Placed(entries, where, error)
    return Placed(str(value) if isinstance(value, float | int) else value, where, error)
