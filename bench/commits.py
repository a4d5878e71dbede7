#!/usr/bin/env python3
"""What it costs to be able to go on behind the loss of a worker: 100 steps of a perceptron with 20 million weights over two
workers, as they are (all workers keep what they hold, about once a second), with two checkpoints on disk as well, and with
--no-restart, in turn. Prints medians of seconds (run.json) and ratios to the last; the goals are 1.03 and 1.05.

    bench/commits.py [--kerf build/release/bin/kerf] [--rounds 9]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

WAYS = {"--no-restart": ("--no-restart", "--save-every", 0), "commits": ("--save-every", 0), "commits, two checkpoints": ("--save-every", 40)}


def seconds(options, folder, flags):
    out = pathlib.Path(folder) / "out"
    command = [options.kerf, "train", "mlp", "--sizes", options.sizes, "--workers", 2, "--steps", options.steps, "--data", "synthetic:12800x784x10",
               "--no-test", "--out", out, *flags]
    subprocess.run([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    record = json.loads((out / "run.json").read_text())
    subprocess.run(["rm", "-rf", out], check=True)
    return record["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default="build/release/bin/kerf")
    parser.add_argument("--sizes", default="784-4096-4096-10")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    times = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, flags in WAYS.items():
                times[name].append(seconds(options, folder, flags))
    least = statistics.median(times["--no-restart"])
    print(f"| {options.steps} steps of {options.sizes} | seconds | ratio |\n|---|---|---|")
    for name, each in times.items():
        print(f"| {name} | {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f}) | {statistics.median(each) / least:.3f} |")


main()
