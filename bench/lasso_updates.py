#!/usr/bin/env python3
"""How many updates, and seconds, the Lasso takes to come near the optimum, by --schedule: medians over seeds.

    shared/data/programs/generate.py lasso FOLDER
    bench/lasso_updates.py --data FOLDER [--kerf build/release/bin/kerf] [--seeds 5]

Updates are variables whose x_j . r was asked for in rounds. Priorities come from the first check, which looks at all
variables once, as each later check does: those are counted apart.
"""
import argparse
import json
import statistics
import subprocess

PARTS = (0.1, 0.01, 0.001, 0.0001)


def history(options, schedule, seed):
    command = [options.kerf, "lasso", "--x", f"{options.data}/x.mtx", "--y", f"{options.data}/y.mtx", "--lambda", str(options.penalty),
               "--schedule", schedule, "--set-size", str(options.set_size), "--depth", str(options.depth), "--seed", str(seed),
               "--tol", "1e-6", "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)["history"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default="build/release/bin/kerf")
    parser.add_argument("--data", required=True)
    parser.add_argument("--lambda", dest="penalty", type=float, default=0.25)
    parser.add_argument("--set-size", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    runs = {schedule: [history(options, schedule, seed) for seed in range(1, options.seeds + 1)] for schedule in ("uniform", "priority+filter")}
    best = min(run[-1]["objective"] for of_one in runs.values() for run in of_one)
    print(f"the optimum is {best:.6f} or less; medians over {options.seeds} seeds\n")
    print("| above it by | schedule | updates | checks | seconds |\n|---|---|---|---|---|")
    for part in PARTS:
        for schedule, of_one in runs.items():
            reached = [next(i for i, point in enumerate(run) if point["objective"] <= best * (1 + part)) for run in of_one]
            updates = statistics.median(run[i]["updates"] for run, i in zip(of_one, reached))
            checks = statistics.median(sum(point["gap"] is not None for point in run[:i]) for run, i in zip(of_one, reached))
            seconds = statistics.median(run[i]["seconds"] for run, i in zip(of_one, reached))
            print(f"| {100 * part:g} % | {schedule} | {updates:,.0f} | {checks:.0f} | {seconds:.2f} |")


main()
