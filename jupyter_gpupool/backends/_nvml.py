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

from jupyter_gpupool.backends.backoff import Backoff
from jupyter_gpupool.backends.handles import Handles
from jupyter_gpupool.backends.readings import REASONS
from jupyter_gpupool.backends.readings import Reading as Reading
from jupyter_gpupool.backends.readings import Reason as Reason

#: What NVIDIA's driver installs.
_LIBRARY = "libnvidia-ml.so.1"
#: Shortest and longest pause between two tries to open NVML (again), seconds.
RETRY_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 60.0
#: How long a caller waits while another thread opens NVML, seconds.
PATIENCE_SECONDS = 2.0
#: NVML's return values that make us do something.
_SUCCESS, _UNINITIALIZED, _INVALID_ARGUMENT, _NOT_SUPPORTED = 0, 1, 2, 3
_INSUFFICIENT_SIZE, _FUNCTION_NOT_FOUND, _GPU_IS_LOST, _UNKNOWN = 7, 13, 15, 999
#: Where a field value is, by its type.
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
#: Functions that work on every GPU: "unknown error" from one of them means that the driver is gone.
_BASIC = frozenset(
    f"nvmlDeviceGet{name}" for name in ("Count", "HandleByIndex", "HandleByUUID", "MemoryInfo", "UUID")
)


class NVML:
    """NVIDIA's management library, as far as it is there. Thread-safe.

    Parameters
    ----------
    library : str
        Path of a library to load in place of the driver's; empty for the driver's.
    clock : callable
        Seconds that only grow; decides when a failed try is repeated.
    patience_seconds : float
        How long a caller waits while another thread opens NVML: a driver may hang, and takes only that
        thread with it.
    """

    def __init__(
        self,
        library: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._library = library
        self._backoff = Backoff(RETRY_SECONDS, _LONGEST_RETRY_SECONDS, clock)
        self._patience_seconds = patience_seconds
        self._began: float | None = None
        self._lock = threading.RLock()
        self._binding: ModuleType | None = None
        self._errors: tuple[type[Exception], ...] = ()
        self._calls: dict[str, Callable[..., Any]] = {}
        self._handles = Handles(self.read)
        self._up = False
        self._usable = False
        self._suspect = False
        self._problem = ""
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
        if not self._lock.acquire(timeout=self._patience()):
            return Reason.NO_ANSWER
        try:
            if (self._usable and not self._suspect) or not self._backoff.due:
                return "" if self._usable else self._problem
            self._open_again()
            return self._problem
        finally:
            self._lock.release()

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
        return self._handles.find(uuid)

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
            self._backoff.reset()

    def _patience(self) -> float:
        """Return how long to wait for who opens NVML now, seconds; nothing when that hangs."""
        began = self._began
        waited = 0.0 if began is None else time.monotonic() - began
        return max(0.0, self._patience_seconds - waited)

    def _open_again(self) -> None:
        """Shut down what is open and start afresh. Holds the lock."""
        self._began = time.monotonic()
        self._usable = False
        try:
            self._shut()
            self._problem = self._start()
        finally:
            self._began = None
        self._backoff.tried()
        self._usable, self._suspect = not self._problem, False

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
        self._handles.forget()
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
        if not self._lock.acquire(blocking=False):
            return  # it is being opened again already
        try:
            if generation != self.generation or self._suspect:
                return
            self._backoff.fault()  # a GPU that stays lost must not make us open NVML again and again
            self._suspect, self._usable = True, usable and self._usable
        finally:
            self._lock.release()

    def _field(self, one: Any) -> Reading[int | float]:
        if one.nvmlReturn != _SUCCESS:
            return Reading(None, self.reason(one.nvmlReturn))
        if one.valueType >= len(_MEMBERS):
            return Reading(None, Reason.BINDINGS_TOO_OLD)
        return Reading(getattr(one.value, _MEMBERS[one.valueType]))
