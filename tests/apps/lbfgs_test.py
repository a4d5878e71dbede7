"""kerf train --optimizer lbfgs as a person runs it; with "peer", beside SciPy's L-BFGS-B on the same rows from the same weights.
KERF_PEER_PYTHON names a Python that has SciPy; exit code 77 where it has not."""

import json
import subprocess
import sys
import unittest

import numpy

from kerf_command import KerfTest, run
from peer_test import PYTHON, run_peer

ROWS, FEATURES, CLASSES = 300, 8, 4
# Loss and gradient of a perceptron with ReLU in double precision, and where SciPy comes to from given weights.
PEER = """
import json, struct, sys
import numpy, scipy.optimize

rows = numpy.load(sys.argv[1])
x, y = rows["x_train"].astype(float), rows["y_train"]
data = open(sys.argv[2], "rb").read()
(length,) = struct.unpack_from("<Q", data)
header = {k: v for k, v in json.loads(data[8:8 + length]).items() if k != "__metadata__"}
tensors = {}
for name, entry in header.items():
    begin, end = (8 + length + at for at in entry["data_offsets"])
    tensors[name] = numpy.frombuffer(data[begin:end], "<f4").astype(float).reshape(entry["shape"])
layers = sorted({name.rsplit(".", 1)[0] for name in tensors})
parts = [tensors[f"{layer}.{part}"] for layer in layers for part in ("weight", "bias")]

def apart(point):
    at = 0
    for part in parts:
        yield point[at:at + part.size].reshape(part.shape)
        at += part.size

def loss(point):
    own = list(apart(point))
    inputs = [x]
    for i in range(len(layers)):
        out = inputs[-1] @ own[2 * i].T + own[2 * i + 1]
        inputs.append(numpy.maximum(out, 0) if i + 1 < len(layers) else out)
    scores = inputs.pop()
    scores = scores - scores.max(1, keepdims=True)
    odds = numpy.exp(scores)
    odds /= odds.sum(1, keepdims=True)
    every = numpy.arange(len(y))
    value = -numpy.log(odds[every, y]).mean()
    back = odds
    back[every, y] -= 1
    back /= len(y)
    gradient = []
    for i in reversed(range(len(layers))):
        gradient[:0] = [(back.T @ inputs[i]).ravel(), back.sum(0)]
        back = (back @ own[2 * i]) * (inputs[i] > 0)
    return value, numpy.concatenate(gradient)

start = numpy.concatenate([part.ravel() for part in parts])
answer = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B",
                                 options={"maxcor": 10, "maxiter": int(sys.argv[3]), "maxfun": 10**6, "ftol": 0, "gtol": 1e-5})
print(json.dumps({"begun": loss(start)[0], "loss": answer.fun, "iterations": int(answer.nit)}))
"""


def write_rows(file):
    """Classes by a hidden perceptron, a tenth of them wrong."""
    chance = numpy.random.default_rng(3)
    hidden, top = chance.standard_normal((FEATURES, 6)), chance.standard_normal((6, CLASSES))
    arrays = {}
    for split, rows in (("train", ROWS), ("test", 50)):
        x = chance.standard_normal((rows, FEATURES)).astype(numpy.float32)
        y = (numpy.tanh(x @ hidden) @ top).argmax(1)
        wrong = chance.random(rows) < 0.1
        arrays[f"x_{split}"], arrays[f"y_{split}"] = x, numpy.where(wrong, chance.integers(0, CLASSES, rows), y)
    numpy.savez(file, **arrays)


class Lbfgs(KerfTest):
    def setUp(self):
        super().setUp()
        self.rows = self.folder / "rows.npz"
        write_rows(self.rows)

    def flags(self, sizes):
        return ("mlp", "--sizes", sizes, "--data", self.rows, "--transport", "inproc")

    def lbfgs(self, sizes, *more, out="run"):
        return self.train(*self.flags(sizes), "--optimizer", "lbfgs", "--batch", 64, *more, out=out)

    def test_it_says_how_it_ended(self):
        answer = run("train", *self.flags("8-4"), "--optimizer", "lbfgs", "--workers", 1, "--out", self.folder / "run")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        report = json.loads((self.folder / "run" / "run.json").read_text())
        ended = report["lbfgs"]
        self.assertTrue(ended["converged"])
        self.assertEqual(ended["iterations"], len(report["losses"]))
        self.assertEqual(sum(ended["portions"]), 3 * ended["evaluations"])  # 300 rows by 128
        self.assertEqual(report["optimizer"], "lbfgs, history 10, until no entry of the gradient is above 1e-05")
        self.assertIn(f"L-BFGS converged behind {ended['iterations']} iterations", answer.stdout)
        self.assertIn(ended["stopped"], answer.stdout)
        self.assertEqual(run("report", self.folder / "run").returncode, 0)
        self.assertIsNotNone(report["traced"])

    def test_replicas_of_processes_come_to_the_same_loss(self):
        one = self.lbfgs("8-6-4", "--workers", 1, "--steps", 15)
        more = self.train("mlp", "--sizes", "8-6-4", "--data", self.rows, "--optimizer", "lbfgs", "--batch", 64, "--steps", 15,
                          "--replicas", 2, "--workers", 2, out="more")
        self.assertEqual(len(more["workers"]), 4)
        self.assertEqual(sum(more["lbfgs"]["portions"]), 5 * more["lbfgs"]["evaluations"])
        self.assertTrue(more["equal"])
        self.assertEqual(more["losses"], sorted(more["losses"], reverse=True))
        self.assertAlmostEqual(one["losses"][-1], more["losses"][-1], delta=1e-4)

    def test_a_plan_for_another_optimizer_is_trained(self):
        plan = self.folder / "plan.json"
        self.assertEqual(run("plan", "mlp", "--sizes", "8-6-4", "--optimizer", "adam", "--workers", 2, "--out", plan).returncode, 0)
        answer = run("train", "--data", self.rows, "--plan", plan, "--optimizer", "lbfgs", "--steps", 2, "--transport", "inproc",
                     "--out", self.folder / "run")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("--optimizer lbfgs takes less optimizer state", answer.stderr)

    def test_no_step_leaves_the_weights_as_they_begin(self):
        self.lbfgs("8-4", "--steps", 0, "--replicas", 2, out="lbfgs")
        self.train(*self.flags("8-4"), "--steps", 0, "--workers", 1, out="sgd")
        self.assertEqual(*((self.folder / run / "weights.safetensors").read_bytes() for run in ("lbfgs", "sgd")))

    def test_flags_that_would_do_nothing_are_refused(self):
        for flag in (("--momentum", 0.5), ("--lr", 0.1), ("--nesterov",), ("--beta1", 0.9), ("--beta2", 0.9), ("--eps", 1e-8),
                     ("--weight-decay", 0.1), ("--no-decay", "*.bias"), ("--lr-schedule", "cosine"), ("--warm-up", 3),
                     ("--clip-norm", 1), ("--early-stop", 2), ("--epochs", 2), ("--no-shuffle",), ("--consistency", "async"),
                     ("--server-groups", 2), ("--push-every", 2), ("--fetch-every", 2)):
            with self.subTest(flag=flag):
                self.assert_one_error(run("train", *self.flags("8-4"), "--optimizer", "lbfgs", *flag), flag[0], "nothing beside")
        for flag, part in ((("--history", 0), '"0" is no whole number from 1 to 1000'), (("--history", 1001), '"1001" is no'),
                           (("--tol", -1), "-1 is not 0"), (("--tol", "nan"), "nan is not 0"), (("--tol", "inf"), "inf is not 0")):
            self.assert_one_error(run("train", *self.flags("8-4"), "--optimizer", "lbfgs", *flag), flag[0], part)
        for flag in (("--history", 3), ("--tol", 1)):
            self.assert_one_error(run("train", *self.flags("8-4"), *flag), flag[0], "of --optimizer lbfgs")
        for command in (("plan",), ("bench", "schedules")):
            self.assert_one_error(run(*command, "--optimizer", "lbfgs"), "--optimizer", "adagrad")

    def test_what_it_cannot_do_is_refused_by_name(self):
        self.assert_one_error(run("train", "lenet5-bn", "--data", "synthetic:64x784x10", "--optimizer", "lbfgs"),
                              "running_mean", "running statistic")
        self.assert_one_error(run("train", *self.flags("8-6-4"), "--optimizer", "lbfgs", "--schedule", "pipedream"), "within a step")
        self.assert_one_error(run("train", *self.flags("8-6-4"), "--optimizer", "lbfgs", "--workers", 1, "--history", 1000,
                                  "--memory", "1M"), "memory cap", "L-BFGS's vectors")


class BesideSciPy(Lbfgs):
    def test_the_same_loss(self):
        """At the optimum where there is one, on the way down, and where all rows are fitted."""
        for sizes, iterations, within in (("8-4", 200, 1e-5), ("8-16-4", 30, 1e-3), ("8-16-4", 500, 1e-3), ("8-32-4", 500, 1e-3)):
            for more in (("--workers", 1), ("--workers", 2, "--replicas", 2)):
                with self.subTest(sizes=sizes, more=more):
                    self.lbfgs(sizes, *more, "--steps", 0, out="begun")
                    peer = json.loads(run_peer("-c", PEER, self.rows, self.folder / "begun" / "weights.safetensors", iterations))
                    report = self.lbfgs(sizes, *more, "--steps", iterations)
                    self.assertLess(peer["loss"], 0.8 * peer["begun"])
                    self.assertAlmostEqual(report["losses"][-1], peer["loss"], delta=within)


def missing():
    """Why there is no peer; empty if there is."""
    if not PYTHON:
        return "there is no python3 in PATH; KERF_PEER_PYTHON names one"
    try:
        run_peer("-c", "import scipy.optimize")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return f"{PYTHON} has no SciPy ({str(error).splitlines()[-1]}); KERF_PEER_PYTHON names one that has"
    return ""


if __name__ == "__main__":
    if sys.argv[1:] == ["peer"]:
        sys.argv[1:] = ["BesideSciPy.test_the_same_loss"]
        if why := missing():
            print(why)
            sys.exit(77)
    else:
        sys.argv[1:] = sys.argv[1:] or ["Lbfgs"]
    unittest.main()
