"""METIS on the graph of bench/planner's blocks: how long its k-way takes (planning alone, one thread, the least of three).

    VENV/bin/python bench/metis_blocks.py [OPERATORS] [--workers 8]

The Python needs `pip install numpy pymetis`. Run it beside `build/release/bench/planner --blocks OPERATORS`. Its answers are of the undirected
graph, weighed as there (work; bytes of a value on its edges), and need not be acyclic.
"""

import argparse
import sys
import time

import numpy as np
import pymetis

# One block of bench/planner.cc: work and kilobytes of each operator, and which it reads; -1 is the last operator of the block before.
BLOCK = [(1, 4000, (-1,)), (30, 4000, (0,)), (30, 4000, (0,)), (30, 4000, (0,)), (20, 4000, (1, 2, 3)), (30, 4000, (4,)), (1, 4000, (-1, 5)),
         (1, 4000, (6,)), (120, 16000, (7,)), (2, 16000, (8,)), (120, 4000, (9,)), (1, 4000, (6, 10))]


def undirected(operators):
    blocks = -(-operators // len(BLOCK))
    size = len(BLOCK)
    a, b, weight = [], [], []
    base = np.arange(blocks, dtype=np.int64) * size
    for node, (_, _, inputs) in enumerate(BLOCK):
        for source in inputs:
            at = base[1:] if source < 0 else base
            a.append(at + source)
            b.append(at + node)
            weight.append(np.full(len(at), BLOCK[source][1]))
    a, b, weight = (np.concatenate(x) for x in (a, b, weight))
    ends, starts, both = np.concatenate((a, b)), np.concatenate((b, a)), np.concatenate((weight, weight))
    order = np.argsort(starts, kind="stable")
    rows = np.concatenate(([0], np.cumsum(np.bincount(starts, minlength=blocks * size))))
    work = np.tile([row[0] for row in BLOCK], blocks)
    return rows, ends[order], both[order], work


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=8)
    asked = parser.parse_args()
    rows, ends, weights, work = undirected(asked.operators)
    took = []
    for _ in range(3):
        start = time.process_time()
        cut, _ = pymetis.part_graph(asked.workers, pymetis.CSRAdjacency(rows, ends), vweights=work, eweights=weights, recursive=False)
        took.append(time.process_time() - start)
    print(f"METIS k-way: {len(work)} operators over {asked.workers}: {min(took):.3f} s of a processor, {cut * 1000:.3g} bytes cross")
    return 0


if __name__ == "__main__":
    sys.exit(main())
