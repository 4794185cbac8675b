"""Looking at snapshots and comparing them, without executing anything of them.

Rule of this module: the stream is read as symbols only, so also a snapshot of somebody else can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jupyter_gpupool.state.graph import packages
from jupyter_gpupool.state.graph.sameness import Sameness
from jupyter_gpupool.state.graph.symbols import Symbols, made
from jupyter_gpupool.state.model import Details, Manifest, Variable
from jupyter_gpupool.state.snapshot import Snapshot

_MAKE_CODE = "jupyter_gpupool.state.graph.code.functions.make_code"
_MAKE_FUNCTION = "jupyter_gpupool.state.graph.code.functions.make_function"
_NAMED = "jupyter_gpupool.state.graph.known.named"
_IMPORT = "jupyter_gpupool.state.graph.code.modules.import_module"
_OURS = "jupyter_gpupool.state."


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What is different in a snapshot from another one.

    Attributes
    ----------
    added, removed : list of Variable
        Variables that only the second has, and that only the first has.
    changed : list of (Variable, Variable)
        Variables that both have, with another value.
    same : list of str
        Names whose values are the same.
    """

    added: list[Variable] = []
    removed: list[Variable] = []
    changed: list[tuple[Variable, Variable]] = []
    same: list[str] = []

    def text(self) -> str:
        """Return the difference for people, one line for each variable."""
        lines = [f"+ {_line(one)}" for one in self.added]
        lines += [f"- {_line(one)}" for one in self.removed]
        lines += [f"~ {_line(then)} -> {_said(now)}" for then, now in self.changed]
        lines.append(f"{len(self.same):,} the same.")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a snapshot.

    Attributes
    ----------
    manifest : Manifest
        Its outside.
    trusted : bool
        Whether one of this owner's keys signed it.
    variables : list of Variable
        Its variables.
    sections : list of str
        What of the process it holds.
    imports : list of str
        What a restore would import, by module and name.
    functions : list of str
        Functions that it holds.
    sources : dict of str to str
        Texts of cells that its functions were written in, by the name of their file.
    differences : list of str
        What is another version here.
    """

    manifest: Manifest
    trusted: bool
    variables: list[Variable]
    sections: list[str] = []
    imports: list[str] = []
    functions: list[str] = []
    sources: dict[str, str] = {}
    differences: list[str] = []


def compare(first: Snapshot, second: Snapshot) -> Difference:
    """Compare two snapshots by variable."""
    then, now = _digests(first), _digests(second)
    both = [name for name in then if name in now]
    return Difference(
        added=[variable for name, (variable, _) in now.items() if name not in then],
        removed=[variable for name, (variable, _) in then.items() if name not in now],
        changed=[(then[name][0], now[name][0]) for name in both if then[name][1] != now[name][1]],
        same=[name for name in both if then[name][1] == now[name][1]],
    )


def look(snapshot: Snapshot) -> Inspection:
    """Look at what is in a snapshot."""
    with snapshot.store.inspect(snapshot.id) as reader:
        details = reader.details()
        with reader.stream(details.stream) as stream:
            symbols = Symbols(stream)
            for _ in _dumps(symbols, details):
                continue
            for _ in details.sections:
                symbols.load()
    calls = [found for call in symbols.calls if (found := made(call)) is not None]
    return Inspection(
        manifest=reader.manifest,
        trusted=reader.trusted,
        variables=details.variables,
        sections=details.sections,
        imports=sorted(_imports(symbols, calls)),
        functions=[str(arguments[2]) for name, arguments in calls if name == _MAKE_FUNCTION],
        sources=dict(_sources(calls)),
        differences=packages.differences(reader.manifest.environment),
    )


def _digests(snapshot: Snapshot) -> dict[str, tuple[Variable, bytes]]:
    with snapshot.store.inspect(snapshot.id) as reader:
        details = reader.details()
        sameness = Sameness(details)
        with reader.stream(details.stream) as stream:
            values = list(_dumps(Symbols(stream), details))
    return {variable.name: (variable, sameness.digest(value)) for variable, value in values}


def _dumps(symbols: Symbols, details: Details) -> Iterator[tuple[Variable, object]]:
    """Read the stream up to the last variable."""
    for _ in ("objects of the process", "origins", "first sections", "definitions"):
        symbols.load()
    values = [(variable, symbols.load()) for variable in details.variables]
    for shell in symbols.load().parts:  # sets and dicts that were made empty get what they hold
        container, held = shell.parts
        container.parts.append(held)
    yield from values


def _imports(symbols: Symbols, calls: list[tuple[str, list[object]]]) -> set[str]:
    found = {name for name in symbols.globals if not name.startswith(_OURS)}
    found |= {f"{arguments[0]}.{arguments[1]}" for name, arguments in calls if name == _NAMED}
    return found | {str(arguments[0]) for name, arguments in calls if name == _IMPORT}


def _sources(calls: list[tuple[str, list[object]]]) -> Iterator[tuple[str, str]]:
    for name, arguments in calls:
        if name == _MAKE_CODE and isinstance(arguments[3], str):
            yield str(arguments[2]), arguments[3]


def _line(one: Variable) -> str:
    return f"{one.name} ({_said(one)})"


def _said(one: Variable) -> str:
    return f"{one.type_name}, {one.summary}" if one.summary else one.type_name
