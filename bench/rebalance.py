#!/usr/bin/env python3
"""What `kerf train --rebalance` makes of a worker that becomes half as fast: it is stopped for half of the time, from some seconds on.
Rows a second, in turn, of a perceptron of equal layers

  rebalanced   from when the run goes on by its new plan
  best         of the plan that is made beforehand for that worker's speed, by operators' times of an undisturbed run
  unchanged    of the plan for workers that are alike

with the worker slow all the time in the last two. A step takes many times as long as one stop, or its end would wait for most of
them, whatever the plan. The goal is that the first is at least 0.85 of the second.

    bench/rebalance.py [--kerf build/release/bin/kerf] [--rounds 3]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/apps"))
from halved_worker import HalvedWorker  # noqa: E402
from kerf_command import workers_of  # noqa: E402

UNDISTURBED = 5.0  # seconds, in which the run measures how fast its workers are


def trained(options, folder, flags, steps, slow, after):
    """The record of a run whose worker `slow` is so from `after` seconds behind its first epoch on; none is where that is None."""
    out = pathlib.Path(folder) / "out"
    command = [options.kerf, "train", "mlp", "--sizes", options.sizes, "--data", f"synthetic:4096x{options.sizes.split('-')[0]}x10", "--batch", 256,
               "--workers", options.workers, "--steps", steps, "--no-test", "--out", out, *flags]
    process = subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def find():
        workers = workers_of(process.pid)
        return workers[slow] if len(workers) == options.workers else None

    printed = []
    with HalvedWorker(find) as halved:
        for line in process.stderr:
            printed.append(line)
            if "epoch 1/" in line:
                break
        rest = threading.Thread(target=lambda: printed.extend(process.stderr))
        rest.start()
        if slow is not None:
            time.sleep(after)
            halved.start()
        process.wait()
        rest.join()
    if process.returncode:
        sys.exit("".join(printed))
    return json.loads((out / "run.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default="build/release/bin/kerf")
    parser.add_argument("--sizes", default="-".join(["1536"] * 9 + ["10"]))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slow", type=int, default=1, help="which worker")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = {"rebalanced": [], "best": [], "unchanged": []}
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        trained(options, folder, (), options.steps // 4, None, 0)
        profile, devices = pathlib.Path(folder) / "profile.json", pathlib.Path(folder) / "devices.json"
        (pathlib.Path(folder) / "out/profile.json").rename(profile)
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {str(worker): {"speed": 0.5 if worker == options.slow else 1}
                                                                      for worker in range(options.workers)}}))
        for _ in range(options.rounds):
            record = trained(options, folder, ("--rebalance",), options.steps, options.slow, UNDISTURBED)
            if len(record["rebalances"]) != 1:
                sys.exit(f"it was to plan anew once: {record['rebalances']}")
            costs.append(record["rebalances"][0]["seconds"])
            rows["rebalanced"].append(record["images_per_second"])
            rows["best"].append(trained(options, folder, ("--profile", profile, "--devices", devices), options.steps // 2, options.slow, 0)["images_per_second"])
            rows["unchanged"].append(trained(options, folder, (), options.steps // 2, options.slow, 0)["images_per_second"])
    best = statistics.median(rows["best"])
    print("| | rows/s | of the best |\n|---|---|---|")
    for name, each in rows.items():
        print(f"| {name} | {statistics.median(each):.0f} ({min(each):.0f} to {max(each):.0f}) | {statistics.median(each) / best:.3f} |")
    print(f"\nfrom the decision to the next step: {statistics.median(costs):.2f} s")


main()
