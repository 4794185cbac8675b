"""How much of a pool each placement policy fills, by the published method on the openb traces.

The yardstick is Weng et al., "Beware of Fragmentation" (USENIX ATC 2023): requests arrive one at a time up to
1.3 pools, none departs, what does not fit is dropped. `fgd` is their policy: that ours agrees with what they
published shows that the harness is right; it alone is given the statistics of the whole trace, as they do.
`bid_price` knows only what has arrived. The bounds hold for any policy that never refuses what fits.

The traces are public (hkust-adsl/kubernetes-scheduler-simulator, data/csv, Apache-2.0) and not part of this
project: name their folder with --data.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.policies.scores import SCORES
from jupyter_gpupool.sim.openb import read_trace, replay

TRACES = ("default", "gpushare60", "multigpu20", "gpuspec33", "cpu100")
POLICIES = ("first_fit", "best_fit", "strand", "fgd", "bid_price")
#: What was published for FGD, percent allocated at 100 % and 130 % arrival, mean of 10 seeds.
PUBLISHED = {
    "default": (95.23, 95.39),
    "gpushare60": (91.26, 91.40),
    "multigpu20": (95.53, 95.65),
    "gpuspec33": (87.84, 94.55),
    "cpu100": (95.21, 95.35),
}
#: Upper bounds for policies that never refuse what fits, mean of 3 seeds, computed beforehand.
BOUNDS = {"default": (96.52, 96.78), "gpuspec33": (96.48, 97.81)}
#: How far our FGD may be from the published means, points; and how much the default gains over them.
HARNESS_POINTS, GAIN_POINTS = 0.3, 2.0


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run."""

    pods: str
    policy: str
    seed: int
    alloc_at_100: float
    alloc_at_130: float
    dropped: int
    order: str


def run(folder: Path, pods: str, policy: str, seed: int, order: str) -> Record:
    """Play one run."""
    trace = read_trace(folder, pods, by_creation=order == "creation")
    curve = replay(trace, SCORES[policy], seed, foresight=policy == "fgd", shuffled=order == "shuffled")
    return Record(
        pods=pods,
        policy=policy,
        seed=seed,
        alloc_at_100=round(curve.at(100), 4),
        alloc_at_130=round(curve.at(130), 4),
        dropped=curve.dropped,
        order=order,
    )


def mean(records: Iterable[Record], pods: str, policy: str) -> tuple[float, float] | None:
    """Return the means of a policy on a trace; None without a run."""
    found = [record for record in records if (record.pods, record.policy) == (pods, policy)]
    if not found:
        return None
    return statistics.mean(it.alloc_at_100 for it in found), statistics.mean(it.alloc_at_130 for it in found)


def show(records: Sequence[Record]) -> None:
    """Print the table."""
    traces = list(dict.fromkeys(record.pods for record in records))
    policies = list(dict.fromkeys(record.policy for record in records))
    print("\nAllocated part of the pool's GPUs, percent, at 100 / 130 % arrival")
    columns = [*policies, "FGD published", "bound"]
    print(f"  {'':12}" + "".join(f"{column:>16}" for column in columns))
    for pods in traces:
        cells = [mean(records, pods, policy) for policy in policies]
        cells += [PUBLISHED.get(pods), BOUNDS.get(pods)]
        print(f"  {pods:12}" + "".join(f"{_pair(cell):>16}" for cell in cells))


def _pair(cell: tuple[float, float] | None) -> str:
    return f"{cell[0]:.2f} / {cell[1]:.2f}" if cell else "-"


def judge(records: Sequence[Record]) -> list[str]:
    """Compare with what was published; return what was missed, in words."""
    missed, gains = [], []
    for pods, published in PUBLISHED.items():
        ours, default = mean(records, pods, "fgd"), mean(records, pods, "bid_price")
        if ours is not None:
            away = max(abs(a - b) for a, b in zip(ours, published, strict=True))
            print(f"  {pods}: our FGD is within {away:.2f} points of the published means")
            if away > HARNESS_POINTS:
                missed.append(f"{pods}: our FGD is {away:.2f} points from the published means")
        if default is not None:
            gain = [a - b for a, b in zip(default, published, strict=True)]
            gains.append(gain[0])
            print(f"  {pods}: bid_price gains {gain[0]:+.2f} / {gain[1]:+.2f} points over published FGD")
            if min(gain) < 0:
                missed.append(f"{pods}: bid_price is below published FGD")
    if len(gains) == len(PUBLISHED):
        gained = statistics.mean(gains)
        print(f"  mean gain at 100 % arrival: {gained:+.2f} points (goal > {GAIN_POINTS:+.1f})")
        if gained < GAIN_POINTS:
            missed.append(f"the mean gain is {gained:+.2f} points")
    return missed


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything that was asked for."""
    arguments = _parser().parse_args(argv)
    jobs = [
        (arguments.data, pods, policy, seed, arguments.order)
        for pods in arguments.pods
        for policy in arguments.policies
        for seed in arguments.seeds
    ]
    if unknown := sorted({policy for _, _, policy, _, _ in jobs} - SCORES.keys()):
        print(f"No such policy: {', '.join(unknown)}. There are: {', '.join(SCORES)}.", file=sys.stderr)
        return 2
    records: list[Record] = []
    try:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            for record in pool.map(run, *zip(*jobs, strict=True)):
                records.append(record)
                print(f"\r  {len(records)} of {len(jobs)} runs", end="", file=sys.stderr, flush=True)
    except GPUPoolError as error:
        print(f"\n{error} Name the folder of the traces with --data.", file=sys.stderr)
        return 1
    print(file=sys.stderr)
    show(records)
    if arguments.json:
        rows = [asdict(record) for record in records]
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    comparable = arguments.order == "shuffled" and len(arguments.seeds) >= 3
    missed = judge(records) if comparable else []
    for line in missed:
        print(f"  MISSED: {line}")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    data = Path(os.environ.get("OPENB_DATA", "openb"))
    parser.add_argument("--data", type=Path, default=data, metavar="DIR", help="folder of the traces")
    parser.add_argument("--pods", type=_words, default=list(TRACES), help="traces, separated by commas")
    parser.add_argument("--seeds", type=_numbers, default=[42, 43, 44, 45, 46], help="separated by commas")
    parser.add_argument("--policies", type=_words, default=list(POLICIES), help=f"of {', '.join(SCORES)}")
    parser.add_argument("--order", choices=("shuffled", "creation"), default="shuffled")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="one record for each run")
    return parser


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _numbers(text: str) -> list[int]:
    return [int(word) for word in _words(text)]


if __name__ == "__main__":
    sys.exit(main())
