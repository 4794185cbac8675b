"""What the house has to look like: sizes, doors, names and words, checked on the source itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from jupyter_gpupool.core.errors import GPUPoolError

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "jupyter_gpupool"
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
#: The door of each foreign library: the folders or modules that may import it, seen from the package.
DOORS = {
    "pynvml": ("backends",),
    "urllib3": ("client",),
    "sqlite3": ("cluster", "state"),
    "prometheus_client": ("service",),
    "cryptography": ("cluster",),
    "dask": ("cluster", "service", "sessions"),
    "distributed": ("cluster", "service", "sessions"),
    "IPython": ("kernel",),
    "uvicorn": ("service",),
    "rich": ("kernel", "selftest", "service", "sim", "cli"),
    "yaml": ("cluster",),
    **dict.fromkeys(("blake3", "fsspec", "xxhash", "zstandard"), ("state",)),
    **dict.fromkeys(("pandas", "matplotlib"), ("state",)),
    "pyarrow": ("cli", "state"),
    "numpy": ("sim", "state"),
}
#: Errors of the core that no request meets: bugs, which are a 500, and what only agents' reports raise.
NEVER_ANSWERED = {"InvariantBroken", "DuplicateLease", "StaleReport"}


def sources() -> list[Path]:
    """Return the package's Python files."""
    return sorted(
        path for path in PACKAGE.rglob("*.py") if "labextension" not in path.relative_to(PACKAGE).parts
    )


def front_end() -> list[Path]:
    """Return the front end's source files."""
    return sorted(
        path for path in (ROOT / "labextension" / "src").rglob("*") if path.suffix in {".ts", ".tsx"}
    )


def everything_written() -> list[Path]:
    """Return all source files that people wrote."""
    ours = [*sources(), *front_end()]
    for folder in ("tests", "benchmarks", ".ci"):
        ours += (ROOT / folder).rglob("*.py")
    return sorted(ours)


def shown(path: Path) -> str:
    """Return a path as a person of this repository writes it."""
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported_names(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each absolutely imported module with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node.lineno


def test_no_file_is_longer_than_a_person_reads() -> None:
    long = {
        shown(path): n
        for path in everything_written()
        if (n := len(path.read_text().splitlines())) > MAX_FILE_LINES
    }
    assert not long


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{shown(path)}:{node.lineno} {node.name} has {size} lines"
        for path in everything_written()
        if path.suffix == ".py"
        for node in functions(path)
        if (size := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not long


def test_most_functions_are_small() -> None:
    sizes = [(node.end_lineno or 0) - node.lineno + 1 for path in sources() for node in functions(path)]
    small = sum(size <= 25 for size in sizes)
    assert small >= 0.85 * len(sizes), f"{small} of {len(sizes)} functions have at most 25 lines"


def test_every_module_states_its_rule() -> None:
    silent = [shown(path) for path in sources() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent


def test_our_own_code_is_never_mocked() -> None:
    call = re.compile(
        r"""patch(?:\.object|\.dict)?\(\s*["']?jupyter_gpupool|\bMagicMock\b|\bcreate_autospec\b"""
    )
    mocking = [
        shown(path)
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__) and call.search(path.read_text())
    ]
    assert not mocking


def test_nothing_sleeps_on_an_event_loop() -> None:
    sleeping = []
    for path in sources():
        tree = ast.parse(path.read_text())
        if not any(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(tree)):
            continue
        sleeping += [f"{shown(path)}:{node.lineno}" for node in ast.walk(tree) if _is_blocking_sleep(node)]
    assert not sleeping


def _is_blocking_sleep(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "time"
    )


def test_each_foreign_library_has_its_door() -> None:
    strays = []
    for path in sources():
        first = path.relative_to(PACKAGE).parts[0]
        for name, line in imported_names(path):
            doors = DOORS.get(name.partition(".")[0])
            if doors is not None and first not in doors:
                strays.append(f"{shown(path)}:{line} imports {name}; only {', '.join(doors)} may")
    assert not strays


def test_torch_is_imported_inside_functions_only() -> None:
    early = [
        f"{shown(path)}:{node.lineno}"
        for path in sources()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom) and re.search(r"\btorch\b", ast.unparse(node))
    ]
    assert not early


def test_the_core_asks_nobody_for_the_time() -> None:
    impure = {
        "asyncio",
        "os",
        "time",
        "random",
        "socket",
        "threading",
        "logging",
        "secrets",
        "uuid",
        "subprocess",
    }
    asking = [
        f"{shown(path)}:{line} {name}"
        for path in (PACKAGE / "core").rglob("*.py")
        for name, line in imported_names(path)
        if name.partition(".")[0] in impure
    ]
    assert not asking


def test_public_names_are_listed_and_exist() -> None:
    package = importlib.import_module("jupyter_gpupool")
    assert sorted(package.__all__) == dir(package)
    missing = [name for name in package.__all__ if not hasattr(package, name)]
    assert not missing


def _import_all() -> None:
    for path in sources():
        if path.name != "__main__.py":
            importlib.import_module(
                ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            )


def all_errors() -> list[type[GPUPoolError]]:
    """Return every error class of the project."""
    _import_all()
    found: list[type[GPUPoolError]] = []
    waiting = [GPUPoolError]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting += kind.__subclasses__()
    return [kind for kind in found if kind.__module__.startswith("jupyter_gpupool")]


def test_every_error_says_when_it_is_raised_and_what_to_do() -> None:
    silent = [kind.__name__ for kind in all_errors() if len((kind.__dict__.get("__doc__") or "").split()) < 5]
    assert not silent


def test_every_error_that_a_request_can_meet_has_a_status() -> None:
    status = importlib.import_module("jupyter_gpupool.service.errors").STATUS
    answering = re.compile(
        r"jupyter_gpupool\.(core\.errors|service\.(errors|auth|idempotency|validate|desk|handlers.*))"
    )
    without = [
        f"{kind.__name__} ({kind.code})"
        for kind in all_errors()
        if answering.fullmatch(kind.__module__)
        and not kind.__subclasses__()
        and kind.code not in status
        and kind.__name__ not in NEVER_ANSWERED
    ]
    assert not without
    assert not set(status) - {kind.code for kind in all_errors()}, "a status for an error that does not exist"


def test_constants_of_the_protocol_say_what_they_mean() -> None:
    module = importlib.import_module("jupyter_gpupool.protocol.names")
    lines = inspect.getsource(module).splitlines()
    bare = [
        line
        for before, line in pairwise(lines)
        if re.match(r"[A-Z_]+ = ", line) and not before.startswith("#:")
    ]
    assert not bare


def tracked_files() -> list[Path]:
    """Return the files that git knows; skips outside a repository."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this is no git repository: {error}")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_nothing_names_a_registry_or_holds_a_key() -> None:
    forbidden = re.compile(
        r"registry\.(?:npmjs|yarnpkg)\.|files\.pythonhosted|pypi\.org/simple|\"resolved\":"
        r"|BEGIN (?:RSA |EC )?PRIVATE KEY|--extra-index-url|--index-url"
    )
    found = []
    for path in tracked_files():
        if path == Path(__file__) or path.suffix in {".png", ".gif", ".ico"}:
            continue
        if match := forbidden.search(path.read_text(errors="replace")):
            found.append(f"{shown(path)}: {match[0]}")
    assert not found


def test_nothing_is_left_to_do() -> None:
    marker = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
    left = [
        f"{shown(path)}:{number}"
        for path in everything_written()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marker.search(line)
    ]
    assert not left
