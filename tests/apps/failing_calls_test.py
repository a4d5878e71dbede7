"""R11 of the contract on faults, by strace: whatever the system refuses to a run within a save, and wherever it kills a process
of it, the checkpoint before or the new one is whole, and the run goes on from it to the same weights. strace counts the calls
of each thread by itself. Those by which files are written go wrong in all processes, the nth of each thread; openat, write and
close, of which there are many others, in the scheduler's first thread, whose openat and close have the same numbers in each run.
Its writes have not, as threads wake one another by them: one that goes wrong is mostly no file's, so that those of files are
left to tests/schedmp/failing_saves_test.cc."""

import collections
import os
import random
import re
import shutil
import subprocess
import sys
import unittest

from kerf_command import KERF, SLOW, KerfTest, run, write_images

FULL = "full" in sys.argv[1:]
CALLS = ("fsync", "rename", "mkdir", "unlink", "unlinkat", "rmdir")
SHARED = ("openat", "write", "close")  # with others
ENDS = ("error=EIO", "error=ENOSPC", "signal=KILL")


def straced(options, command):
    return subprocess.run(["strace", *map(str, options), KERF, *map(str, command)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60 * SLOW, check=False)


class R11(KerfTest):
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
        # Wherever they are in another run.
        of_folder["write"] = range(of_folder["write"][0], of_folder["write"][-1] + 1)
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


if __name__ == "__main__":
    if not shutil.which("strace") or subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False).returncode:
        print("skipped: strace is not there, or may not trace (ptrace is forbidden)")
        sys.exit(77)
    unittest.main(argv=[each for each in sys.argv if each != "full"])
