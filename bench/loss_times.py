#!/usr/bin/env python3
"""How soon a run tells that a worker was lost, and how soon that worker's successor is at work.

    bench/loss_times.py [--times 5] [--only told|recovery] [--build build/release]

Told: of two workers that connected one is killed together with its keeper, so that only its broken connection shows it: seconds until the scheduler's line. (Goal: 1.)
Recovery: of two local workers that is killed which has 1 GiB of weights and momentum, behind its first commits: seconds from the scheduler's line until its successor sends its first
tensor, as kerf_die_at of the tests tells. (Goal: 5.) Needs a build with tests, and 6 GB of memory. Prints medians, and the least and the most.
"""

import argparse
import os
import pathlib
import re
import signal
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = ("train", "lenet5", "--data", "synthetic:2048x784x10", "--workers", 2, "--no-test", "--epochs", 100000)
# 8192 x 16384 weights of 4 bytes, and as many numbers of momentum: one worker's, whatever the other has.
LARGE = ("train", "mlp", "--sizes", "784-8192-16384-10", "--data", "synthetic:256x784x10", "--batch", 8, "--micro-batches", 2, "--optimizer", "sgd", "--momentum", 0.9,
         "--workers", 2, "--cut", "layer", "--no-test", "--steps", 100000, "--save-every", 0, "--buddy-every", 4)
DATA, TENSOR = "data", 3  # of tests/support/die_at.cc


def await_line(process, part):
    """When the process said it."""
    for line in process.stderr:
        if re.search(part, line):
            return time.monotonic_ns(), line
    sys.exit(f"the run ended before it said '{part}'")


class Losses:
    def __init__(self, build):
        sys.path.insert(0, str(ROOT / "tests/apps"))
        os.environ["KERF"] = str(build / "bin/kerf")
        import kerf_command
        self.kerf = kerf_command
        self.library = next(build.glob("tests/apps/libkerf_die_at.so"))

    def end(self, *processes):
        for process in processes:
            for pid in self.kerf.processes_of(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.communicate()

    def told(self, folder):
        address = self.kerf.free_address()
        keepers = [self.kerf.start("worker", "--connect", address) for _ in range(2)]
        run = self.kerf.start(*SMALL, "--listen", address, "--out", folder / "out")
        await_line(run, "epoch 3/")
        worker = self.kerf.child_of(keepers[1].pid)
        begin = time.monotonic_ns()
        os.kill(keepers[1].pid, signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        told, _ = await_line(run, "was lost: its connection broke")
        self.end(run, *keepers)
        return (told - begin) * 1e-9

    def recovery(self, folder):
        messages = folder / "messages"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "LD_PRELOAD": str(self.library), "KERF_MESSAGES": str(messages)}
        run = self.kerf.start(*LARGE, "--out", folder / "out", env=environment)
        workers = self.kerf.wait_until(lambda: (found := self.kerf.workers_of(run.pid)) and len(found) == 2 and found, 60)
        # By then there have been two commits at least, and the last may be under way.
        while self.tensors(messages) < 44:
            time.sleep(0.1)
        victim = max(workers, key=self.resident)
        os.kill(victim, signal.SIGKILL)
        told, _ = await_line(run, "was lost: signal 9")
        _, begun = await_line(run, r"begin again from step (\d+)")
        successor = self.kerf.wait_until(lambda: self.first_of_successor(messages, victim), 60)
        self.end(run)
        if not successor:
            sys.exit("nobody took its place")
        if int(re.search(r"from step (\d+)", begun)[1]) == 0:
            sys.exit("nothing was kept")
        return (successor - told) * 1e-9

    def resident(self, pid):
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])

    def lines(self, messages):
        lines = messages.read_text().splitlines() if messages.exists() else []
        return [(int(ns), int(pid), int(worker)) for ns, pid, worker, plane, kind, _ in map(str.split, lines) if (plane, kind) == (DATA, str(TENSOR))]

    def tensors(self, messages):
        return len(self.lines(messages))

    def first_of_successor(self, messages, victim):
        sent = self.lines(messages)
        number = next(worker for _, pid, worker in sent if pid == victim)
        before = {pid for _, pid, worker in sent if worker == number and pid == victim}
        return next((ns for ns, pid, worker in sent if worker == number and pid not in before), None)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--times", type=int, default=5)
    flags.add_argument("--only", choices=("told", "recovery"))
    flags.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    asked = flags.parse_args()
    losses = Losses(asked.build)
    for name, measure in (("told", losses.told), ("recovery", losses.recovery)):
        if asked.only not in (None, name):
            continue
        seconds = []
        for _ in range(asked.times):
            with tempfile.TemporaryDirectory(prefix="kerf-loss-") as scratch:
                seconds.append(measure(pathlib.Path(scratch)))
        print(f"{name:<9} {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})", flush=True)


main()
