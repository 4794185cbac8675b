"""Options of torch.

Rule of this module: what says how numbers come out is saved; devices and threads belong to the machine.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

from jupyter_gpupool.state.process.settings import Settings

_PRINT: dict[str, Any] = {
    "precision": 4,
    "threshold": 1000,
    "edgeitems": 3,
    "linewidth": 80,
    "sci_mode": None,
}
_FLAGS = {
    "backends.cudnn.benchmark": False,
    "backends.cudnn.deterministic": False,
    "backends.cudnn.enabled": True,
    "backends.cudnn.allow_tf32": True,
    "backends.cuda.matmul.allow_tf32": False,
}


def torch_settings() -> list[Settings]:
    """Return the settings of torch."""
    torch: Any = importlib.import_module("torch")
    options = torch._tensor_str.PRINT_OPTS
    return [
        Settings(
            name="torch.set_printoptions",
            read=lambda: {key: getattr(options, key) for key in _PRINT if hasattr(options, key)},
            defaults=lambda: _PRINT,
            write=lambda key, value: setattr(options, key, value),
        ),
        _modes(torch),
        _flags(torch),
    ]


def _modes(torch: Any) -> Settings:
    readers: dict[str, Callable[[], Any]] = {
        "default dtype": torch.get_default_dtype,
        "grad": torch.is_grad_enabled,
        "deterministic": lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "anomalies": lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "float32 matmul": torch.get_float32_matmul_precision,
    }
    writers: dict[str, Callable[[Any], object]] = {
        "default dtype": torch.set_default_dtype,
        "grad": torch.set_grad_enabled,
        "deterministic": lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
        "anomalies": lambda value: torch.autograd.set_detect_anomaly(*value),
        "float32 matmul": torch.set_float32_matmul_precision,
    }
    beginning = {
        "default dtype": torch.float32,
        "grad": True,
        "deterministic": (False, False),
        "anomalies": (False, True),
        "float32 matmul": "highest",
    }
    return Settings(
        name="torch",
        read=lambda: {key: read() for key, read in readers.items()},
        defaults=lambda: beginning,
        write=lambda key, value: writers[key](value),
    )


def _flags(torch: Any) -> Settings:
    def read() -> dict[str, Any]:
        found = {}
        for name in _FLAGS:
            try:
                found[name] = operator.attrgetter(name)(torch)
            except (AttributeError, RuntimeError):
                continue  # not in this build
        return found

    def write(name: str, value: Any) -> None:
        place, _, last = name.rpartition(".")
        setattr(operator.attrgetter(place)(torch), last, value)

    return Settings(name="torch", read=read, defaults=lambda: _FLAGS, write=write)
