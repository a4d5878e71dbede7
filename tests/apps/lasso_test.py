"""kerf lasso as a person runs it: files in, a solution out, advice where it cannot be."""

import json
import random
import struct
import subprocess
import sys
import unittest

from kerf_command import KerfTest, run, shared_data
from peer_test import PYTHON, run_peer

ROWS, COLUMNS, LAMBDA = 40, 70, 0.8
HEAD = "%%MatrixMarket matrix coordinate real general\n"


def problem():
    """Columns by row, half of each in its neighbour; y made by a few of them."""
    chance = random.Random(5)
    x = [{} for _ in range(COLUMNS)]
    for column in x:
        for _ in range(5):
            column[chance.randrange(ROWS)] = chance.gauss(0, 1)
    x = [{i: column.get(i, 0) + 0.5 * before.get(i, 0) for i in sorted(column.keys() | before.keys())} for before, column in zip(x[-1:] + x, x)]
    y = [chance.gauss(0, 0.1) for _ in range(ROWS)]
    for column in x[::9]:
        share = chance.gauss(0, 3)
        for i, value in column.items():
            y[i] += share * value
    return x, y


def objective(x, y, b):
    r = list(y)
    for column, each in zip(x, b, strict=True):
        for i, value in column.items():
            r[i] -= each * value
    return sum(each * each for each in r) / 2 + LAMBDA * sum(map(abs, b))


def optimum(x, y):
    """One coordinate after the other, in plain Python."""
    b, r = [0.0] * len(x), list(y)
    norms = [sum(value * value for value in column.values()) for column in x]
    for _ in range(4000):
        for j, column in enumerate(x):
            whole = norms[j] * b[j] + sum(value * r[i] for i, value in column.items())
            new = max(whole - LAMBDA, 0) / norms[j] if whole > 0 else min(whole + LAMBDA, 0) / norms[j]
            for i, value in column.items():
                r[i] -= (new - b[j]) * value
            b[j] = new
    return objective(x, y, b)


def solution(file):
    lines = [line for line in file.read_text().splitlines() if not line.startswith("%")]
    return [float(line) for line in lines[1:]]


class Lasso(KerfTest):
    def setUp(self):
        super().setUp()
        self.x, self.y = problem()
        entries = [(i, j, value) for j, column in enumerate(self.x) for i, value in column.items()]
        (self.folder / "x.mtx").write_text(f"{HEAD}{ROWS} {COLUMNS} {len(entries)}\n" + "".join(f"{i + 1} {j + 1} {v!r}\n" for i, j, v in entries))
        (self.folder / "y.mtx").write_text(f"%%MatrixMarket matrix array real general\n{ROWS} 1\n" + "".join(f"{v!r}\n" for v in self.y))
        self.common = ("lasso", "--x", self.folder / "x.mtx", "--y", self.folder / "y.mtx", "--lambda", LAMBDA)

    def test_the_optimum_by_every_schedule(self):
        best = optimum(self.x, self.y)
        for schedule in (("sweeps",), ("sweeps", "--sweeps", 9), ("uniform", "--set-size", 6), ("priority+filter", "--set-size", 6)):
            for workers in (1, 3):
                with self.subTest(schedule=schedule, workers=workers):
                    out = self.folder / "b.mtx"
                    answer = run(*self.common, "--schedule", *schedule, "--workers", workers, "--tol", 1e-8, "--out", out, "--json")
                    self.assertEqual(answer.returncode, 0, answer.stderr)
                    told = json.loads(answer.stdout)
                    found = objective(self.x, self.y, solution(out))
                    self.assertTrue(told["converged"])
                    self.assertLessEqual(found, best * (1 + 1.1e-8))
                    self.assertAlmostEqual(told["objective"], found, delta=1e-9 * found)
                    self.assertEqual(told["nonzeros"], sum(each != 0 for each in solution(out)))
                    history = told["history"]
                    self.assertEqual(history[-1]["gap"], told["gap"])
                    self.assertEqual([point["updates"] for point in history], sorted(point["updates"] for point in history))

    def test_the_same_bits_over_any_transport_and_from_any_file(self):
        array = self.folder / "y.npy"  # as NumPy writes it
        head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({ROWS},), }}".ljust(117) + "\n"
        array.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{ROWS}d", *self.y))
        for schedule in (("sweeps",), ("priority+filter", "--set-size", 4)):
            bits = set()
            for transport in ("inproc", "shm", "tcp"):
                out = self.folder / f"{transport}.mtx"
                answer = run(*self.common, "--schedule", *schedule, "--workers", 2, "--transport", transport, "--out", out)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertIn("relative gap", answer.stdout)
                bits.add(out.read_bytes())
            answer = run("lasso", "--x", self.folder / "x.mtx", "--y", array, "--lambda", LAMBDA, "--schedule", *schedule, "--out", out)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            bits.add(out.read_bytes())
            self.assertEqual(len(bits), 1, schedule)

    def test_a_limit_ends_it_with_a_note(self):
        picture = self.folder / "how.svg"
        answer = run(*self.common, "--tol", 0, "--max-passes", 2, "--picture", picture, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("Lasso, lambda 0.8, by sweeps", picture.read_text())
        self.assertIn("kerf: note: stopped before it converged", answer.stderr)
        self.assertFalse(json.loads(answer.stdout)["converged"])

    def test_what_cannot_be(self):
        sets = ("--schedule", "priority+filter")
        for flags, words in ((("--lambda", 0), ("--lambda", "not above 0")), (("--lambda", "nan"), ("--lambda",)), (("--tol", -1), ("--tol",)),
                             (("--set-size", 0, *sets), ("--set-size",)), (("--depth", 0, *sets), ("--depth",)),
                             (("--threshold", 1.5, *sets), ("--threshold", "0.2 to 0.3")), (("--sweeps", 0), ("--sweeps",)),
                             (("--set-size", 5), ("--set-size", "uniform")), (("--seed", 5), ("--seed", "uniform")), (("--sweeps", 5, *sets), ("--sweeps", "of --schedule sweeps")),
                             (("--workers", 71), ("--workers", "1 and 70: columns")), (("--workers", 41, *sets), ("--workers", "1 and 40: rows")),
                             (("--schedule", "cyclic"), ("--schedule", "sweeps")),
                             (("--max-seconds", -1), ("--max-seconds",)),
                             (("--threshold", 0.2, "--schedule", "uniform"), ("--threshold", "priority+filter")), (("--threshold", "nan", *sets), ("--threshold",)),
                             (("--x", self.folder / "none.mtx"), ("none.mtx",)), (("--x", self.folder / "x.txt"), (".mtx",))):
            with self.subTest(flags=flags):
                given = {**dict(zip(self.common[1::2], self.common[2::2], strict=True)), **dict(zip(flags[::2], flags[1::2], strict=True))}
                answer = run("lasso", *(each for pair in given.items() for each in pair))
                self.assert_one_error(answer, *words, code=2)
        (self.folder / "short.mtx").write_text("%%MatrixMarket matrix array real general\n3 1\n1\n2\n3\n")
        answer = run("lasso", "--x", self.folder / "x.mtx", "--y", self.folder / "short.mtx", "--lambda", 1)
        self.assert_one_error(answer, "short.mtx: it has 3 rows", "x.mtx has 40", code=2)
        (self.folder / "bad.mtx").write_text(f"{HEAD}{ROWS} {COLUMNS} 2\n1 1 0.5\n41 2 0.5\n")
        answer = run("lasso", "--x", self.folder / "bad.mtx", "--y", self.folder / "y.mtx", "--lambda", 1)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("bad.mtx:4", answer.stderr)
        for out, words in ((self.folder / "no" / "b.mtx", "there is no folder"), (self.folder / "b.csv", "does not end in .mtx")):
            self.assert_one_error(run(*self.common, "--out", out), "--out", words, code=2)


class GeneratedData(KerfTest):
    """shared/data/programs/generate.py lasso, whose neighbours are correlated: 10,000 x 50,000."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.script = shared_data("programs")

    def test_priority_alone_diverges_and_behind_the_filter_it_converges(self):
        if self.script is None:
            self.skipTest("there is no shared/data/programs above the sources, and KERF_DATA names none")
        run_peer(self.script / "generate.py", "lasso", self.folder)
        common = ("lasso", "--x", self.folder / "x.mtx", "--y", self.folder / "y.mtx", "--lambda", 0.25, "--set-size", 256, "--depth", 4)
        self.assert_one_error(run(*common, "--schedule", "priority"), "it diverges", "priority+filter", code=2)
        told = {}
        for schedule in ("uniform", "priority+filter"):
            answer = run(*common, "--schedule", schedule, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            told[schedule] = json.loads(answer.stdout)
            self.assertAlmostEqual(told[schedule]["objective"], 106.244688, delta=1e-5 * 106.244688)
            self.assertEqual(told[schedule]["nonzeros"], 615)
        self.assertLess(told["priority+filter"]["updates"], told["uniform"]["updates"])


def missing():
    """Why the data cannot be made; empty if it can."""
    if not PYTHON:
        return "there is no python3 in PATH; KERF_PEER_PYTHON names one"
    try:
        run_peer("-c", "import scipy")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return f"{PYTHON} has no scipy ({str(error).splitlines()[-1]}); KERF_PEER_PYTHON names one that has"
    return ""


if __name__ == "__main__":
    if sys.argv[1:] == ["generated"]:
        sys.argv[1:] = ["GeneratedData"]
        if why := missing():
            print(why)
            sys.exit(77)
    else:
        sys.argv[1:] = sys.argv[1:] or ["Lasso"]
    unittest.main()
