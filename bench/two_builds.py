"""Two builds in turns, within one run: what every figure of docs/benchmarks.md costs in the one over the other.

    two_builds.py OLD NEW [--rounds 9] [--only training|pipeline|dispatch|data-plane] [--of-new=--no-restart] [--json]

OLD and NEW are build folders (build/release); --of-new is a flag of kerf train that only NEW knows. A ratio is NEW over
OLD, of times or of the reciprocals of rates: below 1 NEW is faster. Each round runs both, the order swapped every time.
The bounds hold the geometric mean with 95 %, one-sided each (Student's t over the logarithms).
"""

import argparse
import json
import math
import pathlib
import statistics
import tempfile

from turns import answer

STUDENT_95 = [6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75, 1.75, 1.74, 1.73, 1.73]
PIPELINE = "784" + "-2048" * 7 + "-10"
TRAINING = {
    "LeNet-5 step": (["lenet5", "--data", "synthetic:1024x784x10", "--batch", "256", "--micro-batches", "1"], 60),
    "MLP step": (["mlp", "--sizes", "784-4096-4096-10", "--data", "synthetic:1024x784x10", "--batch", "256",
                  "--micro-batches", "1"], 8),
}


class Build:
    def __init__(self, folder, flags=()):
        self.folder, self.flags = pathlib.Path(folder), list(flags)

    def __truediv__(self, name):
        return self.folder / name


def step_seconds(build, what, steps, workers, transport):
    with tempfile.TemporaryDirectory() as folder:
        report = answer([build / "bin/kerf", "train", *what, *build.flags, "--workers", workers, "--transport", transport, "--threads",
                         1, "--steps", steps, "--lr", "0.001", "--no-test", "--trace-steps", "0", "--json", "--out",
                         folder], "0" if workers == 1 else "0,1")
    return report["median_step_seconds"]


def training(build):
    return {name: step_seconds(build, what, steps, 1, "inproc") for name, (what, steps) in TRAINING.items()}


def pipeline(build):
    what = ["mlp", "--sizes", PIPELINE, "--data", "synthetic:4096x784x10", "--schedule", "1f1b", "--batch", "4096",
            "--micro-batches", "32"]
    return {f"pipeline step, {n} worker{'s' if n > 1 else ''}": step_seconds(build, what, 4, n, "shm") for n in (1, 2)}


def dispatch(build):
    report = answer([build / "bench/dispatch_bench", "--json"], "0,1")
    return {f"a task, {row['tasks_per_message']} a message": 1 / row["tasks_per_second"] for row in report["rows"]}


def data_plane(build):
    report = answer([build / "bench/data_plane_bench", "--rounds", 3, "--json"], "0,1")
    result = {name: figure["median"] for name, figure in report.items() if name.endswith(", us")}
    for name, figure in report.items():
        if name.startswith(("one copy ", "tcp ")) and name.endswith("GB/s"):
            result["a byte, " + name.removesuffix(", GB/s")] = 1 / figure["median"]
    return result


PARTS = {"training": training, "pipeline": pipeline, "dispatch": dispatch, "data-plane": data_plane}


def bounds(ratios):
    logarithms = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logarithms)
    if len(ratios) < 2:
        return 0.0, math.inf
    t = STUDENT_95[min(len(ratios) - 1, len(STUDENT_95)) - 1]
    spread = t * statistics.stdev(logarithms) / math.sqrt(len(ratios))
    return math.exp(mean - spread), math.exp(mean + spread)


def compare(part, old, new, rounds):
    ratios = {}
    for turn in range(rounds):
        first, second = (old, new) if turn % 2 else (new, old)
        measured = {first: part(first), second: part(second)}
        for name, value in measured[new].items():
            ratios.setdefault(name, []).append(value / measured[old][name])
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Build)
    parser.add_argument("new", type=Build)
    parser.add_argument("--of-new", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    arguments.new.flags = arguments.of_new
    report = {}
    for part in [arguments.only] if arguments.only else PARTS:
        for name, ratios in compare(PARTS[part], arguments.old, arguments.new, arguments.rounds).items():
            low, high = bounds(ratios)
            report[name] = {"median": statistics.median(ratios), "lower": low, "upper": high, "ratios": ratios}
            if not arguments.json:
                print(f"{name:32}  {report[name]['median']:.3f}  ({low:.3f} to {high:.3f})", flush=True)
    if arguments.json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
