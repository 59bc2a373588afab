"""Seconds that `trex.launch.ranks.run` adds to an empty function: the first call of a process, and later calls.

python bench/ranks.py [WORLD ...] > ranks.jsonl    one line per world and kind of call; by default worlds 2, 4 and 8
"""

import json
import multiprocessing
import sys
import time
from dataclasses import asdict

from trex.device import Measurement
from trex.launch import ranks
from trex.results import provenance_block

LATER_CALLS = 7


def nothing(rank: int) -> None:
    """What each rank runs."""


def seconds(world: int) -> list[float]:
    """Wall-clock seconds of each of the calls that one fresh process makes, the first among them."""
    samples = []
    for _ in range(1 + LATER_CALLS):
        start = time.perf_counter()
        ranks.run(nothing, world)
        samples.append(time.perf_counter() - start)
    return samples


def main() -> None:
    """Measure each world in a process of its own, since only a fresh process makes a first call."""
    for world in [int(text) for text in sys.argv[1:]] or [2, 4, 8]:
        with multiprocessing.get_context("spawn").Pool(1) as fresh:
            first, *later = fresh.apply(seconds, (world,))
        for kind, samples in (("first", [first]), ("later", later)):
            line = {"world": world, "call": kind, **asdict(Measurement.of(samples, "s")), "label": "measured"}
            print(json.dumps({**line, "provenance": provenance_block()}), flush=True)


if __name__ == "__main__":
    main()
