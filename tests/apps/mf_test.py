"""kerf mf as a person runs it: ratings in, a model out, advice where it cannot be."""

import json
import math
import random
import unittest

from kerf_command import KerfTest, run

USERS, ITEMS = 40, 30
HEAD = "%%MatrixMarket matrix coordinate real general\n"


def problem():
    """Ratings of rank one around 3, some to learn from and some to test on."""
    chance = random.Random(5)
    p, q = ([chance.gauss(0, 1) for _ in range(count)] for count in (USERS, ITEMS))
    places = [(u, i) for u in range(USERS) for i in range(ITEMS)]
    chance.shuffle(places)
    ratings = {(u, i): 3 + p[u] * q[i] + chance.gauss(0, 0.1) for u, i in places[:700]}
    return dict(list(ratings.items())[:600]), dict(list(ratings.items())[600:])


def array(file):
    """Row by row."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("%")]
    rows, columns = map(int, lines[0].split())
    return [[float(lines[1 + column * rows + row]) for column in range(columns)] for row in range(rows)]


def rmse(model, ratings):
    users, items = array(model / "users.mtx"), array(model / "items.mtx")
    mean = next(float(line.split()[1]) for line in (model / "model.txt").read_text().splitlines() if line.startswith("mean "))
    errors = [value - mean - sum(a * b for a, b in zip(users[u], items[i], strict=True)) for (u, i), value in ratings.items()]
    return math.sqrt(sum(each * each for each in errors) / len(errors))


class MatrixFactorisation(KerfTest):
    def setUp(self):
        super().setUp()
        self.ratings, self.tests = problem()
        for name, ratings in (("ratings", self.ratings), ("test", self.tests)):
            lines = "".join(f"{u + 1} {i + 1} {value!r}\n" for (u, i), value in ratings.items())
            (self.folder / f"{name}.mtx").write_text(f"{HEAD}{USERS} {ITEMS} {len(ratings)}\n{lines}")
        self.common = ("mf", "--ratings", self.folder / "ratings.mtx", "--test", self.folder / "test.mtx", "--rank", 3)

    def test_a_model_that_is_as_good_as_it_says(self):
        for workers, algorithm in ((1, "sgd"), (3, "sgd"), (3, "ccd")):
            with self.subTest(workers=workers, algorithm=algorithm):
                out = self.folder / f"model-{algorithm}{workers}"
                answer = run(*self.common, "--algorithm", algorithm, "--workers", workers, "--iterations", 80, "--tol", 0, "--out", out, "--json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                told = json.loads(answer.stdout)
                self.assertLess(told["test_rmse"], 0.3)
                self.assertAlmostEqual(told["test_rmse"], rmse(out, self.tests), delta=1e-4)
                self.assertAlmostEqual(told["train_rmse"], rmse(out, self.ratings), delta=1e-4)
                self.assertEqual((told["iterations"], told["ratings"], told["updates"]), (80, 600, 48_000))
                self.assertEqual([point["iterations"] for point in told["history"]], [*range(1, 81), 80])
                self.assertEqual(told["history"][-1]["objective"], told["objective"])

    def test_the_same_bits_over_any_transport(self):
        for algorithm in ("sgd", "ccd"):
            bits = set()
            for transport in ("inproc", "shm", "tcp"):
                out = self.folder / f"{algorithm}-{transport}"
                answer = run(*self.common, "--algorithm", algorithm, "--workers", 3, "--transport", transport, "--out", out)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertIn("test RMSE", answer.stdout)
                bits.add(b"".join((out / name).read_bytes() for name in ("users.mtx", "items.mtx", "model.txt")))
            self.assertEqual(len(bits), 1, algorithm)

    def test_speeds_divide_the_users(self):
        for algorithm, transport in (("sgd", "shm"), ("ccd", "inproc")):
            with self.subTest(algorithm=algorithm):
                out = self.folder / f"model-{algorithm}"
                arguments = (*self.common, "--algorithm", algorithm, "--workers", 3, "--transport", transport, "--balance", "--iterations", 80, "--tol", 0)
                told = json.loads(run(*arguments, "--out", out, "--json").stdout)
                self.assertEqual((len(told["users_of_workers"]), sum(told["users_of_workers"])), (3, USERS))
                self.assertGreaterEqual(min(told["users_of_workers"]), 1)
                self.assertLess(told["test_rmse"], 0.3)
                self.assertAlmostEqual(told["train_rmse"], rmse(out, self.ratings), delta=1e-4)
        self.assertRegex(run(*self.common, "--workers", 1, "--balance").stdout, rf"test RMSE [0-9.]+; users over the workers: {USERS}\n$")
        self.assertNotIn("users_of_workers", json.loads(run(*self.common, "--json").stdout))

    def test_it_ends_where_it_gets_no_better(self):
        told = json.loads(run(*self.common, "--tol", 0.05, "--iterations", 1000, "--json").stdout)
        self.assertTrue(told["converged"])
        self.assertLess(told["iterations"], 100)

    def test_what_cannot_be(self):
        for flags, words in ((("--lambda", -1), ("--lambda", "0 or more")), (("--lambda", "nan"), ("--lambda",)), (("--step", 0), ("--step", "above 0")),
                             (("--decay", -1), ("--decay",)), (("--tol", -1), ("--tol",)), (("--max-seconds", -1), ("--max-seconds",)),
                             (("--rank", 0), ("--rank", "1 to 4096")), (("--blocks", 0), ("--blocks",)), (("--iterations", 0), ("--iterations",)),
                             (("--workers", 16), ("--workers", "1 and 15: 40 users and 30 items in 2 blocks")), (("--workers", 0), ("--workers",)),
                             (("--algorithm", "ccd", "--step", 0.1), ("--step", "of --algorithm sgd")), (("--algorithm", "als"), ("--algorithm", "ccd")),
                             (("--step", 50, "--decay", 0, "--iterations", 100), ("it diverges", "smaller --step")),
                             (("--ratings", self.folder / "none.mtx"), ("none.mtx",)), (("--ratings", self.folder / "x.txt"), (".mtx",))):
            with self.subTest(flags=flags):
                given = {**dict(zip(self.common[1::2], self.common[2::2], strict=True)), **dict(zip(flags[::2], flags[1::2], strict=True))}
                answer = run("mf", *(each for pair in given.items() for each in pair))
                self.assert_one_error(answer, *words, code=2)
        (self.folder / "small.mtx").write_text(f"{HEAD}3 3 1\n1 1 1\n")
        self.assert_one_error(run(*self.common, "--test", self.folder / "small.mtx"), "small.mtx: it is 3 x 3; ", "is 40 x 30", code=2)
        (self.folder / "none.mtx").write_text(f"{HEAD}40 30 0\n")
        for flag in ("--ratings", "--test"):
            self.assert_one_error(run(*self.common, flag, self.folder / "none.mtx"), "none.mtx: it has no ratings", code=2)
        for name, line in (("far", "41 2 0.5"), ("nan", "1 2 nan"), ("twice", "1 1 2")):
            (self.folder / f"{name}.mtx").write_text(f"{HEAD}{USERS} {ITEMS} 2\n1 1 0.5\n{line}\n")
            answer = run(*self.common, "--ratings", self.folder / f"{name}.mtx")
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn(f"{name}.mtx:4", answer.stderr)
        (self.folder / "file").write_text("")
        self.assert_one_error(run(*self.common, "--out", self.folder / "file"), "file: this is no folder", code=2)


if __name__ == "__main__":
    unittest.main()
