"""Two workers on two cores against one worker on one core: an 8-layer MLP, batch 4096, 32 micro-batches.

    pipeline_speedup.py [--kerf build/release/bin/kerf] [--rounds 3] [--steps 3] [--json]

Both sides run alike: worker processes over shared memory, one thread each, the same micro-batches. The bound is what a
pipeline of two equal stages can gain with 32 micro-batches: 2 * 32 / 33 = 1.94; with this model's best cut 1.87.
"""

import argparse
import json
import statistics
import tempfile

from turns import KERF, answer

SIZES = "784" + "-2048" * 7 + "-10"


def step_seconds(kerf, workers, cores, steps):
    with tempfile.TemporaryDirectory() as folder:
        command = [kerf, "train", "mlp", "--sizes", SIZES, "--data", "synthetic:4096x784x10",
                   "--workers", str(workers), "--threads", "1", "--transport", "shm", "--schedule", "1f1b", "--batch",
                   "4096", "--micro-batches", "32", "--steps", str(steps + 1), "--lr", "0.001", "--no-test",
                   "--trace-steps", "0", "--json", "--out", folder]
        return answer(command, cores)["median_step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kerf", default=KERF)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ratios = []
    for _ in range(arguments.rounds):
        one = step_seconds(arguments.kerf, 1, "0", arguments.steps)
        two = step_seconds(arguments.kerf, 2, "0,1", arguments.steps)
        ratios.append(one / two)
    result = {"speedup": statistics.median(ratios), "speedups": ratios}
    print(json.dumps(result, indent=2) if arguments.json else
          f"two workers are {result['speedup']:.2f} times as fast as one (rounds {min(ratios):.2f} to {max(ratios):.2f})")


main()
