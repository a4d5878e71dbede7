"""What is done again behind a death, of the numbers of restarts_test.py:

    R7  nothing is applied twice, and nothing is lost, nor of what replicas share by tables, nor of L-BFGS's vectors (by the numbers of all frames:
        restart_frames_test.py)

With `full` replicas die at some of their messages.
"""

import json
import os
import pathlib
import random
import re
import signal
import sys
import time
import unittest

from dying import BYE, DATA, LONGER, READY, RESULTS, STEPS, DyingTest, kind_of
from kerf_command import SLOW, read_safetensors, run, wait_until, workers_of
from small_programs import factorisation, lasso, topics, write_small_data

FULL = "full" in sys.argv


class R7OfEndless(DyingTest):
    def test_what_never_drains_goes_on_from_where_it_drained_last(self):
        """Of three stages the first is two of eight micro-batches ahead: a hundredth of 25 steps."""
        endless = (*LONGER, "--schedule", "pipedream", "--micro-batches", 8, "--lr", 0.01, "--epochs", 40)
        self.assertEqual(self.train(*endless[1:], out="whole")["drain_period"], 25)
        process = self.start(*endless, "--out", self.folder / "disturbed")
        begun, epochs, last = None, 0, None
        # So long that one drain at least lies behind what is due after a second.
        while last is None or epochs < last:
            line = process.stderr.readline()
            self.assertTrue(line)
            if not re.search(r"epoch \d+/", line):
                continue
            epochs, begun = epochs + 1, begun or time.monotonic()
            if last is None and time.monotonic() - begun > 1.2:
                last = epochs + 4
        os.kill(workers_of(process.pid)[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=120 * SLOW)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(self.expect_same("disturbed", self.outcome("whole"))["restarts"], 1)
        began = int(re.search(r"all workers begin again from step (\d+)", errors).group(1))
        self.assertGreater(began, 0)
        self.assertEqual(began % 25, 0)


class R7(DyingTest):
    def test_what_was_done_again_is_counted_once_and_told(self):
        run(*STEPS, "--out", self.folder / "whole")
        whole = self.outcome("whole")
        self.assertEqual((whole[2]["restarts"], whole[2]["repeated_tasks"]), (0, 0))
        # Behind the second save nothing of before it is done again: of three workers' steps 2 and 3 those that had been answered.
        environment, _ = self.dying("disturbed", "2 data 3 9 after")
        answer = run(*STEPS, "--out", self.folder / "disturbed", env=environment)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        record = self.expect_same("disturbed", whole)
        self.assertIn("all workers begin again from step", answer.stderr)
        self.assertEqual(record["restarts"], 1)
        self.assertLessEqual(record["repeated_tasks"], 3 * 2)

    def of_scheduler(self, name):
        """The spans of the scheduler in the run's trace."""
        events = json.loads((self.folder / name / "trace.json").read_text())["traceEvents"]
        pids = {each["pid"] for each in events if each["name"] == "process_name" and each["args"]["name"] == "scheduler"}
        return [each for each in events if each["ph"] == "X" and each["pid"] in pids]

    def test_what_is_counted_apart_is_in_the_record_the_report_and_the_trace(self):
        saving = (*STEPS, "--steps", 12, "--save-every", 5, "--keep", 9, "--buddy-every", 1000)  # nor is anything kept by time
        environment, file = self.dying("whole")
        self.assertEqual(run(*saving, "--out", self.folder / "whole", env=environment).returncode, 0)
        whole = self.outcome("whole")
        self.assertEqual(whole[2]["recoveries"], [])
        for each in ("repeated_messages", "repeated_bytes", "unanswered_tasks"):
            self.assertEqual(whole[2][each], 0)
        # As many tensors in each step. In the tenth, of which four may be under way, the sixth was answered by all.
        tensors = sum(kind_of(each) == DATA and each.worker == 1 for each in self.messages(file))
        environment, _ = self.dying("killed", f"1 data 3 {tensors * 9 // 12 + 1} before")
        answer = run(*saving, "--out", self.folder / "killed", env=environment)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        record = self.expect_same("killed", whole)
        recovery, = record["recoveries"]
        self.assertEqual(recovery["worker"], 1)
        self.assertRegex(recovery["why"], r"^worker 1 .* was lost: signal 9")
        self.assertEqual((recovery["round"], recovery["step"]), (5, 5))
        self.assertGreater(recovery["reached_round"], 5)
        self.assertGreaterEqual(recovery["discarded_tasks"], 3)
        self.assertEqual(recovery["discarded_tasks"], record["repeated_tasks"])
        self.assertEqual(recovery["unanswered_tasks"], record["unanswered_tasks"])
        self.assertGreater(record["unanswered_tasks"], 0, "the task that it died of")
        # What was sent again for these is in no other figure; of a whole step it is a twelfth of all.
        self.assertGreater(record["repeated_bytes"], 0)
        self.assertLess(record["repeated_bytes"], record["counted"]["bytes"] * (recovery["discarded_tasks"] / 3 + 3) / 12)
        self.assertGreater(record["repeated_messages"], 0)
        for name, told in (("whole", whole[2]), ("killed", record)):
            files = [each.stat().st_size for each in (self.folder / name / "checkpoints").glob("checkpoint-*/*") if each.name != "manifest.json"]
            self.assertEqual(told["checkpoints"]["taken"], 2)
            self.assertEqual(told["checkpoints"]["bytes"], sum(files))
            saved = [each["name"].split(",")[0] for each in self.of_scheduler(name) if each["name"].startswith("checkpoint")]
            self.assertEqual(saved, ["checkpoint 5", "checkpoint 10"])
        restart, = (each for each in self.of_scheduler("killed") if each["name"].startswith("restart"))
        self.assertEqual(restart["name"], f"restart from step {recovery['step']}: {recovery['why']}")
        self.assertAlmostEqual(restart["dur"] * 1e-6, recovery["seconds"], places=6)
        for name, lines in (("whole", 0), ("killed", 1)):
            report = run("report", self.folder / name).stdout
            self.assertRegex(report, r"checkpoints +2 +[\d.]+ KiB +\d\.\d{3}\n")
            self.assertEqual(len(re.findall(r"\nrestarts +1 +- +\d\.\d{3}\n", report)), lines)
            self.assertEqual(len(re.findall(r"\ntasks done again +\d+ +[\d.]+ K?i?B +-\n", report)), lines)
            self.assertEqual(len(re.findall(r"\nrestarted from step 5, to do \d+ tasks again that had been done, in \d\.\d{3} s: worker 1 .* signal 9", report)), lines)

    def model(self, out):
        return [file.read_bytes() for file in sorted(out.iterdir())] if out.is_dir() else [out.read_bytes()]

    def test_programs_whose_state_adds_up(self):
        write_small_data(self.folder)
        programs = {"lasso.mtx": lasso(self.folder, "--tol", 1e-9, "--schedule", "priority", "--set-size", 3), "sgd": factorisation(self.folder, 30),
                    "ccd": factorisation(self.folder, 10, "--algorithm", "ccd"), "lda": topics(self.folder, 20)}
        for name, program in programs.items():
            for snapshots in ((), ("--snapshot-rounds", 3, "--buddy-every", 1_000_000)):  # and nothing kept by time, from which they would begin elsewhere
                with self.subTest(program=name, snapshots=snapshots):
                    self.program_of_the_dying(f"{len(snapshots)} {name}", [*program, "--workers", 3, *snapshots])

    def expect_counted_apart(self, told, snapshots):
        self.told = told
        self.assertEqual(told["restarts"], len(told["recoveries"]))
        self.assertEqual(told["repeated_tasks"], sum(each["discarded_tasks"] for each in told["recoveries"]))
        self.assertEqual(told["unanswered_tasks"], sum(each["unanswered_tasks"] for each in told["recoveries"]))
        self.assertEqual(told["failed_checkpoints"], 0)
        self.assertEqual(bool(told["checkpoints"]["number"]), snapshots)
        for each in ("commits", "checkpoints", "checkpoints_in_memory"):
            self.assertEqual(bool(told[each]["number"]), told[each]["bytes"] > 0)
        self.assertGreaterEqual(told["fenced_messages"], 0)

    def program_of_the_dying(self, name, arguments):
        """Its second worker dies about two thirds into it: the model is the one of an undisturbed run."""
        snapshots = "--snapshot-rounds" in arguments

        def model(kind, at):
            out = self.folder / f"{kind} {name}"
            environment, file = self.dying(out.name, at)
            kept = ("--snapshot", self.folder / f"kept {out.name}") if snapshots else ()
            answer = run(*arguments, *kept, "--out", out, "--json", env=environment)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.expect_counted_apart(json.loads(answer.stdout), snapshots)
            files = sorted(out.iterdir()) if out.is_dir() else [out]
            begun = [int(each) for each in re.findall(r"all workers begin again before round (\d+)", answer.stderr)]
            return [each.read_bytes() for each in files], begun, self.messages(file)

        whole, begun, messages = model("whole", "")
        self.assertEqual(begun, [])
        results = sum(kind_of(each) == RESULTS and each.worker == 1 for each in messages)
        for when in ("before", "after"):
            disturbed, begun, _ = model(when, f"1 control 8 {results * 2 // 3} {when}")
            self.assertTrue(disturbed == whole, "the models differ")
            self.assertEqual(len(begun), 1)
            self.assertEqual([each["round"] for each in self.told["recoveries"]], begun)
            if snapshots:
                self.assertGreater(begun[0], 0)
                self.assertEqual(begun[0] % 3, 0)


class BuddyEvery(DyingTest):
    def test_no_more_steps_than_that_are_done_again(self):
        """In so short a run nothing is kept by time."""
        command, every = (*STEPS, "--steps", 40, "--save-every", 0), 7
        self.assertEqual(run(*command, "--out", self.folder / "plain").returncode, 0)
        environment, file = self.dying("whole")
        answer = run(*command, "--buddy-every", every, "--out", self.folder / "whole", env=environment)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.expect_same("whole", self.outcome("plain"))
        tensors = sum(kind_of(each) == DATA and each.worker == 1 for each in self.messages(file))  # as many in each step
        environment, _ = self.dying("killed", f"1 data 3 {tensors * 2 // 3} before")
        answer = run(*command, "--buddy-every", every, "--out", self.folder / "killed", env=environment)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        begun = [int(each) for each in re.findall(r"all workers begin again from step (\d+)", answer.stderr)]
        self.assertEqual(len(begun), 1, answer.stderr)
        self.assertGreater(begun[0], 0)
        self.assertEqual(begun[0] % every, 0)
        record = self.expect_same("killed", self.outcome("plain"))
        self.assertEqual(record["restarts"], 1)
        self.assertLessEqual(record["repeated_tasks"], 3 * every)


class Replicas(DyingTest):
    """What replicas share, and L-BFGS's vectors, are neither lost nor applied twice."""

    SMALL = ("train", "mlp", "--sizes", "784-12-11-10", "--data", "synthetic:48x784x10", "--batch", 4, "--workers", 2, "--no-test")
    REPLICAS = (*SMALL, "--optimizer", "sgd", "--momentum", 0.9, "--replicas", 2, "--steps", 6, "--save-every", 6)

    def updates(self, name):
        counts = set()
        for file in (self.folder / name / "checkpoints/checkpoint-6").glob("worker-*"):
            counts |= {int.from_bytes(data, "little") for tensor, (_, data) in read_safetensors(file).items() if tensor.startswith("updates/")}
        return counts

    def places(self, name, command, count):
        """Where a worker of this run may die once all have begun: some of its messages."""
        environment, file = self.dying(name)
        answer = run(*command, "--out", self.folder / name, env=environment)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        messages = self.messages(file)
        begun = max(i for i, each in enumerate(messages) if kind_of(each) == READY)
        ended = min(i for i, each in enumerate(messages) if kind_of(each) == BYE)
        chosen = random.Random(int(os.environ.get("KERF_SEED", "1"))).sample(messages[begun + 1:ended], count)
        return [f"{each.worker} {each.plane} {each.kind} {each.n} before" for each in chosen]

    @unittest.skipUnless(FULL, "takes a minute; `full` runs it")
    def test_killed_at_any_message(self):
        """The bits are the same where a run repeats them; elsewhere tables have had as many gradients."""
        lbfgs = (*self.SMALL, "--optimizer", "lbfgs", "--steps", 6)
        for name, command, repeats, updates in (("average:3", (*self.REPLICAS, "--consistency", "average:3"), True, None), ("ssp:0", (*self.REPLICAS, "--consistency", "ssp:0"), True, {12}),
                                                ("async", (*self.REPLICAS, "--consistency", "async", "--push-every", 2), False, {6}), ("lbfgs", lbfgs, True, None)):
            restarts = 0
            for at in self.places(name, command, 4):
                with self.subTest(of=name, at=at):
                    died = f"{name} {at}"
                    environment, _ = self.dying(died, at)
                    answer = run(*command, "--out", self.folder / died, env=environment)
                    self.assertEqual(answer.returncode, 0, answer.stderr)
                    restarts += "all workers begin again" in answer.stderr
                    if repeats:
                        self.expect_same(died, self.outcome(name))
                    if updates:  # of two replicas, each step's or every second's
                        self.assertEqual(self.updates(died), updates)
            self.assertGreater(restarts, 0)

    def has_kept(self, scheduler, workers):
        """Whether there is a second file of each worker, which is made when all have written the first."""
        try:
            links = [os.readlink(link) for link in pathlib.Path(f"/proc/{scheduler}/fd").iterdir()]
        except OSError:
            return False  # one of them was closed meanwhile
        return sum("memfd:kerf worker" in link for link in links) == 2 * workers

    def test_they_go_on_from_what_was_kept(self):
        command = ("train", "lenet5", "--data", "synthetic:2048x784x10", "--batch", 32, "--replicas", 2, "--workers", 1, "--consistency", "average:3", "--epochs", 36, "--no-test")
        self.assertEqual(run(*command, "--out", self.folder / "whole").returncode, 0)
        process = self.start(*command, "--out", self.folder / "killed")
        workers = wait_until(lambda: (found := workers_of(process.pid)) and len(found) == 2 and found, 20)
        self.assertTrue(wait_until(lambda: process.poll() is not None or self.has_kept(process.pid, 2), 60), "nothing is kept")
        self.assertIsNone(process.poll(), "it was over before")
        os.kill(workers[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=120 * SLOW)
        self.assertEqual(process.returncode, 0, errors)
        self.assertGreater(int(re.search(r"begin again from step (\d+)", errors)[1]), 0, "from the first step")
        self.assertEqual(self.expect_same("killed", self.outcome("whole"))["restarts"], 1)


if __name__ == "__main__":
    unittest.main(argv=[each for each in sys.argv if each != "full"],
                  defaultTest="Replicas.test_killed_at_any_message" if FULL else None)
