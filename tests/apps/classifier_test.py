"""kerf logistic and kerf svm as a person runs them: rows in, a model out, advice where it cannot be."""

import json
import math
import random
import struct
import subprocess
import sys
import unittest

from kerf_command import KerfTest, run
from peer_test import PYTHON, run_peer

ROWS, FEATURES, C = 60, 25, 0.7
LOSSES = {"logistic": lambda m: math.log1p(math.exp(-m)) if m > 0 else math.log1p(math.exp(m)) - m,
          "hinge": lambda m: max(0, 1 - m), "squared-hinge": lambda m: max(0, 1 - m) ** 2}
COMMANDS = {"logistic": ("logistic",), "hinge": ("svm",), "squared-hinge": ("svm", "--loss", "squared-hinge")}


def problem(rows=ROWS, seed=5):
    """Rows as features by number, and labels 3 and 8 by a hidden plane, a few of them wrong."""
    chance = random.Random(7)
    plane = [chance.gauss(0, 1) for _ in range(FEATURES)]
    chance = random.Random(seed)
    x = [{j: chance.gauss(0, 1) for j in range(FEATURES) if chance.random() < 0.3} for _ in range(rows)]
    y = [8 if (sum(plane[j] * value for j, value in row.items()) > 0) != (chance.random() < 0.05) else 3 for row in x]
    return x, y


def libsvm(x, y):
    return "".join(f"{label} " + " ".join(f"{j + 1}:{value!r}" for j, value in row.items()) + "\n" for row, label in zip(x, y, strict=True))


def model(file):
    lines = [line.split() for line in file.read_text().splitlines()]
    named = {line[0]: line[1:] for line in lines[1:6]}
    w = [0.0] * (int(named["features"][0]) + (float(named["bias"][0]) > 0))
    for j, value in lines[6:]:
        w[int(j) - 1] = float(value)
    return lines[0][1], named, w


def score(row, w, bias=0.0):
    return sum(w[j] * value for j, value in row.items()) + (bias * w[-1] if bias else 0)


def objective(x, y, w, loss, bias=0.0):
    sign = {3: -1, 8: 1}
    return sum(each * each for each in w) / 2 + C * sum(LOSSES[loss](sign[label] * score(row, w, bias)) for row, label in zip(x, y, strict=True))


class LinearClassifiers(KerfTest):
    def setUp(self):
        super().setUp()
        self.x, self.y = problem()
        self.data = self.folder / "train.libsvm"
        self.data.write_text(libsvm(self.x, self.y))
        self.common = ("--data", self.data, "--C", C)

    def answer(self, loss, *flags):
        answer = run(*COMMANDS[loss], *self.common, *flags, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def test_a_model_with_the_objective_and_the_gap_that_it_says(self):
        for loss in LOSSES:
            out = self.folder / f"{loss}.txt"
            best = self.answer(loss, "--tol", 1e-12, "--workers", 1)["objective"]
            for workers, flags in ((1, ()), (2, ()), (3, ("--sweeps", 4))):
                with self.subTest(loss=loss, workers=workers):
                    told = self.answer(loss, "--workers", workers, "--out", out, *flags)
                    head, named, w = model(out)
                    self.assertEqual((head, named["loss"], named["labels"]), (f"{COMMANDS[loss][0]}:", [loss], ["3", "8"]))
                    found = objective(self.x, self.y, w, loss)
                    self.assertAlmostEqual(told["objective"], found, delta=1e-11 * found)
                    self.assertTrue(told["converged"])
                    self.assertLessEqual(told["gap"], 1e-5)
                    self.assertLessEqual(found * (1 - told["gap"]), best * (1 + 1e-12))
                    self.assertLessEqual(best, found * (1 + 1e-12))
                    self.assertEqual((told["rows"], told["features"], told["labels"]), (ROWS, FEATURES, [3, 8]))
                    history = told["history"]
                    self.assertEqual(history[-1]["gap"], told["gap"])
                    self.assertEqual([point["updates"] for point in history], sorted(point["updates"] for point in history))

    def test_the_same_bits_over_any_transport_and_from_any_file(self):
        entries = [(i, j, value) for i, row in enumerate(self.x) for j, value in row.items()]
        x, y = self.folder / "x.mtx", self.folder / "y.npy"
        x.write_text(f"%%MatrixMarket matrix coordinate real general\n{ROWS} {FEATURES} {len(entries)}\n"
                     + "".join(f"{i + 1} {j + 1} {value!r}\n" for i, j, value in entries))
        head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({ROWS},), }}".ljust(117) + "\n"
        y.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{ROWS}d", *self.y))
        for loss in LOSSES:
            bits = set()
            for transport in ("inproc", "shm", "tcp"):
                out = self.folder / f"{loss}-{transport}.txt"
                answer = run(*COMMANDS[loss], *self.common, "--workers", 3, "--transport", transport, "--out", out)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertIn("relative gap", answer.stdout)
                self.assertIn(f"of {ROWS} rows have the label 8, the others 3", answer.stdout)
                bits.add(out.read_bytes())
            answer = run(*COMMANDS[loss], "--data", x, "--labels", y, "--C", C, "--workers", 3, "--out", out)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            bits.add(out.read_bytes())
            self.assertEqual(len(bits), 1, loss)

    def test_rows_that_it_did_not_learn_from(self):
        x, y = problem(40, 6)
        x[3][FEATURES + 4] = 2.5  # a feature that the model does not know
        y[9] = 5  # and a label
        (self.folder / "test.libsvm").write_text(libsvm(x, y))
        for loss in LOSSES:
            for bias in (0, 1.5):
                out = self.folder / "model.txt"
                told = self.answer(loss, "--bias", bias, "--test", self.folder / "test.libsvm", "--out", out)
                w = model(out)[2]
                self.assertEqual(len(w), FEATURES + (bias > 0))
                known = [{j: value for j, value in row.items() if j < FEATURES} for row in x]
                right = sum((8 if score(row, w, bias) > 0 else 3) == label for row, label in zip(known, y, strict=True))
                self.assertAlmostEqual(told["test_accuracy"], right / 40)
                self.assertGreater(told["test_accuracy"], 0.6)
                found = objective(self.x, self.y, w, loss, bias)
                self.assertAlmostEqual(told["objective"], found, delta=1e-11 * found)
        self.assertIn("test accuracy", run("svm", *self.common, "--test", self.folder / "test.libsvm").stdout)

    def test_a_limit_ends_it_with_a_note(self):
        picture = self.folder / "how.svg"
        for loss in LOSSES:
            answer = run(*COMMANDS[loss], *self.common, "--tol", 0, "--max-passes", 2, "--picture", picture, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn(f"{COMMANDS[loss][0]}, C 0.7, loss {loss}", picture.read_text())
            self.assertIn("kerf: note: stopped before it converged", answer.stderr)
            self.assertFalse(json.loads(answer.stdout)["converged"])

    def test_what_cannot_be(self):
        for flags, words in ((("--C", 0), ("--C", "not above 0")), (("--C", "nan"), ("--C",)), (("--C", "inf"), ("--C",)), (("--tol", -1), ("--tol",)),
                             (("--bias", -1), ("--bias", "0 or more")), (("--bias", "nan"), ("--bias",)), (("--sweeps", 0), ("--sweeps",)),
                             (("--max-seconds", -1), ("--max-seconds",)), (("--workers", 61), ("--workers", "1 and 60: rows")),
                             (("--workers", 0), ("--workers",)), (("--out", self.folder / "no" / "m.txt"), ("--out", "there is no folder")),
                             (("--picture", self.folder / "no" / "p.svg"), ("--picture",)), (("--labels", self.folder / "y.npy"), ("--labels", "has labels itself")),
                             (("--data", self.folder / "x.npz"), ("--labels", "is a matrix")), (("--data", self.folder / "none.libsvm"), ("none.libsvm",)),
                             (("--test", self.folder / "none.libsvm"), ("none.libsvm",))):
            for command in ("logistic", "svm"):
                with self.subTest(command=command, flags=flags):
                    given = {**dict(zip(self.common[::2], self.common[1::2], strict=True)), **dict(zip(flags[::2], flags[1::2], strict=True))}
                    self.assert_one_error(run(command, *(each for pair in given.items() for each in pair)), *words, code=2)
        self.assert_one_error(run("svm", *self.common, "--loss", "logistic"), "--loss", "squared-hinge", code=2)
        self.assert_one_error(run("logistic", *self.common, "--loss", "hinge"), "--loss", code=2)
        for name, text, words in (("empty", "", "it has no rows"), ("one", "1 1:1\n1 2:1\n", "all rows have the label 1"),
                                  ("three", "1 1:1\n2 1:1\n3 1:1\n", "the labels 1, 2 and 3"), ("nan", "1 1:1\n2 1:nan\n", "nan.libsvm:2"),
                                  ("order", "1 1:1\n2 3:1 2:1\n", "order.libsvm:2"), ("far", "1 1:1\n2 3000000000:1\n", "far.libsvm:2"),
                                  ("label", "1 1:1\nx 3:1\n", "label.libsvm:2"), ("huge", "1 1:1e200\n2 2:1\n", "squares of row 1 is no finite number")):
            file = self.folder / f"{name}.libsvm"
            file.write_text(text)
            answer = run("svm", "--data", file)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn(words, answer.stderr)
            self.assertIn(f"{name}.libsvm", answer.stderr)
        (self.folder / "test.libsvm").write_text("# none\n")
        self.assert_one_error(run("svm", *self.common, "--test", self.folder / "test.libsvm"), "test.libsvm: it has no rows", code=2)


PEER = r"""
import sys, json, numpy
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
x, y = load_svmlight_file(sys.argv[1])
x = x.toarray()
common = dict(C=float(sys.argv[2]), fit_intercept=False, tol=1e-10, max_iter=10000000)
models = {"logistic": LogisticRegression(solver="lbfgs", **common), "hinge": LinearSVC(loss="hinge", dual=True, **common),
          "squared-hinge": LinearSVC(loss="squared_hinge", dual=True, **common)}
print(json.dumps({name: model.fit(x, y).coef_[0].tolist() for name, model in models.items()}))
"""


class BesideScikitLearn(LinearClassifiers):
    def test_the_same_weights(self):
        for loss, expected in json.loads(run_peer("-c", PEER, self.data, C)).items():
            out = self.folder / "model.txt"
            self.answer(loss, "--tol", 1e-11, "--out", out)
            for found, other in zip(model(out)[2], expected, strict=True):
                self.assertAlmostEqual(found, other, delta=1e-4)


def missing():
    """Why there is no peer; empty if there is."""
    if not PYTHON:
        return "there is no python3 in PATH; KERF_PEER_PYTHON names one"
    try:
        run_peer("-c", "import sklearn")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return f"{PYTHON} has no scikit-learn ({str(error).splitlines()[-1]}); KERF_PEER_PYTHON names one that has"
    return ""


if __name__ == "__main__":
    if sys.argv[1:] == ["peer"]:
        sys.argv[1:] = ["BesideScikitLearn.test_the_same_weights"]
        if why := missing():
            print(why)
            sys.exit(77)
    else:
        sys.argv[1:] = sys.argv[1:] or ["LinearClassifiers"]
    unittest.main()
