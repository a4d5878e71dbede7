"""A run of which a worker becomes slow plans anew by what it measures, and goes on by that to the same bits."""

import json
import os
import shutil
import signal
import threading
import time
import unittest

from halved_worker import HalvedWorker
from kerf_command import SLOW, KerfTest, child_of, free_address, read_safetensors, run, wait_until, workers_of

# Seven layers of which six are alike: three for each of two workers, and of one that is half as fast two.
RUN = ("mlp", "--sizes", "512-512-512-512-512-512-512-10", "--data", "synthetic:4096x512x10", "--batch", 256, "--workers", 2, "--no-test")
FIRST_WINDOW = 4  # seconds, behind the first epoch: what all that comes is compared with is measured
ATTEMPTS = 3  # each twice as long, where a busy machine has the slow worker not show before the run is over
UNDISTURBED = 25  # seconds that a run takes, so that enough is left behind the windows that decide, however fast the machine is


class Rebalance(KerfTest):
    @classmethod
    def setUpClass(cls):
        cls.whole = cls.steps = None

    def command(self):
        cls = type(self)
        if cls.steps is None:
            cls.steps = max(600, int(UNDISTURBED / self.train(*RUN, "--steps", 100, out="probe")["median_step_seconds"]))
        return (*RUN, "--steps", cls.steps)

    def undisturbed(self):
        cls = type(self)
        if cls.whole is None:
            answer = run("train", *self.command(), "--json", "--out", self.folder / "whole", timeout=900)  # it may be busier than when steps were counted
            self.assertEqual(answer.returncode, 0, answer.stderr[-2000:])
            cls.whole = json.loads(answer.stdout)["losses"], read_safetensors(self.folder / "whole" / "weights.safetensors")
        return cls.whole

    @staticmethod
    def second_of(process):
        workers = workers_of(process.pid)
        return workers[1] if len(workers) == 2 else None

    def run_with_a_slow_worker(self, process, find, meanwhile=lambda: None):
        """Returns the report, and what was printed."""
        printed = []
        with HalvedWorker(find) as halved:
            for line in process.stderr:
                printed.append(line)
                if "epoch 1/" in line and halved.thread.ident is None:
                    break
            time.sleep(FIRST_WINDOW * SLOW)
            halved.start()
            rest = threading.Thread(target=lambda: printed.extend(process.stderr))
            rest.start()
            meanwhile()
            answer = process.stdout.read()
            rest.join()
            process.wait(60)
        return answer, "".join(printed)

    def rebalanced(self, out, begin):
        """`begin` starts a run, and says how to find its second worker. Returns the report."""
        for _ in range(ATTEMPTS):
            process, find = begin()
            answer, printed = self.run_with_a_slow_worker(process, find)
            self.assertEqual(process.returncode, 0, printed)
            changed = any(each["worker"] == 1 for each in json.loads(answer)["rebalances"])
            if changed or os.getloadavg()[0] < 2 * os.cpu_count():
                break
            type(self).steps, type(self).whole = 2 * self.steps, None
        return self.expect_rebalanced(answer, printed, out)

    def expect_rebalanced(self, answer, printed, out):
        """Where something else slows the other worker meanwhile, there may be a change for that, too; and by how much the one is slower nobody knows."""
        report = json.loads(answer)
        changes = [each for each in report["rebalances"] if each["worker"] == 1]
        self.assertTrue(changes, printed)
        change = changes[-1]
        self.assertGreater(change["slowness"], 1.25)
        self.assertLessEqual(change["after_seconds"], 0.9 * change["before_seconds"])
        self.assertGreater(change["bytes"], 0)
        self.assertGreater(change["seconds"], 0)
        self.assertFalse((self.folder / out / "checkpoints").exists(), "nobody asked for them")
        self.assertRegex(printed, r"kerf: note: worker 1 takes [0-9.]+ times as long as was planned, beside the one of which that is least: planned anew behind [0-9]+ steps, "
                         r"and goes on by a plan whose step is predicted to take .* of weights move: ")
        layers = {stage["workers"][0]: sum(name.startswith("fc") for name in stage["nodes"]) for stage in report["plan"]["stages"]}
        if len(report["rebalances"]) == 1:  # the slow worker may have either stage
            self.assertGreater(layers[0], layers[1])
        losses, weights = self.undisturbed()
        self.assertEqual(report["losses"], losses)
        self.assertEqual(read_safetensors(self.folder / out / "weights.safetensors"), weights)
        self.assertFalse((self.folder / out / "rebalance").exists())
        return report

    def test_local_workers(self):
        def begin():
            process = self.start("train", *self.command(), "--rebalance", "--json", "--out", self.folder / "local")
            return process, lambda: self.second_of(process)
        self.rebalanced("local", begin)

    def asked_for_an_end_once_there_is(self, file):
        out = self.folder / "asked"
        shutil.rmtree(out, ignore_errors=True)
        process = self.start("train", *self.command(), "--rebalance", "--save-every", "10m", "--json", "--out", out)

        def ask():
            self.assertTrue(wait_until(lambda: list(out.glob(file)), 120))
            process.send_signal(signal.SIGTERM)

        _, printed = self.run_with_a_slow_worker(process, lambda: self.second_of(process), ask)
        return process.returncode, printed

    def test_who_asks_for_an_end_while_it_changes_has_it(self):
        """Before the checkpoint or later, where the next process may not have begun to listen."""
        out = self.folder / "asked"
        code, printed = self.asked_for_an_end_once_there_is("rebalance/devices.json")
        self.assertIn(code, (130, -signal.SIGTERM), printed)
        if code == 130:
            self.assertIn("interrupted; --resume", printed)
        code, printed = self.asked_for_an_end_once_there_is("checkpoints/*/manifest.json")
        self.assertIn(code, (130, -signal.SIGTERM), printed)
        report = self.train(*self.command(), "--save-every", "10m", "--resume", out, out="asked")
        losses, weights = self.undisturbed()
        self.assertEqual(report["losses"], losses)
        self.assertEqual(read_safetensors(out / "weights.safetensors"), weights)

    def test_a_change_that_cannot_be_written_down_is_put_off(self):
        out = self.folder / "put-off"
        out.mkdir()
        (out / "rebalance").write_text("a file where a folder is to be")
        process = self.start("train", *self.command(), "--rebalance", "--json", "--out", out)
        answer, printed = self.run_with_a_slow_worker(process, lambda: self.second_of(process))
        self.assertEqual(process.returncode, 0, printed)
        self.assertRegex(printed, r"kerf: note: the plan stays for now, and another is looked for later: worker 1 takes .*, and .*rebalance/rebalanced\.json: ")
        report = json.loads(answer)
        self.assertEqual(report["rebalances"], [])
        losses, weights = self.undisturbed()
        self.assertEqual(report["losses"], losses)
        self.assertEqual(read_safetensors(out / "weights.safetensors"), weights)

    def test_workers_that_connected_keep_their_numbers(self):
        workers = slow = None

        def begin():
            nonlocal workers, slow
            address = free_address()
            process = self.start("train", *self.command(), "--rebalance", "--listen", address, "--json", "--out", self.folder / "connected")
            workers = [self.start("worker", "--connect", address)]
            for line in process.stderr:
                if "1 of 2 workers" in line:
                    break
            workers.append(self.start("worker", "--connect", address))
            slow = child_of(workers[1].pid)
            return process, lambda: slow
        report = self.rebalanced("connected", begin)
        self.assertEqual(report["workers"][1]["pid"], slow)
        self.assertEqual([worker.wait(60 * SLOW) for worker in workers], [0, 0])


class Refused(KerfTest):
    def refused(self, *flags, of):
        answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--workers", 2, *flags, "--out", self.folder / "out")
        self.assert_one_error(answer, of)

    def test_where_there_is_nothing_to_go_on_from_or_nothing_to_choose(self):
        plan, rows = self.folder / "plan.json", self.folder / "rows.txt"
        self.assertEqual(run("plan", "lenet5", "--workers", 2, "--out", plan).returncode, 0)
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--out", rows).returncode, 0)
        shares = self.folder / "shares.json"
        shares.write_text('{"kerf_shares": 1, "shares": {"conv1": {"0": "all"}, "conv2": {"0": "all"}, "fc1": {"0": "all"}, "fc2": {"1": "all"}, "fc3": {"1": "all"}}}')
        for flags in (("--plan", plan), ("--schedule", rows), ("--cut", "free", "--shares", shares), ("--replicas", 2), ("--optimizer", "lbfgs"), ("--save-every", 0),
                      ("--trace-steps", 2), ("--listen", "tcp://127.0.0.1:*")):
            with self.subTest(flags=flags):
                self.refused("--rebalance", *flags, of="--rebalance: ")

    def test_files_that_the_run_would_write_over_or_remove(self):
        file = self.folder / "out" / "rebalance" / "devices.json"
        file.parent.mkdir(parents=True)
        file.write_text("{}")
        for flag in ("--profile", "--devices"):
            for more in ((), ("--rebalance",)):
                with self.subTest(flag=flag, more=more):
                    self.refused(flag, file, *more, of=f"{flag}: {file} lies where this run writes")
        self.refused("--rebalance", of=f"--rebalance: {file} is no run's")

    def test_what_no_person_gives(self):
        self.refused("--returning", 0, of="--returning: ")
        self.refused("--goes-on", "--steps", 1, of="--goes-on: ")

    def test_what_an_interrupted_run_left_goes_with_the_next(self):
        folder = self.folder / "out" / "rebalance"
        folder.mkdir(parents=True)
        for names, left in ((("profile.json", "devices.json"), ["devices.json", "profile.json"]), (("profile.json", "devices.json", "rebalanced.json"), None)):
            with self.subTest(names=names):
                for name in names:
                    (folder / name).write_text("{}")
                self.train("lenet5", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 2, "--no-test", out="out")
                self.assertEqual(sorted(file.name for file in folder.iterdir()) if folder.exists() else None, left)

    def test_shrink_of_what_is_for_all_of_its_workers(self):
        rows, devices = self.folder / "rows.txt", self.folder / "devices.json"
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--out", rows).returncode, 0)
        devices.write_text('{"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 2}}}')
        for flags in (("--schedule", rows), ("--devices", devices)):
            with self.subTest(flags=flags):
                self.refused("--shrink", "--listen", free_address(), *flags, of="--shrink: ")


if __name__ == "__main__":
    unittest.main()
