"""Sort eight million numbers in four processes: a program to try gpu-tracker with.

The main process holds the numbers, 32 megabytes, and at the end the sorted ones too. Each forked worker reads the same
pages and copies the numbers of its range, about 80 megabytes of Python integers. The seed is fixed, so every run prints
the same line.

    gpu-tracker python examples/sort_in_parallel.py
"""

from __future__ import annotations

import multiprocessing
import random
from array import array
from itertools import pairwise

N_NUMBERS = 8_000_000
N_WORKERS = 4
LIMIT = 2**32

# Filled before the fork. The workers only read it, so its pages stay shared.
NUMBERS = array('I')


def make_numbers(count: int) -> bytes:
    """Return the same ``count`` random unsigned 32-bit numbers in every run."""
    return random.Random(2026).randbytes(4 * count)  # noqa: S311  (nothing here is secret)


def sort_range(worker: int) -> array[int]:
    """Return the sorted numbers of the range of this worker."""
    low = LIMIT * worker // N_WORKERS
    high = LIMIT * (worker + 1) // N_WORKERS
    return array('I', sorted(number for number in NUMBERS if low <= number < high))


def main() -> None:
    """Sort the numbers, check the result and print it."""
    NUMBERS.frombytes(make_numbers(N_NUMBERS))

    # The ranges are in order, so the sorted parts only need to be joined.
    ordered = array('I')
    with multiprocessing.get_context('fork').Pool(N_WORKERS) as pool:
        for part in pool.imap(sort_range, range(N_WORKERS)):
            ordered.extend(part)

    in_order = all(left <= right for left, right in pairwise(ordered))
    complete = len(ordered) == len(NUMBERS) and sum(ordered) == sum(NUMBERS)
    if not (in_order and complete):
        message = 'the sorted numbers are not the ones that were given'
        raise SystemExit(message)
    print(f'{len(ordered)} numbers in order, from {ordered[0]} to {ordered[-1]}, median {ordered[len(ordered) // 2]}')


if __name__ == '__main__':
    main()
