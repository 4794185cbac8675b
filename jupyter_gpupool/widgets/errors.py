"""What can go wrong with widgets."""

from __future__ import annotations

from importlib.util import find_spec

from jupyter_gpupool.core.errors import GPUPoolError

#: What the widgets are made of.
_NEEDED = ("anywidget", "ipywidgets")


class WidgetsMissing(GPUPoolError):
    """Raised when this kernel's environment cannot make widgets. Install what the message names."""

    code = "widgets_missing"


def require_widgets(what: str) -> None:
    """See that widgets can be made.

    Parameters
    ----------
    what : str
        For what they are needed, as somebody typed it.

    Raises
    ------
    WidgetsMissing
        If they cannot.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise WidgetsMissing(
            f"{what} needs {' and '.join(missing)}, which this kernel does not have.",
            hint='Run `%pip install "jupyter_gpupool[widgets]"`, and restart the kernel.',
        )
