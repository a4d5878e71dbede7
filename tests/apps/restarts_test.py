"""What the death of a worker costs: time, and nothing else (docs/adr/0065-restarts.md). Statements by number:

    R1  a worker dies before or after any of its messages: the run ends with the losses and weights of one that nobody disturbed
    R2  a death is told within a second, and within five the step is done again
    R3  who was stopped, and taken for dead, does not come back
    R4  who is slow is not taken for dead
    R6  the scheduler dies: started again with --resume, it goes on from the disk, with the workers of before if they connect
        (from memory: kept_memory_test.py)
    R7  nothing is applied twice, and nothing is lost, nor of what replicas share by tables, nor of L-BFGS's vectors (by the numbers of
        all frames: restart_frames_test.py)

Workers die of tests/support/die_at.cc. With `full` R1 is of every message over every transport; without, of some.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from kerf_command import KERF, SLOW, KerfTest, child_of, free_address, read_safetensors, run, shared_memory, wait_until, workers_of
from small_programs import factorisation, lasso, topics, write_small_data

FULL = "full" in sys.argv
SAMPLE = 60
TRANSPORTS = ("shm", "ipc", "tcp")
STEPS = ("train", "mlp", "--sizes", "784-12-11-10", "--data", "synthetic:32x784x10", "--batch", 8, "--micro-batches", 2, "--optimizer", "sgd", "--momentum", 0.9,
         "--workers", 3, "--cut", "layer", "--steps", 4, "--no-test", "--save-every", 2)
LONGER = ("train", "lenet5", "--data", "synthetic:2048x784x10", "--workers", 3, "--no-test")
# Of docs/protocol.md.
REGISTER, READY, RESULTS, BYE = (("control", kind) for kind in (1, 6, 8, 12))
WELCOME, START, WORK, STOP = (("control", kind) for kind in (3, 5, 7, 11))
SCHEDULER = 1000  # of tests/support/die_at.cc
DATA = ("data", 3)

Message = collections.namedtuple("Message", "ns pid worker plane kind n")


def kind_of(message):
    return message.plane, message.kind


class DyingTest(KerfTest):
    DYING = {}  # of the environment, beside what all have

    def setUp(self):
        super().setUp()
        self.shared_before = shared_memory()

    def dying(self, name, at=""):
        """The environment of a run of which a worker dies there, and the file of its messages."""
        messages = self.folder / f"{name}.messages"
        more = {"LD_PRELOAD": os.environ["KERF_DIE_LIBRARY"], "KERF_DIE_AT": at, "KERF_DIE_ONCE": str(self.folder / f"{name}.died"), "KERF_MESSAGES": str(messages)}
        return {**os.environ, "OMP_NUM_THREADS": "1", **more, **self.DYING}, messages

    def dies_at(self, at, *more, name=None):
        """What a run of few steps said of which somebody dies there, and its messages."""
        environment, file = self.dying(name or at, at)
        answer = run(*STEPS, *more, "--out", self.folder / (name or at), env=environment)
        return answer, self.messages(file)

    def places_of(self, messages):
        return [f"{each.worker} {each.plane} {each.kind} {each.n} {when}" for each in messages for when in ("before", "after")]

    def messages(self, file):
        lines = [line.split() for line in pathlib.Path(file).read_text().splitlines()]
        return [Message(int(ns), int(pid), int(worker), plane, int(kind), int(n)) for ns, pid, worker, plane, kind, n in lines]

    def outcome(self, name):
        record = json.loads((self.folder / name / "run.json").read_text())
        same = {each: record[each] for each in ("losses", "gradient_norms", "evaluations", "routes", "predicted", "counted")}
        return (self.folder / name / "weights.safetensors").read_bytes(), same, record

    def expect_same(self, name, whole, resumed=False):
        """Where it was resumed, messages and routes are of its last part."""
        weights, told, record = self.outcome(name)
        self.assertTrue(weights == whole[0], "weights differ")
        for each in ("losses", "gradient_norms", "evaluations") if resumed else whole[1]:
            self.assertEqual(told[each], whole[1][each], each)
        self.assertTrue(record["equal"])
        return record


class R1(DyingTest):
    def places(self, transport):
        """Where a worker of this run may die: each of its messages in a run that nobody disturbs."""
        environment, file = self.dying(transport)
        answer = run(*STEPS, "--transport", transport, "--out", self.folder / transport, env=environment)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        messages = self.messages(file)
        for kind in (REGISTER, READY, RESULTS, BYE, DATA):
            self.assertEqual({each.worker for each in messages if kind_of(each) == kind}, {0, 1, 2}, kind)
        return [(transport, at) for at in self.places_of(messages)]

    def disturb(self, place, whole):
        """Returns how often all workers began again, and who died; or what was wrong."""
        transport, at = place
        name = f"{transport} {at}"
        try:
            answer, messages = self.dies_at(at, "--transport", transport, name=name)
            death = next((i for i, each in enumerate(messages) if each.plane == "died"), None)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            restarts = self.expect_same(name, whole)["restarts"]
            self.assertEqual(answer.stderr.count("all workers begin again"), restarts)
            self.assertLessEqual(restarts, 0 if death is None else 1)
            return restarts, death is not None
        except Exception as wrong:
            return f"{name}: {wrong}"
        finally:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def died_at(self, at, *more):
        answer, messages = self.dies_at(at, *more)
        self.assertIn("died", [each.plane for each in messages])
        return answer

    def test_killed_while_workers_are_wired(self):
        run(*STEPS, "--out", self.folder / "whole")
        for at in ("1 control 6 0 before", "1 data 1 0 before", "2 data 2 1 after"):
            with self.subTest(at=at):
                answer = self.died_at(at)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertEqual(self.expect_same(at, self.outcome("whole"))["restarts"], 1)

    def test_killed_while_the_crew_is_assembled(self):
        run(*STEPS, "--out", self.folder / "whole")
        for at in ("1 control 1 0 before", "2 control 1 0 after"):
            with self.subTest(at=at):
                answer = self.died_at(at)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertLessEqual(self.expect_same(at, self.outcome("whole"))["restarts"], 1)
                self.assertRegex(answer.stderr, r"was lost: signal 9[^\n]*[\n;] ?all workers (start|begin) again")
        answer = self.died_at("0 control 1 0 before", "--no-restart")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("was lost: signal 9", answer.stderr)

    def test_killed_while_workers_leave(self):
        run(*STEPS, "--out", self.folder / "whole")
        answer = self.died_at("0 control 12 0 before")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stderr, "note: worker 0 .* was lost: signal 9 .* every result was in before")
        self.assertEqual(self.expect_same("0 control 12 0 before", self.outcome("whole"))["restarts"], 0)
        answer = self.died_at("1 control 12 0 before", "--no-restart")
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(answer.stderr, "error: worker 1 .* was lost: signal 9")

    def test_killed_at_any_message(self):
        places = [place for transport in TRANSPORTS for place in self.places(transport)]
        whole = self.outcome("shm")
        for transport in TRANSPORTS[1:]:
            self.expect_same(transport, whole)
        if not FULL:
            places = random.Random(int(os.environ.get("KERF_SEED", "1"))).sample(places, SAMPLE)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            told = [*pool.map(lambda place: self.disturb(place, whole), places)]
        wrong = [each for each in told if isinstance(each, str)]
        self.assertFalse(wrong, f"{len(wrong)} of {len(told)} places:\n" + "\n".join(wrong))
        # Messages that depend on time may not come again, and behind the last result nobody is needed.
        self.assertGreater(sum(died for _, died in told), 0.9 * len(told))
        self.assertGreater(sum(restarts for restarts, _ in told), 0.7 * len(told))


class R2(DyingTest):
    def test_a_death_is_told_within_a_second_and_the_step_repeated_within_five(self):
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                environment, file = self.dying(transport, "1 data 3 40 before")
                process = self.start(*LONGER, "--steps", 6, "--transport", transport, "--out", self.folder / transport, env=environment)
                told = next((time.monotonic_ns() for line in process.stderr if " was lost: signal 9" in line), None)
                process.communicate(timeout=60 * SLOW)
                self.assertEqual(process.returncode, 0)
                messages = self.messages(file)
                death = next(i for i, each in enumerate(messages) if each.plane == "died")
                before = {each.pid for each in messages[:death]}
                again = next(each for each in messages[death:] if kind_of(each) == DATA and each.pid not in before)
                self.assertLess((told - messages[death].ns) * 1e-9, 1 * SLOW)
                self.assertLess((again.ns - messages[death].ns) * 1e-9, 5 * SLOW)

    def test_so_is_one_of_a_worker_with_its_keeper(self):
        """That shows by its broken connection alone. On a machine that is busy one of three times counts."""
        times = (self.seconds_until_told(name) for name in ("first", "second", "third"))
        self.assertTrue(any(seconds < 1 * SLOW for seconds in times))

    def seconds_until_told(self, name):
        address = free_address()
        run_of = self.start(*LONGER, "--epochs", 100000, "--listen", address, "--out", self.folder / name)
        keepers = [self.start("worker", "--connect", address) for _ in range(3)]
        self.assertTrue(any("epoch 1/" in line for line in run_of.stderr))
        worker = child_of(keepers[1].pid)
        since = time.monotonic()
        for process in (keepers[1].pid, worker):
            os.kill(process, signal.SIGKILL)
        told = next(line for line in run_of.stderr if " was lost: " in line)
        seconds = time.monotonic() - since
        self.assertRegex(told, rf"worker \d \(pid {worker}\) was lost: its connection broke")
        for process in (run_of, *keepers):
            process.kill()
        return seconds


class Disturbed(DyingTest):
    def disturbed(self, disturb, *more, program=KERF):
        """The run's record, of which `disturb` had the process and its workers when the first epoch was over."""
        self.train(*LONGER[1:], *more, out="whole")
        process = subprocess.Popen([program, *map(str, (*LONGER, *more, "--out", self.folder / "disturbed"))], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.started.append(process)
        said = []
        while "epoch 1/" not in (said or [""])[-1]:
            said.append(process.stderr.readline())
            self.assertTrue(said[-1], "".join(said))
        disturb(process, workers_of(process.pid))
        _, errors = process.communicate(timeout=120 * SLOW)
        self.assertEqual(process.returncode, 0, errors)
        return self.expect_same("disturbed", self.outcome("whole"))


class Updated(Disturbed):
    def test_workers_are_started_again_of_the_program_that_runs(self):
        """Another has taken its place on disk."""
        program = self.folder / pathlib.Path(KERF).name
        shutil.copy(KERF, program)

        def kill_behind_an_update(process, workers):
            (self.folder / "another").write_text("#!/bin/false\n")
            (self.folder / "another").chmod(0o755)
            os.replace(self.folder / "another", program)
            os.kill(workers[1], signal.SIGKILL)

        self.assertEqual(self.disturbed(kill_behind_an_update, "--epochs", 12, program=program)["restarts"], 1)


class R3(Disturbed):
    def test_a_stopped_worker_is_fenced(self):
        def stop(process, workers):
            os.kill(workers[1], signal.SIGSTOP)
            time.sleep(5 * SLOW)
            with self.assertRaises(ProcessLookupError):
                os.kill(workers[1], signal.SIGCONT)

        self.assertEqual(self.disturbed(stop, "--epochs", 12)["restarts"], 1)


class R4(Disturbed):
    def in_turns(self, head_start):
        """Worker 1 gets half of the time, from so many seconds on."""
        turns = []

        def slow_down(process, workers):
            def take_turns():
                time.sleep(head_start)
                while process.poll() is None:
                    for turn in (signal.SIGSTOP, signal.SIGCONT):
                        try:
                            os.kill(workers[1], turn)
                            turns.append(turn)
                        except ProcessLookupError:
                            return
                        time.sleep(0.05)

            threading.Thread(target=take_turns, daemon=True).start()

        return slow_down, turns

    def test_a_worker_that_gets_half_of_the_time_is_left_alone(self):
        slow_down, turns = self.in_turns(0)
        self.assertEqual(self.disturbed(slow_down, "--epochs", 12)["restarts"], 0)
        self.assertGreater(len(turns), 10)

    @unittest.skipUnless(FULL, "it is measured over windows of seconds, in which nothing else may run")
    def test_it_is_named(self):
        slow_down, _ = self.in_turns(3)
        # A part is what the rest is compared with, and two windows of two seconds agree.
        record = self.disturbed(slow_down, "--epochs", 70)
        self.assertIn(1, [each["worker"] for each in record["slow"] if each["times"] >= 1.25])
        report = run("report", self.folder / "disturbed").stdout
        self.assertRegex(report, r"worker 1 took \d+\.\d times as long as it did, beside the others, from step \d+")
        undisturbed = json.loads((self.folder / "whole" / "run.json").read_text())
        self.assertEqual(undisturbed["slow"], [])


class R6(DyingTest):
    def test_a_killed_scheduler_goes_on_from_the_disk(self):
        """Alone, or with one of its workers in the same moment."""
        self.train(*LONGER[1:], "--epochs", 12, out="whole")
        for keepers in (0, 3):
            for with_a_worker in (False, True):
                with self.subTest(keepers=keepers, with_a_worker=with_a_worker):
                    self.killed(f"killed {keepers} {with_a_worker}", keepers, with_a_worker)

    def killed(self, name, keepers, with_a_worker):
        out = self.folder / name
        address = free_address()
        command = (*LONGER, "--epochs", 12, "--save-every", 5, "--out", out, *(("--listen", address) if keepers else ()))
        started = [self.start("worker", "--connect", address) for _ in range(keepers)]
        scheduler = self.start(*command)
        self.assertTrue(wait_until(lambda: list(out.glob("checkpoints/*/manifest.json")), 60))
        workers = [child_of(keeper.pid) for keeper in started] or workers_of(scheduler.pid)
        self.assertEqual(len(workers), 3)
        if with_a_worker:
            os.kill(workers[1], signal.SIGKILL)
        scheduler.kill()
        scheduler.communicate()
        again = self.start(*command, "--resume", out)
        _, errors = again.communicate(timeout=120 * SLOW)
        self.assertEqual(again.returncode, 0, errors)
        record = self.expect_same(out.name, self.outcome("whole"), resumed=True)
        self.assertGreaterEqual(record["checkpoints"]["resumed_steps"], 5)
        for number, keeper in enumerate(started):
            _, errors = keeper.communicate(timeout=10 * SLOW)
            self.assertEqual(keeper.returncode, 0, errors)
            died = with_a_worker and number == 1
            self.assertIn("ended by signal 9" if died else "the worker lost its scheduler; starts another", errors)
        for worker in workers:
            self.assertFalse(pathlib.Path(f"/proc/{worker}").exists())
        self.assert_nothing_runs_on(self.shared_before)


class R6AtEachMessage(DyingTest):
    """The scheduler dies before or after any of its messages to workers. Those with clocks are as many as there is time."""

    KINDS = (WELCOME, START, WORK, STOP)
    DYING = {"KERF_DIE_SCHEDULER": "1"}

    def test_started_again_it_comes_to_the_same(self):
        answer, messages = self.dies_at("", name="whole")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        sent = [each for each in messages if each.worker == SCHEDULER and kind_of(each) in self.KINDS]
        self.assertEqual({kind_of(each) for each in sent}, set(self.KINDS))
        places = self.places_of(sent)
        if not FULL:
            places = random.Random(6).sample(places, 8)
        whole = self.outcome("whole")
        resumed = 0
        for at in places:
            with self.subTest(at=at):
                resumed += self.disturb(at, whole)
        if FULL:
            print(f"R6 at {len(places)} messages, {resumed} times from a checkpoint", file=sys.stderr)
        self.assertGreater(resumed, 0)

    def disturb(self, at, whole):
        """Whether it went on from a checkpoint."""
        out = self.folder / at
        answer, messages = self.dies_at(at)
        self.assertEqual(answer.returncode, -signal.SIGKILL)
        workers = {each.pid for each in messages if each.worker != SCHEDULER}
        self.assertTrue(wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in workers), 5))
        saved = list(out.glob("checkpoints/*/manifest.json"))
        answer = run(*STEPS, "--out", out, *(("--resume", out) if saved else ()))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.expect_same(at, whole, resumed=True)
        self.assert_nothing_runs_on(self.shared_before)
        return bool(saved)


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
                  defaultTest=("R1.test_killed_at_any_message", "Replicas.test_killed_at_any_message") if FULL else None)
