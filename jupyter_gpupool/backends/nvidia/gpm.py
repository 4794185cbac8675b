"""What the multiprocessors do, as GPM counts it (Hopper and newer): the only utilization of a MIG instance.

Rules of this module: GPM needs two samples, so each round is compared with the one before; samples belong to
one generation of the door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jupyter_gpupool.backends._nvml import NVML, Reading, Reason
from jupyter_gpupool.backends.nvidia.gpu import GPU

_NO_SAMPLE_YET = "the first sample is missing"
#: Two samples must be so far apart, seconds.
_APART_SECONDS = 0.1


class GPM:
    """GPM's metrics of one GPU or MIG instance.

    Parameters
    ----------
    nvml : NVML
        The door.
    gpu : GPU
        The device.
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, nvml: NVML, gpu: GPU, clock: Callable[[], float]) -> None:
        self._nvml = nvml
        self._gpu = gpu
        self._clock = clock
        self._taken_seconds = float("-inf")
        self._generation = -1
        self._problem = ""
        self._old: Any = None
        self._new: Any = None
        self._answer: Any = None

    def read(self, numbers: Iterable[int]) -> dict[int, Reading[float]]:
        """Take a sample, and compare it with the last one.

        Parameters
        ----------
        numbers : iterable of int
            ``NVML_GPM_METRIC_…``.
        """
        wanted = list(numbers)
        if self._generation != self._nvml.generation:
            self._begin()
        problem = self._problem or self._sample()
        if problem:
            return {number: Reading(None, problem) for number in wanted}
        return self._compare(wanted)

    def _owner(self) -> Reading[Any]:
        """Return the handle of the GPU, also for its instances."""
        return self._nvml.handle(self._gpu.parent_uuid or self._gpu.uuid)

    def _begin(self) -> None:
        """Find out whether there is GPM, and make room for two samples."""
        self._generation, self._old, self._new = self._nvml.generation, None, None
        self._taken_seconds = float("-inf")
        owner = self._owner()
        if owner.value is None:
            self._problem = owner.reason
            return
        support = self._nvml.read("nvmlGpmQueryDeviceSupport", owner.value)
        if support.value is None or not support.value.isSupportedDevice:
            self._problem = support.reason or Reason.NOT_SUPPORTED
            return
        self._answer = self._nvml.structure("c_nvmlGpmMetricsGet_t")
        self._problem = "" if self._answer is not None else Reason.BINDINGS_TOO_OLD

    def _sample(self) -> str:
        """Take a sample into the older buffer, unless the newer is too fresh; say why there is none."""
        now = self._clock()
        if now - self._taken_seconds < _APART_SECONDS:
            return "" if self._old is not None and self._new is not None else _NO_SAMPLE_YET
        buffer = self._old if self._old is not None else self._nvml.read("nvmlGpmSampleAlloc").value
        owner = self._owner()
        if buffer is None or owner.value is None:
            return owner.reason or Reason.NOT_SUPPORTED
        if self._gpu.is_mig:
            instance = self._gpu.gpu_instance_id
            taken = self._nvml.read("nvmlGpmMigSampleGet", owner.value, instance, buffer)
        else:
            taken = self._nvml.read("nvmlGpmSampleGet", owner.value, buffer)
        if taken.reason:
            self._old = buffer
            return taken.reason
        self._old, self._new, self._taken_seconds = self._new, buffer, now
        return "" if self._old is not None else _NO_SAMPLE_YET

    def _compare(self, wanted: list[int]) -> dict[int, Reading[float]]:
        answer = self._answer
        answer.version, answer.numMetrics = 1, len(wanted)
        answer.sample1, answer.sample2 = self._old, self._new
        for place, number in enumerate(wanted):
            answer.metrics[place].metricId = number
        done = self._nvml.read("nvmlGpmMetricsGet", answer)
        if done.value is None:
            return {number: Reading(None, done.reason) for number in wanted}
        return {
            number: Reading(answer.metrics[place].value)
            if answer.metrics[place].nvmlReturn == 0
            else Reading(None, self._nvml.reason(answer.metrics[place].nvmlReturn))
            for place, number in enumerate(wanted)
        }

    def close(self) -> None:
        """Free the samples, unless the door was opened anew and they are gone with it."""
        if self._generation == self._nvml.generation:
            for buffer in (self._old, self._new):
                if buffer is not None:
                    self._nvml.read("nvmlGpmSampleFree", buffer)
        self._generation, self._old, self._new = -1, None, None
