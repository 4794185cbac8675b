"""What an import costs and brings along, and that everything imports where Linux's own calls are missing."""

from __future__ import annotations

import statistics
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "jupyter_gpupool"
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.name != "__main__.py" and "labextension" not in path.parts
)
#: Modules that only other platforms lack; ours may import them inside functions only.
LINUX_ONLY = ("fcntl", "resource", "pwd", "grp", "termios")
#: What `import jupyter_gpupool` may cost beyond an empty Python on a busy machine, seconds. The goal is
#: 0.05, which benchmarks/footprint.py measures.
IMPORT_BUDGET_SECONDS = 0.15

#: Hides them from our modules only: the libraries below us know their own ways on each platform. The import
#: statement itself is replaced, since a library may have put the real module into sys.modules already.
_HIDE_LINUX = f"""
import builtins, importlib, os, signal, socket, sys
real_import = builtins.__import__

def import_without_linux(name, globals=None, *rest, **more):
    importer = (globals or {{}}).get("__name__", "")
    if name in {LINUX_ONLY!r} and importer.startswith("jupyter_gpupool"):
        raise ModuleNotFoundError(f"No module named {{name!r}} on this platform", name=name)
    return real_import(name, globals, *rest, **more)

builtins.__import__ = import_without_linux
for module, name in ((os, "pidfd_open"), (os, "sched_setaffinity"), (os, "sched_getaffinity"),
                     (signal, "pidfd_send_signal"), (socket, "SO_PEERCRED")):
    if hasattr(module, name):
        delattr(module, name)
"""


def python(script: str, *flags: str) -> str:
    """Run a script in a fresh process and return what it printed."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_after(statement: str) -> set[str]:
    """Return the top-level names of all modules that a statement loads."""
    names = python(f"{statement}\nimport sys\nprint(*sys.modules)")
    return {name.partition(".")[0] for name in names.split()}


def test_importing_the_package_loads_no_library() -> None:
    loaded = loaded_after("import jupyter_gpupool")
    assert not loaded & {
        "dask",
        "distributed",
        "torch",
        "tornado",
        "msgspec",
        "IPython",
        "traitlets",
        "numpy",
    }


def test_importing_the_package_is_quick() -> None:
    script = "import time; t=time.perf_counter(); import jupyter_gpupool; print(time.perf_counter()-t)"
    seconds = statistics.median(float(python(script)) for _ in range(5))
    assert seconds < IMPORT_BUDGET_SECONDS


@pytest.mark.parametrize(
    ("module", "foreign"),
    [
        (
            "jupyter_gpupool.kernel.api",
            {"dask", "distributed", "torch", "jupyter_server", "uvicorn", "pynvml"},
        ),
        (
            "jupyter_gpupool.kernel.extension",
            {"dask", "distributed", "torch", "jupyter_server", "uvicorn", "pynvml"},
        ),
        ("jupyter_gpupool.server.app", {"dask", "distributed", "torch", "uvicorn", "pynvml"}),
        ("jupyter_gpupool.server.provisioner", {"dask", "distributed", "torch", "uvicorn", "pynvml"}),
        ("jupyter_gpupool.app", {"dask", "distributed", "torch"}),
        ("jupyter_gpupool.service.main", {"torch"}),
        ("jupyter_gpupool.cluster.agent", {"torch"}),
    ],
)
def test_a_process_does_not_carry_what_is_not_its_business(module: str, foreign: set[str]) -> None:
    assert not loaded_after(f"import {module}") & foreign


def test_every_module_imports_where_linux_is_hidden() -> None:
    script = _HIDE_LINUX + textwrap.dedent(
        f"""
        failed = []
        for name in {MODULES!r}:
            try:
                importlib.import_module(name)
            except (ImportError, AttributeError) as error:
                failed.append(f"{{name}}: {{error}}")
        print("\\n".join(failed))
        """
    )
    assert python(script).strip() == ""


def test_the_hidden_modules_are_really_hidden_from_our_code(tmp_path: Path) -> None:
    (tmp_path / "jupyter_gpupool_probe.py").write_text("import fcntl\n")
    script = _HIDE_LINUX + f"sys.path.insert(0, {str(tmp_path)!r})\nimport jupyter_gpupool_probe\n"
    with pytest.raises(AssertionError, match="No module named 'fcntl' on this platform"):
        python(script)
