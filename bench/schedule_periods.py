"""How long a step of each built-in schedule takes, beside what is simulated: actions that sleep, or real ones on two cores.

    schedule_periods.py [--workers 4] [--micro-batches 8] [--costs 5,6,5] [--factors 1,1.4,1.2] [--runs 7] [--only NAME]... [--json]
    schedule_periods.py --real [--width 1024] [--batch 1024] [--own-costs] [--runs 7] [--only NAME]... [--json]

Real ones are those of an MLP of 8 layers on two workers of one thread, by kerf bench schedules, which prices actions by a first run.
Measured is the period of the steps 5 to 25, median of the runs; a run beside which others took more than 5 % of the processors is
repeated, --patience times at most, and then counts with a mark. Within 3 % is the goal, and pairs that are predicted more than 3 %
apart are to come out in that order. Exit code 1: something is not so.
"""

import argparse
import itertools
import json
import os
import pathlib
import resource
import statistics
import sys

from turns import KERF, answer

BENCH = str(pathlib.Path(KERF).parent.parent / "bench/schedule_periods")
GOAL = 0.03
MOST_LOAD = 0.05
SLEEPING = ("gpipe", "1f1b", "naive", "zb-h1", "zb-h2", "interleaved", "looped-bfs", "zbv", "v-half", "v-min", "dualpipe-v", "hanayo", "chimera", "dualpipe",
            "pipedream", "pipedream-2bw", "ampnet")


def processor_seconds(stat):
    """Of the first line of /proc/stat: seconds that any process had a processor, since the machine began."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = map(int, stat.splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Load:
    """Of all processors, the part that others have between begin and end."""

    def __init__(self, busy=lambda: processor_seconds(pathlib.Path("/proc/stat").read_text()), own=None, now=None, processors=None):
        self.busy = busy
        self.own = own or (lambda: sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
                                       for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
        self.now = now or (lambda: os.times().elapsed)
        self.processors = processors or os.cpu_count()
        self.begin = self.look()

    def look(self):
        return self.busy(), self.own(), self.now()

    def foreign(self):
        busy, own, seconds = (after - before for after, before in zip(self.look(), self.begin, strict=True))
        return max(0.0, busy - own) / (seconds * self.processors) if seconds > 0 else 0.0


def quiet_run(run, patience, load=Load, most=MOST_LOAD):
    """What the run gives, and the load beside it: of the first beside which there was little, else of the quietest."""
    tried = []
    for _ in range(patience + 1):
        beside = load()
        given = run()
        tried.append((beside.foreign(), given))
        if tried[-1][0] <= most:
            return tried[-1][1], tried[-1][0]
    loaded, given = min(tried, key=lambda each: each[0])
    return given, loaded


def verdict_of(results):
    """By schedule {predictions, runs}: medians, of errors too, and the pairs whose order is not as it was predicted."""
    told = {}
    for name, each in results.items():
        errors = [run / predicted - 1 for run, predicted in zip(each["runs"], each["predictions"], strict=True)]
        told[name] = {"predicted_seconds": statistics.median(each["predictions"]), "measured_seconds": statistics.median(each["runs"]),
                      "error": statistics.median(errors), "errors": errors, "most_load": max(each["loads"])}
    apart = [(first, second) for first, second in itertools.permutations(told, 2)
             if told[second]["predicted_seconds"] > told[first]["predicted_seconds"] * (1 + GOAL)]
    wrong = [pair for pair in apart if told[pair[0]]["measured_seconds"] >= told[pair[1]]["measured_seconds"]]
    return {"schedules": told, "pairs_apart": len(apart), "wrong_order": wrong,
            "beyond_goal": [name for name, each in told.items() if abs(each["error"]) > GOAL]}


def sleeping(flags, name):
    command = [flags.bench, "--schedule", name, "--workers", flags.workers, "--micro-batches", flags.micro_batches, "--costs", flags.costs,
               "--factors", flags.factors]
    given = answer(command, f"0-{os.cpu_count() - 1}")
    return {name: (given["predicted_seconds"], given["measured_seconds"])}


def real(flags, names):
    sizes = "-".join([str(flags.width)] * 8 + ["10"])
    command = [flags.kerf, "bench", "schedules", "mlp", "--sizes", sizes, "--data", f"synthetic:{flags.batch}x{flags.width}x10", "--workers", 2,
               "--threads", 1, "--transport", "shm", "--batch", flags.batch, "--micro-batches", flags.micro_batches, "--warm-up", 5, "--steps", 20,
               "--schedules", ",".join(names), "--no-equal-memory", "--json", *(["--own-costs"] if flags.own_costs else [])]
    rows = {row["schedule"]: row for row in answer(command, f"0-{os.cpu_count() - 1}")["own_memory"]["schedules"]}
    return {name: (rows[name]["simulated_seconds"], statistics.mean(rows[name]["steps"])) for name in names}


def measure(flags):
    names = flags.only or SLEEPING
    results = {name: {"predictions": [], "runs": [], "loads": []} for name in names}
    for turn in range(flags.runs):
        turned = names[turn % len(names):] + names[:turn % len(names)]
        for some in [turned] if flags.real else [(name,) for name in turned]:
            run = (lambda some=some: real(flags, some)) if flags.real else (lambda some=some: sleeping(flags, some[0]))
            given, loaded = quiet_run(run, flags.patience)
            for name, (predicted, measured) in given.items():
                results[name]["predictions"].append(predicted)
                results[name]["runs"].append(measured)
                results[name]["loads"].append(loaded)
    return verdict_of(results)


def text_of(verdict):
    lines = ["schedule      predicted ms  measured ms   error  foreign load"]
    for name, each in sorted(verdict["schedules"].items(), key=lambda item: item[1]["measured_seconds"]):
        lines.append(f"{name:12} {1e3 * each['predicted_seconds']:13.1f} {1e3 * each['measured_seconds']:12.1f} {100 * each['error']:+6.1f} % "
                     f"{100 * each['most_load']:8.1f} %{' beyond 3 %' if name in verdict['beyond_goal'] else ''}")
    lines.append(f"{verdict['pairs_apart']} pairs are predicted more than 3 % apart; "
                 + (f"in another order: {verdict['wrong_order']}" if verdict["wrong_order"] else "all came out in that order"))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default=BENCH)
    parser.add_argument("--kerf", default=KERF)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--own-costs", action="store_true")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--costs", default="5,6,5")
    parser.add_argument("--factors", default="1")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--patience", type=int, default=3)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    flags.only = tuple(flags.only)
    verdict = measure(flags)
    print(json.dumps(verdict, indent=2) if flags.json else text_of(verdict))
    sys.exit(1 if verdict["beyond_goal"] or verdict["wrong_order"] else 0)


if __name__ == "__main__":
    main()
