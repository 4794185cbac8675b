"""Running claims one after another, and writing down what came of each.

Rules of this module: one claim that breaks is that claim's failure and nobody else's; whoever watches sees
what is being done before it is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jupyter_gpupool.backends.seen import Seen
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.selftest.claims import ClaimDoc, Outcome, RungDoc

_OUTCOMES = {True: Outcome.PROVED, False: Outcome.FAILED, None: Outcome.NOT_POSSIBLE}


class Record:
    """The claims of one run.

    Parameters
    ----------
    tell : callable
        Is told, before each claim, what is being done.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        #: What the machine is, by name.
        self.machine: dict[str, str] = {}
        self.claims: list[ClaimDoc] = []
        self.rungs: list[RungDoc] = []

    def doing(self, what: str) -> None:
        """Say what is being done when it is no claim yet."""
        self._tell(what)

    def on(self, device: str, sharing: str = "") -> Bench:
        """Return where the claims about one device are run."""
        return Bench(self, device, sharing)

    def add(self, claim: ClaimDoc) -> None:
        """Write a claim down."""
        self.claims.append(claim)


class Bench:
    """The claims about one device, shared in one way.

    Parameters
    ----------
    record : Record
        Where they are written down.
    device : str
        The device's name.
    sharing : str
        How it is shared; empty where there is only one way.
    """

    def __init__(self, record: Record, device: str, sharing: str) -> None:
        self._record = record
        self._device, self._sharing = device, sharing

    def claim(self, name: str, claim: str, check: Callable[[], Seen]) -> Seen:
        """Run a claim: True is proved, False failed, None not possible here.

        One that breaks off has failed, but what is returned says that nothing was seen of the limit.
        """
        where = f"{self._device} ({self._sharing})" if self._sharing else self._device
        self._record.doing(f"{where}: {claim}")
        began = time.monotonic()
        try:
            seen = check()
        except (GPUPoolError, OSError) as error:
            self.broke(name, claim, error, time.monotonic() - began)
            return Seen(held=None, text=f"it broke off: {error}")
        self._add(name, claim, seen, time.monotonic() - began)
        return seen

    def impossible(self, name: str, claim: str, why: str) -> None:
        """Write down that a claim cannot be shown here."""
        self._add(name, claim, Seen(held=None, text=why), 0.0)

    def broke(self, name: str, claim: str, error: Exception, seconds: float = 0.0) -> None:
        """Write down that an error came in between."""
        self._add(name, claim, Seen(held=False, text=f"it broke off: {error}"), seconds)

    def _add(self, name: str, claim: str, seen: Seen, seconds: float) -> None:
        self._record.add(
            ClaimDoc(
                device=self._device,
                sharing=self._sharing,
                name=name,
                claim=claim,
                outcome=_OUTCOMES[seen.held],
                detail=seen.sentence,
                seconds=round(seconds, 2),
            )
        )
