"""R14 of the contract on faults, as restarts_test.py numbers it."""

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import termios
import time
import unittest

from checkpoint_case import CheckpointTest
from kerf_command import KERF, SLOW, connect, free_address, processes_of, shared_memory, wait_until, workers_of


class R14(CheckpointTest):
    """Asked to end, by SIGTERM, Ctrl-C or a terminal that is gone, a run leaves a checkpoint and nothing else, soon."""

    WITHIN = 8  # seconds

    def setUp(self):
        super().setUp()
        self.shared_before = shared_memory()
        self.long = self.run_with("--epochs", 100000, "--lr-schedule", "constant", "--workers", 2)

    def begun(self, *more):
        process = self.start("train", *self.long, *more, "--out", self.folder / "out")
        self.await_line(process, "epoch 1/")
        return process

    def await_line(self, process, part):
        said = []
        while part not in (line := process.stderr.readline()):
            said.append(line)
            self.assertTrue(line, f"it ended before it said '{part}': {''.join(said)}")

    def assert_ended(self, process, since):
        _, errors = process.communicate(timeout=self.WITHIN * SLOW)
        self.assertLess(time.monotonic() - since, self.WITHIN * SLOW)
        self.assertEqual(process.returncode, 130, errors)
        self.assert_nothing_runs_on(self.shared_before)
        self.assertEqual([path for path in self.folder.glob("out/**/.*")], [], "temporary files")
        return errors

    def assert_saved(self, errors):
        """One between two that were due, from which the same bits come."""
        (checkpoint,) = self.checkpoints("out")
        self.assertGreater(checkpoint["number"] % 1_000_000, 0)
        self.assertRegex(errors, rf"error: interrupted; --resume \S*/checkpoints goes on from checkpoint-{checkpoint['number']}\n")
        self.assertIn(f"kerf: note: `kerf checkpoint {self.folder / 'out'} --export weights.safetensors` writes the weights of the newest checkpoint\n", errors)
        steps = checkpoint["number"] + 5
        whole = self.train(*self.long, "--steps", steps, out="whole")
        self.expect_same(self.train(*self.long, "--steps", steps, "--resume", self.folder / "out", out="again"), whole, "again")
        shutil.rmtree(self.folder / "out")

    def test_of_local_workers(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number.name):
                process = self.begun("--save-every", 1_000_000)
                since = time.monotonic()
                os.killpg(process.pid, number)  # as a terminal and service managers do
                self.assert_saved(self.assert_ended(process, since))

    def test_of_workers_that_connected(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                address = free_address()
                workers = [self.start("worker", "--connect", address) for _ in range(2)]
                process = self.begun("--save-every", 1_000_000, "--listen", address)
                since = time.monotonic()
                process.send_signal(number)
                errors = self.assert_ended(process, since)
                for worker in workers:
                    self.assertEqual(worker.wait(5 * SLOW), 0)
                self.assertIsNone(connect(address, 0), "nobody listens")
                self.assert_saved(errors)

    def test_behind_the_loss_of_a_worker_too(self):
        process = self.begun("--save-every", 1_000_000)
        since = time.monotonic()
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        process.send_signal(signal.SIGTERM)
        self.assert_saved(self.assert_ended(process, since))

    def test_two_at_the_same_time_are_one(self):
        # timeout(1) sends its signal to the process, and to the group that this is of.
        process = self.begun("--save-every", 1_000_000)
        since = time.monotonic()
        process.send_signal(signal.SIGTERM)
        time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assert_saved(self.assert_ended(process, since))

    def test_a_terminal_that_is_gone(self):
        """Of which the run hears, and to which it writes its notes in vain."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([KERF, "train", *map(str, self.long), "--save-every", "1000000", "--out", self.folder / "out"],
                                   stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(process.kill)
        os.close(theirs)
        said = b""
        while b"epoch 1/" not in said:
            said += os.read(ours, 4096)
        os.close(ours)
        self.assertEqual(process.wait(self.WITHIN * SLOW), 130)
        self.assertEqual(len(self.checkpoints("out")), 1)
        self.assertTrue(wait_until(lambda: not processes_of(process.pid), 5))

    def test_under_nohup_it_may_be(self):
        process = self.start("train", *self.long, "--save-every", 1_000_000, "--out", self.folder / "out",
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.await_line(process, "epoch 1/")
        os.killpg(process.pid, signal.SIGHUP)
        self.await_line(process, "epoch 2/")
        since = time.monotonic()
        process.send_signal(signal.SIGTERM)
        self.assert_saved(self.assert_ended(process, since))

    def test_twice_is_at_once(self):
        process = self.begun("--save-every", 1_000_000)
        os.kill(workers_of(process.pid)[0], signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        self.await_line(process, "a checkpoint comes first")
        time.sleep(0.5)  # at once it would count as the same one
        since = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=self.WITHIN * SLOW)
        self.assertLess(time.monotonic() - since, 1 * SLOW)
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted twice", errors)
        self.assert_nothing_runs_on(self.shared_before)

    def test_what_is_left_of_a_killed_run_goes_with_the_next(self):
        for within, saves in ((".", ()), ("checkpoints", ("--save-every", 5))):
            with self.subTest(within=within):
                folder = self.folder / "out" / within
                folder.mkdir(parents=True)
                dead, alive, young = (folder / f".kerf-000000000000000{i}.tmp" for i in range(3))
                for file in (dead, alive, young):
                    file.write_bytes(b"half of")
                for file in (dead, alive):
                    os.utime(file, (1, 1))
                os.utime(young, (later := time.time() + 3600, later))
                with open(alive, "rb") as writer:
                    fcntl.flock(writer, fcntl.LOCK_EX)
                    self.train(*self.run_with("--epochs", 1), *saves, out="out")
                    self.assertEqual(sorted(folder.glob(".*")), [alive, young])


if __name__ == "__main__":
    unittest.main()
