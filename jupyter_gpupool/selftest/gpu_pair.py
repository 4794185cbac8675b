"""The claims about two holders that compute at the same time on one GPU.

Rule of this module: everything is measured against what one holder of the whole device does alone.
"""

from __future__ import annotations

from contextlib import ExitStack

from jupyter_gpupool.backends.seen import Seen
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_compute
from jupyter_gpupool.selftest.record import Bench
from jupyter_gpupool.selftest.stage import Stage

#: For how long holders compute, seconds.
_WORK_SECONDS = 2.0
#: How much less two halves may do together than one whole.
_LEAST_TOGETHER = 0.7
#: How far the rate of a holder may be from its part.
_RATE_TOLERANCE = 0.2


class SideBySide:
    """Runs them.

    Parameters
    ----------
    bench : Bench
        Where they are written down.
    stage : Stage
        The device.
    """

    def __init__(self, bench: Bench, stage: Stage) -> None:
        self._bench, self._stage = bench, stage

    def run(self) -> None:
        """Run them."""
        together = "two holders of 0.5 get as much done together as one of the whole device alone"
        if self._stage.device.whole_only:
            self._bench.impossible("two.holders", together, "the device is leased whole or not at all")
            return
        rates: dict[str, list[float]] = {}
        self._bench.claim("two.holders", together, lambda: self._two(rates))
        if self._stage.capped:
            self._bench.claim(
                "compute.rate", "a holder of 0.5 alone computes half as fast", lambda: self._half(rates)
            )
        else:
            self._bench.claim(
                "compute.equal",
                "without a cap a fraction does not buy compute: 0.25 and 0.75 compute equally fast",
                self._equal,
            )

    def _two(self, rates: dict[str, list[float]]) -> Seen:
        rates["whole"] = self._rates(WHOLE_MILLI)
        rates["two"] = self._rates(WHOLE_MILLI // 2, WHOLE_MILLI // 2)
        whole, two = rates["whole"][0], rates["two"]
        parts = " + ".join(f"{100 * rate / whole:.0f} %" for rate in two)
        text = f"together {parts} = {100 * sum(two) / whole:.0f} % of what one does alone"
        return Seen(held=sum(two) >= _LEAST_TOGETHER * whole, text=text)

    def _half(self, rates: dict[str, list[float]]) -> Seen:
        if "two" not in rates:
            return Seen(held=None, text="nothing was measured to compare with")
        part = self._rates(WHOLE_MILLI // 2)[0] / rates["whole"][0]
        return Seen(
            held=abs(part - 0.5) <= _RATE_TOLERANCE,
            text=f"it did {100 * part:.0f} % of the whole device's work",
        )

    def _equal(self) -> Seen:
        small, large = self._rates(WHOLE_MILLI // 4, WHOLE_MILLI - WHOLE_MILLI // 4)
        part = small / (small + large)
        text = f"0.25 did {100 * part:.0f} % of the work, 0.75 the rest"
        return Seen(held=abs(part - 0.5) <= _RATE_TOLERANCE, text=text)

    def _rates(self, *shares: int) -> list[float]:
        """Let holders of these shares compute at the same time; return kernels a second of each."""
        with ExitStack() as stack:
            holders = [stack.enter_context(self._stage.holder(milli)) for milli in shares]
            for holder in holders:
                self._stage.ready(holder)
            for holder in holders:
                holder.hand.begin("work", seconds=_WORK_SECONDS)
            answers = [holder.hand.answer("work") for holder in holders]
        for milli, answer in zip(shares, answers, strict=True):
            if answer["error"]:
                raise GPUPoolError(f"The holder of {format_compute(milli)} failed: {answer['error']}.")
        return [float(answer["rate"]) for answer in answers]
