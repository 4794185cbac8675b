"""The one door to NVML: the only module that imports ``pynvml`` (of the distribution ``nvidia-ml-py``).

Rules of this module: opened lazily, and again after a fault; whatever NVML says comes out as a value or as
the reason why there is none, so nothing here raises on account of a driver; one function or one device that
fails takes no other with it.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from jupyter_gpupool.backends.readings import REASONS
from jupyter_gpupool.backends.readings import Reading as Reading
from jupyter_gpupool.backends.readings import Reason as Reason

#: What NVIDIA's driver installs.
_LIBRARY = "libnvidia-ml.so.1"
#: Shortest and longest pause between two tries to open NVML (again), seconds.
RETRY_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 60.0
#: NVML's return values that make us do something.
_SUCCESS, _UNINITIALIZED, _INVALID_ARGUMENT, _NOT_SUPPORTED = 0, 1, 2, 3
_INSUFFICIENT_SIZE, _FUNCTION_NOT_FOUND, _GPU_IS_LOST, _UNKNOWN = 7, 13, 15, 999
#: Functions that work on every GPU: "unknown error" from one of them means that the driver is gone.
_BASIC = frozenset(
    {
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetHandleByUUID",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetUUID",
    }
)


class NVML:
    """NVIDIA's management library, as far as it is there. Thread-safe.

    Parameters
    ----------
    library : str
        Path of a library to load in place of the driver's; empty for the driver's.
    clock : callable
        Seconds that only grow; decides when a failed try is repeated.
    """

    def __init__(self, library: str = "", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._library = library
        self._clock = clock
        self._lock = threading.RLock()
        self._binding: ModuleType | None = None
        self._errors: tuple[type[Exception], ...] = ()
        self._calls: dict[str, Callable[..., Any]] = {}
        self._handles: dict[str, Any] = {}
        self._up = False
        self._usable = False
        self._suspect = False
        self._problem = ""
        self._opened = -float("inf")
        self._next_try = -float("inf")
        self._pause = RETRY_SECONDS
        #: Grows at every (re)open; handles, event sets and samples of another generation are void.
        self.generation = 0

    def open(self) -> str:
        """Make NVML usable if it is not, and afresh after a fault; cheap when it is open.

        Returns
        -------
        str
            Why it is not usable, one clause; empty when it is.
        """
        if self._usable and not self._suspect:
            return ""
        with self._lock:
            if (self._usable and not self._suspect) or self._clock() < self._next_try:
                return "" if self._usable else self._problem
            self._shut()
            self._problem = self._start()
            self._opened = self._clock()
            self._next_try = self._opened + self._pause
            self._usable, self._suspect = not self._problem, False
            return self._problem

    def read(self, function: str, *args: Any, **kw: Any) -> Reading[Any]:
        """Call a function of NVML by its name; whatever the driver says, nothing is raised.

        Parameters
        ----------
        function : str
            As the binding calls it: ``nvmlDeviceGetTemperature``.
        """
        if not self._usable and (problem := self.open()):
            return Reading(None, problem)
        generation = self.generation
        call = self._calls.get(function) or self._find(function)
        if call is None:
            return Reading(None, Reason.BINDINGS_TOO_OLD)
        try:
            value = call(*args, **kw)
            return Reading(value.decode() if type(value) is bytes else value)
        except UnicodeDecodeError:
            return Reading(None, Reason.NOT_TEXT)
        except self._errors as error:
            return self._failed(generation, function, args, error)

    def handle(self, uuid: str) -> Reading[Any]:
        """Return the handle of a GPU or MIG instance, kept until NVML is opened again."""
        if problem := self.open():
            return Reading(None, problem)
        if (known := self._handles.get(uuid)) is not None:
            return Reading(known)
        found = self.read("nvmlDeviceGetHandleByUUID", uuid)
        if found.reason == Reason.NOT_FOUND:
            return Reading(None, Reason.LOST)
        if found.value is None:  # documented to fail when *any* GPU is lost
            found = Reading(self._search(uuid), found.reason)
        if found.value is None:
            return found
        self._handles[uuid] = found.value
        return Reading(found.value)

    def fields(self, handle: Any, ids: Iterable[int | tuple[int, int]]) -> list[Reading[int | float]]:
        """Read field values (``NVML_FI_…``, or pairs of them and a scope) in one call, each for itself."""
        wanted = list(ids)
        found = self.read("nvmlDeviceGetFieldValues", handle, wanted)
        if found.value is None:
            return [Reading(None, found.reason)] * len(wanted)
        return [self._field(one) for one in found.value]

    def native(self, function: str, *args: Any) -> Reading[int]:
        """Call a function of the C library itself, for what the binding reads wrongly.

        Returns
        -------
        Reading[int]
            0, or 7 when the buffer is too small for what there is.
        """
        if not self._usable and (problem := self.open()):
            return Reading(None, problem)
        generation, binding = self.generation, self._binding
        call = getattr(binding and binding.nvmlLib, function, None)
        if binding is None or call is None:
            return Reading(None, Reason.DRIVER_TOO_OLD)
        code = call(*args)
        if code in (_SUCCESS, _INSUFFICIENT_SIZE):
            return Reading(code)
        return self._failed(generation, function, args, binding.NVMLError(code))

    def constant(self, name: str) -> int | None:
        """Return a constant of the binding (``NVML_…``); None when it is too old to know it."""
        value = getattr(self._load_binding(), name, None)
        return value if isinstance(value, int) else None

    def structure(self, name: str, **values: Any) -> Any | None:
        """Return a new C structure of the binding; None when it is too old to know it."""
        kind = getattr(self._load_binding(), name, None)
        if kind is None:
            return None
        made = kind()
        for field, value in values.items():
            setattr(made, field, value)
        return made

    def reason(self, code: int) -> str:
        """Return the clause for a return value of NVML that came inside an answer."""
        known = REASONS.get(code)
        return known if known is not None else f"the driver says: {self._load_binding().NVMLError(code)}"

    def lose(self) -> None:
        """Distrust what is open: the next `open` starts afresh, at most every few seconds."""
        self._lose(self.generation, usable=True)

    def close(self) -> None:
        """Let go of NVML; it is opened again by whoever reads next."""
        with self._lock:
            self._shut()
            self._usable, self._suspect, self._problem = False, False, ""
            self._opened = self._next_try = -float("inf")

    def _start(self) -> str:
        """Load and initialise; say why not. Holds the lock."""
        try:
            ctypes.CDLL(self._library or _LIBRARY)
        except OSError:
            return Reason.NOT_INSTALLED
        binding = self._load_binding()
        try:
            binding.nvmlInit()
        except self._errors as error:
            return self.reason(getattr(error, "value", _FUNCTION_NOT_FOUND))
        self._up = True
        self.generation += 1
        return ""

    def _shut(self) -> None:
        """Shut NVML down if it is up. Holds the lock."""
        self._handles = {}
        if not self._up or self._binding is None:
            return
        self._up = False
        try:
            self._binding.nvmlShutdown()
        except self._errors as error:  # it was down already: what we wanted
            self._problem = str(error)

    def _load_binding(self) -> ModuleType:
        if self._binding is None:
            import pynvml

            # The second one is raised for a function that the driver knows under an older name only.
            other = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)
            self._errors = (pynvml.NVMLError, other)
            self._binding = pynvml
        return self._binding

    def _search(self, uuid: str) -> Any | None:
        """Look for a device by opening one after the other, so that one that is lost hides no other."""
        for index in range(self.read("nvmlDeviceGetCount").value or 0):
            gpu = self.read("nvmlDeviceGetHandleByIndex", index).value
            if gpu is None:
                continue
            if self.read("nvmlDeviceGetUUID", gpu).value == uuid:
                return gpu
            most = self.read("nvmlDeviceGetMaxMigDeviceCount", gpu).value if uuid.startswith("MIG-") else 0
            for place in range(most or 0):
                instance = self.read("nvmlDeviceGetMigDeviceHandleByIndex", gpu, place).value
                if instance is not None and self.read("nvmlDeviceGetUUID", instance).value == uuid:
                    return instance
        return None

    def _find(self, function: str) -> Callable[..., Any] | None:
        call: Callable[..., Any] | None = getattr(self._load_binding(), function, None)
        if call is not None:
            self._calls[function] = call
        return call

    def _failed(
        self, generation: int, function: str, args: tuple[Any, ...], error: Exception
    ) -> Reading[Any]:
        """Turn an error into a reason, and see whether it means that NVML has to be opened again."""
        code = getattr(error, "value", _FUNCTION_NOT_FOUND)
        if code == _SUCCESS:  # the binding raises "success" for a list that is empty
            return Reading([])
        if code == _UNINITIALIZED:
            self._lose(generation, usable=False)
        elif code == _GPU_IS_LOST or (code == _UNKNOWN and function in _BASIC):
            self._lose(generation, usable=True)
        elif code in (_NOT_SUPPORTED, _INVALID_ARGUMENT) and self._is_mig(args):
            return Reading(None, Reason.NOT_ON_MIG)
        return Reading(None, self.reason(code))

    def _is_mig(self, args: tuple[Any, ...]) -> bool:
        """Return True when the call was about a MIG instance or a GPU in MIG mode."""
        binding = self._binding
        if binding is None or not args or not isinstance(args[0], binding.c_nvmlDevice_t):
            return False
        try:
            if binding.nvmlDeviceIsMigDeviceHandle(args[0]).value:
                return True
            return bool(binding.nvmlDeviceGetMigMode(args[0])[0])
        except self._errors:
            return False

    def _lose(self, generation: int, *, usable: bool) -> None:
        with self._lock:
            if generation != self.generation or self._suspect:
                return
            # A GPU that stays lost must not make us open NVML again and again.
            recent = self._clock() - self._opened < 2 * _LONGEST_RETRY_SECONDS
            self._pause = min(2 * self._pause, _LONGEST_RETRY_SECONDS) if recent else RETRY_SECONDS
            self._suspect, self._usable = True, usable and self._usable

    def _field(self, one: Any) -> Reading[int | float]:
        if one.nvmlReturn != _SUCCESS:
            return Reading(None, self.reason(one.nvmlReturn))
        members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
        if one.valueType >= len(members):
            return Reading(None, Reason.BINDINGS_TOO_OLD)
        return Reading(getattr(one.value, members[one.valueType]))
