"""R11 of the contract on faults, by strace: whatever the system refuses within a save, and wherever it kills a process that
saves, the checkpoint before or the new one is whole, and a run goes on from it.

OfARun has a run of processes. strace counts the calls of each thread by itself. Those by which files are made and go wrong
there, the nth of each thread in all processes; openat and close, of which there are many others, in the scheduler's first
thread, where they have the same numbers in each run. Writes have not, as threads wake one another by them. OfOneThread has a
program that saves in one thread (tests/schedmp/one_thread_saves.cc): there each call that names the checkpoints' folder or a
file in it goes wrong, whichever call it is, and those by which files are written are looked for by name."""

import collections
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import unittest

from kerf_command import KERF, SLOW, KerfTest, run, write_images

FULL = "full" in sys.argv[1:]
CALLS = ("fsync", "rename", "mkdir", "unlink", "unlinkat", "rmdir")
SHARED = ("openat", "close")  # with others
KILL = "signal=KILL"
ENDS = ("error=EIO", "error=ENOSPC", KILL)


def straced(options, command, program=KERF):
    return subprocess.run(["strace", *map(str, options), program, *map(str, command)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60 * SLOW, check=False)


class OfARun(KerfTest):
    def setUp(self):
        super().setUp()
        (self.folder / "images").mkdir()
        write_images(self.folder / "images", 64)
        self.command = ("train", "mlp", "--sizes", "784-8-10", "--batch", 32, "--epochs", 2, "--data", f"idx:{self.folder / 'images'}", "--workers", 2,
                        "--save-every", 1, "--no-restart")
        answer = run(*self.command, "--out", self.folder / "whole")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        # As a run leaves it that ends before its last save.
        shutil.copytree(self.folder / "whole", self.folder / "before")
        shutil.rmtree(self.folder / "before/checkpoints/checkpoint-4")
        (self.folder / "before/weights.safetensors").unlink()

    def resumed(self, name):
        return (*self.command, "--out", self.folder / name, "--resume", self.folder / name)

    def calls_of(self, name, options):
        """thread -> call -> its lines, of a run that goes on from the checkpoint before."""
        shutil.copytree(self.folder / "before", self.folder / name)
        calls = self.folder / f"{name}.calls"
        answer = straced(("-y", "-o", calls, *options), self.resumed(name))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        made = collections.defaultdict(lambda: collections.defaultdict(list))
        for thread, call, rest in re.findall(r"^(\d*) *(\w+)\((.*)", calls.read_text(), re.MULTILINE):
            made[thread][call].append(rest)
        return made

    def points(self):
        """(whether of all processes, call, n) for each call of a save."""
        alone = self.calls_of("alone", ("-f", "-e", f"trace={','.join(CALLS)}"))
        places = {call: sorted({n for calls in alone.values() for n, line in enumerate(calls[call], 1) if "/checkpoints" in line}) for call in CALLS}
        self.assertTrue(places["fsync"] and places["rename"] and places["mkdir"], places)
        (shared,) = self.calls_of("shared", ("-e", f"trace={','.join(SHARED)}")).values()
        of_folder = {call: [n for n, line in enumerate(shared[call], 1) if "/checkpoints" in line] for call in SHARED}
        self.assertTrue(all(of_folder.values()), of_folder)
        return [(True, call, n) for call in CALLS for n in places[call]] + [(False, call, n) for call in SHARED for n in of_folder[call]]

    def expect_one_whole(self, everywhere, call, n, end):
        """Whether a call of the checkpoints' folder went wrong."""
        shutil.copytree(self.folder / "before", self.folder / "failed")
        log = self.folder / "log"
        answer = straced((*(("-f",) if everywhere else ()), "-y", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:{end}:when={n}"),
                         self.resumed("failed"))
        lines = [line for line in log.read_text().splitlines() if f"{call}(" in line]
        wrong = [line for line in lines if "(INJECTED)" in line] if end.startswith("error") else lines[n - 1:] if everywhere else lines[n - 1:n]
        verified = run("checkpoint", self.folder / "failed", "--verify")
        self.assertEqual(verified.returncode, 0, f"{verified.stdout}{verified.stderr}{answer.stderr}")
        again = run(*self.resumed("failed"))
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual((self.folder / "failed/weights.safetensors").read_bytes(), (self.folder / "whole/weights.safetensors").read_bytes())
        return any("/checkpoints" in line for line in wrong)

    def test_one_is_whole_after_any_call(self):
        points = [(*point, end) for point in self.points() for end in ENDS]
        if not FULL:
            points = random.Random(int(os.environ.get("KERF_SEED", "1"))).sample(points, 5)
        met = collections.Counter()
        for everywhere, call, n, end in points:
            with self.subTest(everywhere=everywhere, call=call, n=n, end=end):
                met[call] += self.expect_one_whole(everywhere, call, n, end)
            shutil.rmtree(self.folder / "failed", ignore_errors=True)
        print(f"{len(points)} calls went wrong, of the checkpoints' folder {sum(met.values())}: {dict(met)}")
        self.assertGreater(sum(met.values()), 0)


class OfOneThread(KerfTest):
    SAVES = os.environ.get("KERF_SAVES", "build/release/tests/schedmp/one_thread_saves")
    # By which files are written: a save without one of these is not what is meant to be looked at.
    WRITING = ("openat", "write", "fsync", "close", "rename", "unlink", "rmdir", "mkdir")
    SAMPLE = 25

    def setUp(self):
        super().setUp()
        self.before, self.failed = self.folder / "before/checkpoints", self.folder / "failed/checkpoints"
        self.assertEqual(self.save(self.before), ("from 0\n", 0))

    def save(self, folder):
        answer = subprocess.run([self.SAVES, folder], capture_output=True, text=True, check=False)
        return answer.stdout, answer.returncode

    def copied(self):
        shutil.rmtree(self.failed.parent, ignore_errors=True)
        shutil.copytree(self.before, self.failed)
        return self.failed

    def points(self):
        """(call, n) of all that the next save asks of the system for its folder."""
        log = self.folder / "log"
        answer = straced(("-f", "-y", "-o", log), (self.copied(),), self.SAVES)
        self.assertEqual((answer.stdout, answer.returncode), ("from 1\n", 0), answer.stderr)
        met, points = collections.Counter(), []
        threads = set()
        for thread, call, rest in re.findall(r"^(\d+) +(\w+)\((.*)", log.read_text(), re.MULTILINE):
            threads.add(thread)
            met[call] += 1
            if str(self.failed) in rest and call != "execve":
                points.append((call, met[call]))
        self.assertEqual(len(threads), 1)
        missing = set(self.WRITING) - {call for call, _ in points}
        self.assertFalse(missing, f"{missing} in {points}")
        # Three pieces of each worker's, the scheduler's half, and the manifest.
        self.assertGreaterEqual(sum(call == "write" for call, _ in points), 8)
        return points

    def expect_one_whole(self, call, n, end):
        """Which checkpoint is there behind it."""
        log = self.folder / "log"
        answer = straced(("-y", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:{end}:when={n}"), (self.copied(),), self.SAVES)
        wrong = [line for line in log.read_text().splitlines() if line.startswith(f"{call}(")][n - 1]
        self.assertIn(str(self.failed), wrong)
        self.assertTrue(end == KILL or "(INJECTED)" in wrong, wrong)
        self.assertIn(answer.returncode, (-signal.SIGKILL,) if end == KILL else (0, 1, 3), answer.stderr)
        if answer.returncode == 3:
            self.assertIn("no checkpoint was written, and the run goes on: ", answer.stderr)
        verified = run("checkpoint", self.failed, "--verify")
        self.assertEqual(verified.returncode, 0, f"{verified.stdout}{verified.stderr}{answer.stderr}")
        self.assertNotIn("not whole", verified.stdout)
        said, code = self.save(self.failed)
        self.assertEqual(code, 0)
        there = int(said.removeprefix("from "))
        self.assertIn(there, {0: (2,), 1: (1,), 3: (1,), -signal.SIGKILL: (1, 2)}[answer.returncode])
        return there

    def test_one_is_whole_after_any_call(self):
        points = [(call, n, end) for call, n in self.points() for end in ENDS]
        if not FULL:
            points = random.Random(int(os.environ.get("KERF_SEED", "1"))).sample(points, self.SAMPLE)
        there = collections.Counter()
        for call, n, end in points:
            with self.subTest(call=call, n=n, end=end):
                there[self.expect_one_whole(call, n, end)] += 1
        print(f"{len(points)} calls went wrong: {dict(collections.Counter(call for call, _, _ in points))}; behind them the one before was there "
              f"{there[1]} times, the new one {there[2]} times")
        self.assertGreater(there[1], 0)
        self.assertGreater(there[2], 0)


if __name__ == "__main__":
    if not shutil.which("strace") or subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False).returncode:
        print("skipped: strace is not there, or may not trace (ptrace is forbidden)")
        sys.exit(77)
    unittest.main(argv=[each for each in sys.argv if each != "full"])
