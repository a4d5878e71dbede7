"""What the death of a worker costs: time, and nothing else (docs/adr/0065-restarts.md). Statements by number:

    R1  a worker dies before or after any of its messages: the run ends with the losses and weights of one that nobody disturbed
    R2  a death is told within a second, and within five the step is done again
    R3  who was stopped, and taken for dead, does not come back
    R4  who is slow is not taken for dead
    R6  the scheduler dies: started again with --resume, it goes on from the disk, with the workers of before if they connect
        (from memory: kept_memory_test.py)

R7 is in repeated_work_test.py. With `full` workers die at every message over every transport, and schedulers at every one of theirs; without, at some.
"""

import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from dying import BYE, DATA, LONGER, READY, REGISTER, RESULTS, SCHEDULER, START, STEPS, STOP, WELCOME, WORK, DyingTest, kind_of
from kerf_command import KERF, SLOW, child_of, free_address, run, wait_until, workers_of

FULL = "full" in sys.argv
SAMPLE = 60
TRANSPORTS = ("shm", "ipc", "tcp")


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
    def disturbed(self, disturb, program=KERF, epochs=40):
        """The run's record, of which `disturb` had the process and its workers when the first epoch was over. What follows are
        seconds, for who disturbs has to come to it on a machine that is busy."""
        run_of = (*LONGER, "--epochs", epochs)
        self.train(*run_of[1:], out="whole")
        process = subprocess.Popen([program, *map(str, (*run_of, "--out", self.folder / "disturbed"))], stdin=subprocess.DEVNULL,
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

        self.assertEqual(self.disturbed(kill_behind_an_update, program=program)["restarts"], 1)


class R3(Disturbed):
    def test_a_stopped_worker_is_fenced(self):
        def stop(process, workers):
            os.kill(workers[1], signal.SIGSTOP)
            time.sleep(5 * SLOW)
            with self.assertRaises(ProcessLookupError):
                os.kill(workers[1], signal.SIGCONT)

        self.assertEqual(self.disturbed(stop)["restarts"], 1)


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
        self.assertEqual(self.disturbed(slow_down)["restarts"], 0)
        self.assertGreater(len(turns), 10)

    @unittest.skipUnless(FULL, "it is measured over windows of seconds, in which nothing else may run")
    def test_it_is_named(self):
        slow_down, _ = self.in_turns(3)
        # A part is what the rest is compared with, and two windows of two seconds agree.
        record = self.disturbed(slow_down, epochs=70)
        self.assertIn(1, [each["worker"] for each in record["slow"] if each["times"] >= 1.25])
        report = run("report", self.folder / "disturbed").stdout
        self.assertRegex(report, r"worker 1 took \d+\.\d times as long as it did, beside the others, from step \d+")
        undisturbed = json.loads((self.folder / "whole" / "run.json").read_text())
        self.assertEqual(undisturbed["slow"], [])


class R6(DyingTest):
    def test_a_killed_scheduler_goes_on_from_the_disk(self):
        """Alone, or with one of its workers in the same moment."""
        self.train(*LONGER[1:], "--epochs", 40, out="whole")
        for keepers in (0, 3):
            for with_a_worker in (False, True):
                with self.subTest(keepers=keepers, with_a_worker=with_a_worker):
                    self.killed(f"killed {keepers} {with_a_worker}", keepers, with_a_worker)

    def killed(self, name, keepers, with_a_worker):
        out = self.folder / name
        address = free_address()
        command = (*LONGER, "--epochs", 40, "--save-every", 5, "--out", out, *(("--listen", address) if keepers else ()))
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


if __name__ == "__main__":
    unittest.main(argv=[each for each in sys.argv if each != "full"],
                  defaultTest=("R1.test_killed_at_any_message", "R4.test_it_is_named", "R6AtEachMessage") if FULL else None)
