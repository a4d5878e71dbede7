"""R7 of the contract on faults (restarts_test.py), audited: of a run with a loss the numbers of all frames between scheduler and workers, and what was taken
of them, as tests/support/die_at.cc tells."""

import collections
import json
import re
import unittest

from dying import BYE, RESULTS, SCHEDULER, STEPS, WORK, DyingTest
from kerf_command import run
from small_programs import factorisation, write_small_data

LINK = 256  # and above: the link's own, which have no numbers

Frame = collections.namedtuple("Frame", "pid worker connection kind sequence acknowledged count")


class R7(DyingTest):
    """What an end acknowledges is the number that it expects next, and so how many it has taken."""

    DYING = {"KERF_DIE_SCHEDULER": "1"}

    def audited(self, name, at, *command):
        """What the run said, and of each connection kinds and counts, by number, that the worker sent and was sent, and how many were taken."""
        environment, file = self.dying(name, at)
        log = self.folder / f"{name}.frames"
        answer = run(*command, env={**environment, "KERF_FRAMES": str(log)})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        if at:
            self.assertIn("died", [each.plane for each in self.messages(file)])
            self.assertEqual(answer.stderr.count("all workers begin again "), 1, answer.stderr)
        ends = collections.defaultdict(lambda: ([], []))
        for line in log.read_text().splitlines():
            pid, worker, connection, *numbers = line.split()
            frame = Frame(int(pid), int(worker), connection, *map(int, numbers))
            ends[connection][frame.worker == SCHEDULER].append(frame)
        return answer, [self.connection(*each) for each in ends.values()]

    def connection(self, of_worker, of_scheduler):
        self.assertEqual([len({frame.pid for frame in end}) for end in (of_worker, of_scheduler)], [1, 1])
        self.assertNotEqual(of_worker[0].pid, of_scheduler[0].pid)
        told, told_back = self.numbered(of_worker), self.numbered(of_scheduler)
        taken, taken_back = self.acknowledged(of_scheduler), self.acknowledged(of_worker)
        self.assertLessEqual(taken, len(told))
        self.assertLessEqual(taken_back, len(told_back))
        return told, taken, told_back, taken_back

    def numbered(self, frames):
        """By number (kind, count). One that is sent again is what it was; there is no gap."""
        by_number = {}
        for frame in frames:
            if frame.kind < LINK:
                self.assertEqual(by_number.setdefault(frame.sequence, (frame.kind, frame.count)), (frame.kind, frame.count), frame)
        self.assertEqual(sorted(by_number), [*range(len(by_number))])
        return [by_number[number] for number in range(len(by_number))]

    def acknowledged(self, frames):
        numbers = [frame.acknowledged for frame in frames]
        self.assertEqual(numbers, sorted(numbers), "what was taken is not taken back")
        return numbers[-1]

    def expect_each_once(self, connections, workers):
        """Who left in order has done each task once, and each result was taken. Of those before the loss some may be on their way, or taken and not yet
        acknowledged. Returns the results that the last epoch took, and the least and the most that the one before can have."""
        last, least, most = [], 0, 0
        for told, taken, told_back, taken_back in connections:
            counts = [sum(count for kind, count in frames if kind == of) for frames, of in (
                (told_back, WORK[1]), (told_back[:taken_back], WORK[1]), (told, RESULTS[1]), (told[:taken], RESULTS[1]))]
            if BYE[1] in [kind for kind, _ in told]:
                self.assertEqual(len(set(counts)), 1, counts)
                self.assertEqual(taken, len(told))
                last.append(counts[-1])
            else:
                self.assertLessEqual(counts[2], counts[0], "results that nobody asked for")
                least, most = least + counts[3], most + counts[2]
        self.assertEqual((len(last), len(connections)), (workers, 2 * workers))
        return sum(last), least, most

    def results_of(self, connections):
        return sum(count for told, *_ in connections for kind, count in told if kind == RESULTS[1])

    def test_of_a_training(self):
        command = (*STEPS, "--save-every", 0, "--buddy-every", 1000, "--out")
        _, connections = self.audited("whole", "", *command, self.folder / "whole")
        whole = self.results_of(connections)
        for at in ("2 data 3 9 after", "1 control 8 1 before", "1 control 8 1 after"):
            with self.subTest(at=at):
                _, connections = self.audited(at, at, *command, self.folder / at)
                last, least, most = self.expect_each_once(connections, 3)
                self.assertEqual(last, whole, "nobody commits, which is a task, too: all is done again")
                repeated = self.expect_same(at, self.outcome("whole"))["repeated_tasks"]
                self.assertTrue(least <= repeated <= most, (least, repeated, most))

    def spans(self, trace):
        """By process, what was done in which round, in order."""
        spans = collections.defaultdict(list)
        for event in json.loads(trace.read_text())["traceEvents"]:
            if event.get("ph") == "X" and re.fullmatch(r"(aggregate|update) \d+", event["name"]):
                spans[event["pid"]].append(event["name"])
        return spans

    def test_of_a_program_each_round_is_folded_in_once(self):
        write_small_data(self.folder)
        command = (*factorisation(self.folder, 8), "--workers", 3)

        def audited(name, at):
            trace = self.folder / f"{name}.json"
            _, connections = self.audited(name, at, *command, "--trace", trace, "--out", self.folder / name)
            return connections, self.spans(trace)

        connections, whole = audited("whole", "")
        frames = sum(kind == RESULTS[1] for told, *_ in connections for kind, _ in told) // 3
        rounds = [int(name.split()[1]) for name in whole[3]]
        self.assertGreater(len(rounds), 8)
        self.assertEqual(rounds, [*range(len(rounds))])
        connections, spans = audited("killed", f"1 control 8 {frames // 2} after")
        self.expect_each_once(connections, 3)
        self.assertEqual(spans, whole, "what was done again is folded in once")


if __name__ == "__main__":
    unittest.main()
