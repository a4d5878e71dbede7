"""Runs of which somebody dies at one of his messages, of tests/support/die_at.cc, and what such tests share."""

import collections
import json
import os
import pathlib

from kerf_command import KerfTest, run, shared_memory

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
