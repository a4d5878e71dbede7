"""However a run ends, it ends soon, says who is to blame, and leaves no process and no shared memory behind."""

import json
import os
import re
import signal
import time
import unittest

from kerf_command import SLOW, KerfTest, connect, free_address, processes_of, shared_memory, wait_until, workers_of

WITHIN = 5 * SLOW  # seconds
ENDLESS = ("train", "lenet5", "--data", "synthetic:4096x784x10", "--workers", 3, "--epochs", 100000, "--no-test")


class Lifecycle(KerfTest):
    def setUp(self):
        super().setUp()
        self.shared_before = shared_memory()

    def run_up(self, *more):
        """A run whose three workers are training, and which the loss of one ends."""
        process = self.start(*ENDLESS, "--no-restart", "--out", self.folder / "out", *more)
        workers = wait_until(lambda: len(workers_of(process.pid)) == 3 and workers_of(process.pid), 20)
        self.assertTrue(workers, "three workers that show as `kerf worker`")
        self.await_line(process, "epoch 1/")
        return process, workers

    def await_line(self, process, part):
        """Until the run says so."""
        said = []
        while part not in (line := process.stderr.readline()):
            said.append(line)
            self.assertTrue(line, f"it ended before it said '{part}': {''.join(said)}")

    def assert_ends(self, process, since):
        try:
            _, errors = process.communicate(timeout=WITHIN)
        except Exception:
            self.fail(f"still running after {WITHIN} s: {processes_of(process.pid)}")
        self.assertLess(time.monotonic() - since, WITHIN)
        left = wait_until(lambda: not processes_of(process.pid), 1)
        self.assertTrue(left, f"left behind: {processes_of(process.pid)}")
        self.assertEqual(shared_memory() - self.shared_before, set())
        self.assertEqual(list((self.folder / "out").iterdir()), [], "half-written results")
        return errors

    def assert_names_the_worker(self, errors, worker):
        self.assertIn("kerf: error:", errors)
        self.assertRegex(errors, rf"worker {worker}\b")
        self.assertRegex(errors, r"(?s)wait", "who waited for what")
        self.assertNotIn("terminate called", errors)

    def test_a_killed_worker(self):
        for transport in ("shm", "ipc", "tcp"):
            with self.subTest(transport=transport):
                process, workers = self.run_up("--transport", transport)
                since = time.monotonic()
                os.kill(workers[1], signal.SIGKILL)
                errors = self.assert_ends(process, since)
                self.assertEqual(process.returncode, 1)
                self.assertIn(str(workers[1]), errors)
                self.assert_names_the_worker(errors, self.number_of(errors, workers[1]))

    def test_a_run_goes_on_without_a_killed_worker(self):
        def train(name, disturb):
            process = self.start("train", "lenet5", "--data", "synthetic:2048x784x10", "--workers", 3, "--epochs", 4, "--out", self.folder / name)
            if disturb:
                self.await_line(process, "epoch 1/")
                killed = workers_of(process.pid)[1]
                os.kill(killed, signal.SIGKILL)
                self.await_line(process, "begin again from step")
                others = wait_until(lambda: len(now := workers_of(process.pid)) == 3 and killed not in now and now, 20 * SLOW)
                self.assertTrue(others, "three new workers")
                os.kill(others[2], signal.SIGKILL)
            _, errors = process.communicate(timeout=60 * SLOW)
            self.assertEqual(process.returncode, 0, errors)
            record = json.loads((self.folder / name / "run.json").read_text())
            return (self.folder / name / "weights.safetensors").read_bytes(), record, errors
        weights, record, _ = train("undisturbed", False)
        again, disturbed, errors = train("disturbed", True)
        self.assertEqual(weights, again)
        for each in ("losses", "gradient_norms", "evaluations", "routes"):
            self.assertEqual(record[each], disturbed[each])
        self.assertEqual(errors.count("begin again from step"), 1, "the other was read before")
        self.assertEqual((record["restarts"], disturbed["restarts"]), (0, 2))
        self.assertEqual(shared_memory() - self.shared_before, set())

    def number_of(self, errors, pid):
        return re.search(rf"worker (\d+) \(pid {pid}\b", errors).group(1)

    def test_a_stopped_worker(self):
        process, workers = self.run_up()
        since = time.monotonic()
        os.kill(workers[2], signal.SIGSTOP)
        errors = self.assert_ends(process, since)
        self.assertEqual(process.returncode, 1)
        self.assert_names_the_worker(errors, self.number_of(errors, workers[2]))

    def test_ctrl_c(self):
        process, _ = self.run_up()
        since = time.monotonic()
        # A terminal sends it to the whole foreground group.
        os.killpg(process.pid, signal.SIGINT)
        errors = self.assert_ends(process, since)
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted", errors)

    def test_sigterm(self):
        process, _ = self.run_up()
        since = time.monotonic()
        process.send_signal(signal.SIGTERM)
        self.assert_ends(process, since)
        self.assertEqual(process.returncode, 130)

    def test_ctrl_c_while_waiting_for_workers(self):
        address = free_address()
        process = self.start(*ENDLESS, "--out", self.folder / "out", "--listen", address)
        connect(address).close()
        since = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.assert_ends(process, since)
        self.assertEqual(process.returncode, 130)

    def test_a_killed_scheduler(self):
        process, workers = self.run_up()
        process.kill()
        process.wait()
        gone = wait_until(lambda: not processes_of(process.pid), WITHIN)
        self.assertTrue(gone, f"left behind: {processes_of(process.pid)} of {workers}")
        self.assertEqual(shared_memory() - self.shared_before, set())

    def test_a_stopped_scheduler(self):
        """Its workers end by themselves: a scheduler that is silent is as good as dead."""
        process, workers = self.run_up()
        os.kill(process.pid, signal.SIGSTOP)
        self.assertTrue(wait_until(lambda: not workers_of(process.pid), WITHIN + 2), f"left behind: {workers}")
        os.kill(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
        self.assertEqual(errors.count("has been silent for 3.0 s"), 3, errors)
        self.assertNotIn("interrupted", errors)

    def test_a_stop_of_all_goes_on_with_the_same_bits(self):
        """Ctrl-Z, or a laptop that was suspended: longer than anybody may be silent."""
        model = ("lenet5", "--data", "synthetic:4096x784x10", "--workers", 3, "--epochs", 5, "--no-test")
        whole = self.train(*model, out="whole")
        process = self.start("train", *model, "--json", "--out", self.folder / "out")
        self.await_line(process, "epoch 1/5")
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(4)
        self.assertIsNone(process.poll())
        os.killpg(process.pid, signal.SIGCONT)
        answer, errors = process.communicate(timeout=60 * SLOW)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(json.loads(answer)["losses"], whole["losses"])
        self.assertTrue((self.folder / "out" / "weights.safetensors").read_bytes() ==
                        (self.folder / "whole" / "weights.safetensors").read_bytes(), "weights differ")

    def test_an_orderly_end_leaves_nothing(self):
        process = self.start("train", "lenet5", "--data", "synthetic:256x784x10", "--workers", 3, "--steps", 2, "--out",
                             self.folder / "out")
        process.communicate(timeout=60 * SLOW)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(processes_of(process.pid), {})
        self.assertEqual(shared_memory() - self.shared_before, set())
        self.assertFalse([p for p in (self.folder / "out").iterdir() if p.name.startswith(".")])


if __name__ == "__main__":
    unittest.main()
