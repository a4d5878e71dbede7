#!/usr/bin/env python3
"""Runs whose processes are killed at random moments: what of them is lost, and how long the others take to go on.

    bench/random_kills.py [--kills 2000] [--minutes M] [--seed 1] [--at-once 2] [--build build/release]

A run is one of the commands below. One to three of its processes are killed, workers and now and then the scheduler. Behind the death of a worker the run goes on by itself;
behind that of the scheduler it is started again, with --resume where it has left a checkpoint. It is lost unless it ends with exit code 0 and, byte for byte, with what an
undisturbed run left. Recovery is from a death until a new worker sends what it computed, a tensor or
a result, of a scheduler's its own start included (told by kerf_die_at, of the tests). Needs a build with tests. Ctrl-C shows what there was until then.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEDULER = "scheduler"  # among those that may be killed
IMAGES = ("--data", "synthetic:1024x784x10", "--batch", 64, "--no-test", "--epochs")
TRAININGS = {
    "layer": ("lenet5", *IMAGES, 24, "--workers", 3),
    "layer, zb-h1": ("lenet5", *IMAGES, 24, "--workers", 3, "--schedule", "zb-h1"),
    "layer, interleaved": ("mlp", "--sizes", "784-256-128-10", *IMAGES, 36, "--workers", 2, "--schedule", "interleaved", "--stages-per-worker", 2),
    "layer, pipedream": ("mlp", "--sizes", "784-256-128-10", *IMAGES, 24, "--workers", 3, "--schedule", "pipedream"),
    "batch": ("lenet5", *IMAGES, 20, "--workers", 2, "--cut", "batch"),
    "feature": ("mlp", "--sizes", "784-256-128-10", *IMAGES, 32, "--workers", 2, "--cut", "feature", "--optimizer", "adam"),
    "hybrid": ("mlp", "--sizes", "784-256-128-10", *IMAGES, 24, "--workers", 4, "--cut", "hybrid"),
    "free": ("mlp", "--sizes", "784-256-128-10", *IMAGES, 28, "--workers", 2, "--cut", "free", "--pattern", "block-cyclic:8"),
}


def programs(small, data):
    return {
        "lasso": (*small.lasso(data, "--tol", 0, "--max-passes", 100_000), "--workers", 3),
        "lasso, priority": (*small.lasso(data, "--tol", 0, "--max-passes", 1_000, "--schedule", "priority", "--set-size", 3), "--workers", 3),
        "mf, sgd": (*small.factorisation(data, 3_000), "--workers", 3),
        "mf, ccd": (*small.factorisation(data, 15_000, "--algorithm", "ccd"), "--workers", 3),
        "lda": (*small.topics(data, 3_000), "--workers", 3),
    }


class Case:
    """A command, with what its undisturbed run left and how long that took."""

    def __init__(self, name, arguments, trains):
        self.name, self.arguments, self.trains = name, arguments, trains

    def command(self, folder, resume):
        if self.trains:
            kept = ["--save-every", 50, "--out", folder / "out"]
            return ["train", *self.arguments, *kept, *(["--resume", folder / "out"] if resume else [])]
        out = folder / ("out.mtx" if self.name.startswith("lasso") else "out")
        kept = ["--snapshot", folder / "kept", "--snapshot-rounds", 100, "--out", out]
        return [*self.arguments, *kept, *(["--resume", folder / "kept"] if resume else [])]

    def left(self, folder):
        if self.trains:
            record = json.loads((folder / "out/run.json").read_text())
            return (folder / "out/weights.safetensors").read_bytes(), [record[each] for each in ("losses", "gradient_norms", "equal")]
        out = next(folder.glob("out*"))
        files = [out] if out.is_file() else sorted(each for each in out.iterdir() if not each.name.startswith("."))  # what a killed scheduler was writing
        return [each.read_bytes() for each in files]


class Kills:
    def __init__(self, build):
        sys.path.insert(0, str(ROOT / "tests/apps"))
        os.environ["KERF"] = str(build / "bin/kerf")
        import kerf_command
        import small_programs
        self.kerf, self.small = kerf_command, small_programs
        self.library = next(build.glob("tests/apps/libkerf_die_at.so"))

    def start(self, case, folder, resume):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "LD_PRELOAD": str(self.library), "KERF_MESSAGES": str(folder / "messages")}
        return subprocess.Popen([self.kerf.KERF, *map(str, case.command(folder, resume))], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=(folder / "stderr").open("a"), start_new_session=True, env=environment)

    def messages(self, folder):
        """(nanoseconds, pid, plane, kind) of what workers have sent."""
        if not (folder / "messages").exists():
            return []
        lines = (line.split() for line in (folder / "messages").read_text().splitlines())
        return [(int(ns), int(pid), plane, int(kind)) for ns, pid, _, plane, kind, _ in lines]

    def undisturbed(self, case, folder):
        folder.mkdir()
        begin = time.monotonic()
        process = self.start(case, folder, False)
        if process.wait(timeout=300) != 0:
            sys.exit(f"{case.name}, undisturbed: {(folder / 'stderr').read_text()}")
        return time.monotonic() - begin, case.left(folder)

    def kill_one(self, process, chance):
        """Who was killed, and when; empty, if nobody was there."""
        workers = self.kerf.workers_of(process.pid)
        victim = SCHEDULER if chance.random() < 0.2 else chance.choice(workers or [SCHEDULER])
        at = time.monotonic_ns()
        if process.poll() is not None:
            return None
        try:
            os.kill(process.pid if victim == SCHEDULER else victim, signal.SIGKILL)
        except ProcessLookupError:
            return None
        return victim, at

    def run(self, case, folder, moments, chance):
        """Kills at these moments, and returns the kills and the exit code."""
        begin = time.monotonic()
        process, kills, waiting = self.start(case, folder, False), [], collections.deque(moments)
        while True:
            while waiting and time.monotonic() - begin >= waiting[0]:
                waiting.popleft()
                killed = self.kill_one(process, chance)
                if killed:
                    kills.append(killed)
            code = process.poll()
            if code == 0 or time.monotonic() - begin > 300:
                break
            if code is not None:
                while self.kerf.processes_of(process.pid):
                    time.sleep(0.02)
                if code != -signal.SIGKILL:
                    break
                process = self.start(case, folder, any(folder.glob("*/**/manifest.json")))
            time.sleep(0.005)
        if code is None:
            os.killpg(process.pid, signal.SIGKILL)
        return kills, process.wait()

    def recoveries(self, folder, kills, trains):
        """Of each kill that a worker took the place of: who was killed, and the seconds until a new one sent what it computed: in training a
        tensor, of a program the second answer, as the first may be that it has read its state."""
        messages = self.messages(folder)
        sent = collections.defaultdict(list)
        for ns, pid, plane, kind in messages:
            if (plane, kind) == (("data", 3) if trains else ("control", 8)):
                sent[pid].append(ns)
        first = {pid: times[0 if trains else 1] for pid, times in sent.items() if trains or len(times) > 1}
        born = {}
        for ns, pid, *_ in messages:
            born.setdefault(pid, ns)
        found = []
        for i, (victim, at) in enumerate(kills):
            later = [first[pid] for pid in first if born[pid] > at]
            if later and (i + 1 == len(kills) or min(later) < kills[i + 1][1]):
                found.append((SCHEDULER if victim == SCHEDULER else "worker", (min(later) - at) * 1e-9))
        return found

    def disturbed(self, cases, whole, folder, seed):
        """One run, whatever it is by this seed: its name, the kills, whether it was not lost, the recoveries."""
        chance = random.Random(seed)
        case = chance.choice(cases)
        seconds, left = whole[case.name]
        folder.mkdir()
        moments = sorted(chance.uniform(0.02, seconds) for _ in range(chance.randint(1, 3)))
        killed, code = self.run(case, folder, moments, chance)
        same = code == 0 and case.left(folder) == left
        if not same:
            print(f"LOST {case.name}, seed {seed}: exit code {code}, {killed}\n{(folder / 'stderr').read_text()[-2000:]}", flush=True)
        times = self.recoveries(folder, killed, case.trains)
        shutil.rmtree(folder)
        return case.name, killed, same, times


class Table:
    COLUMNS = ("runs", "kills", "schedulers", "lost")

    def __init__(self):
        self.rows = collections.defaultdict(lambda: collections.defaultdict(list))

    def add(self, name, killed, same, times):
        for row in (self.rows["all"], self.rows[name]):
            for column, value in zip(self.COLUMNS, (1, len(killed), sum(who == SCHEDULER for who, _ in killed), 0 if same else 1), strict=True):
                row[column].append(value)
            for who, seconds in times:
                row[who].append(seconds)

    def sum(self, column):
        return sum(self.rows["all"][column])

    def show(self):
        print(f"\n{'':<20} " + " ".join(f"{each:>10}" for each in self.COLUMNS) + "   recovery of a worker, of a scheduler: seconds, median and worst")
        for name, row in self.rows.items():
            print(f"{name:<20} " + " ".join(f"{sum(row[each]):10}" for each in self.COLUMNS) + f"   {figures(row['worker'])}   {figures(row[SCHEDULER])}")


def figures(seconds):
    return f"{statistics.median(seconds):6.2f} {max(seconds):6.2f}" if seconds else f"{'':13}"


def go_on(kills, cases, whole, asked, chance, top, table):
    """Disturbs runs until there were enough kills, or time is over."""
    number = 0
    end = time.monotonic() + 60 * asked.minutes
    with concurrent.futures.ThreadPoolExecutor(asked.at_once) as pool:
        while table.sum("kills") < asked.kills and time.monotonic() < end:
            batch = [(top / str(number + i), chance.getrandbits(32)) for i in range(4 * asked.at_once)]
            number += len(batch)
            for answer in pool.map(lambda each: kills.disturbed(cases, whole, *each), batch):
                table.add(*answer)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--kills", type=int, default=2000)
    flags.add_argument("--minutes", type=float, default=float("inf"), help="then it ends, with fewer")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--at-once", type=int, default=2, help="runs beside each other")
    flags.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    asked = flags.parse_args()
    chance = random.Random(asked.seed)
    kills = Kills(asked.build)
    table = Table()
    with tempfile.TemporaryDirectory(prefix="kerf-kills-") as scratch:
        top = pathlib.Path(scratch)
        kills.small.write_small_data(top)
        cases = [Case(name, arguments, True) for name, arguments in TRAININGS.items()]
        cases += [Case(name, arguments, False) for name, arguments in programs(kills.small, top).items()]
        whole = {case.name: kills.undisturbed(case, top / f"whole {case.name}") for case in cases}
        for name, (seconds, _) in whole.items():
            print(f"{name:<20} {seconds:5.1f} s undisturbed", flush=True)

        try:
            go_on(kills, cases, whole, asked, chance, top, table)
        except KeyboardInterrupt:
            print("interrupted; until then:", flush=True)
    table.show()
    sys.exit(1 if table.sum("lost") else 0)


main()
