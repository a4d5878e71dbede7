"""Every shipped program goes on from a snapshot to the same bits: a run that is begun anew from the last snapshot of another writes
the same model, and tells the same history from there on."""

import json
import random
import unittest

from kerf_command import KerfTest, run


class Resumed(KerfTest):
    def setUp(self):
        super().setUp()
        chance = random.Random(7)
        rows, columns = 60, 40
        x = [[chance.gauss(0, 1) if chance.random() < 0.3 else 0 for _ in range(columns)] for _ in range(rows)]
        y = [3 * row[1] - 2 * row[7] + row[30] + chance.gauss(0, 0.5) for row in x]
        (self.folder / "x.csv").write_text("".join(",".join(map(repr, row)) + "\n" for row in x))
        (self.folder / "y.csv").write_text("".join(f"{value!r}\n" for value in y))
        (self.folder / "x.libsvm").write_text("".join(
            f"{1 if label > 0 else -1} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row) if value) + "\n"
            for label, row in zip(y, x, strict=True)))
        places = [(u, i) for u in range(1, 31) for i in range(1, 21) if chance.random() < 0.5]
        (self.folder / "r.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n30 20 {len(places)}\n"
                                           + "".join(f"{u} {i} {chance.gauss(3, 1)!r}\n" for u, i in places))
        (self.folder / "corpus.txt").write_text("".join(
            " ".join(f"{word}:{chance.randrange(1, 4)}" for word in sorted(chance.sample(range(30), 12))) + "\n" for _ in range(40)))
        self.factorisation = ("mf", "--ratings", self.folder / "r.mtx", "--test", self.folder / "r.mtx", "--rank", 3, "--iterations", 9, "--tol", 0)
        self.topics = ("lda", "--corpus", self.folder / "corpus.txt", "--topics", 5, "--iterations", 9)

    def told(self, *arguments):
        answer = run(*arguments, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def model(self, out):
        files = sorted(out.iterdir()) if out.is_dir() else [out]
        return {file.name: file.read_bytes() for file in files}

    def goes_on(self, *arguments, out):
        """The same run, whole and from a snapshot behind two thirds of it."""
        rounds = self.told(*arguments)["history"][-1]
        rounds = rounds.get("rounds", rounds.get("iterations"))
        kept, first, second = (self.folder / f"{name}{out}" for name in ("kept", "first", "second"))
        whole = self.told(*arguments, "--out", first, "--snapshot", kept, "--snapshot-rounds", rounds * 2 // 3 + 1)
        begun = json.loads(next(kept.glob("checkpoint-*/manifest.json")).read_text())["round"]
        self.assertEqual(begun, rounds * 2 // 3 + 1)
        self.assertLess(begun, whole["rounds"] if "rounds" in whole else rounds)
        again = self.told(*arguments, "--out", second, "--resume", kept)
        first_file, second_file = self.model(first), self.model(second)
        self.assertEqual([*first_file.values()], [*second_file.values()])

        def points(history):
            return [{name: value for name, value in point.items() if name != "seconds"} for point in history]
        self.assertEqual(points(again["history"]), points(whole["history"]))
        seconds = [point["seconds"] for point in again["history"]]
        self.assertEqual(seconds, sorted(seconds), "they go on, too")
        return whole, again

    def test_lasso(self):
        for schedule in ("sweeps", "uniform", "priority", "priority+filter"):
            for workers in (1, 3):
                with self.subTest(schedule=schedule, workers=workers):
                    more = () if schedule == "sweeps" else ("--set-size", 3, "--depth", 2)
                    self.goes_on("lasso", "--x", self.folder / "x.csv", "--y", self.folder / "y.csv", "--lambda", 1, "--tol", 1e-9, "--workers", workers,
                                 "--schedule", schedule, *more, out=f"{schedule}{workers}.mtx")

    def test_classifiers(self):
        for program, *more in (("logistic",), ("svm", "--sweeps", 2), ("svm", "--loss", "squared-hinge")):
            for workers in (1, 3):
                with self.subTest(program=program, more=more, workers=workers):
                    self.goes_on(program, *more, "--data", self.folder / "x.libsvm", "--tol", 1e-9, "--workers", workers, out=f"{program}{len(more)}{more[:1]}{workers}.txt")

    def test_matrix_factorisation(self):
        for algorithm in ("sgd", "ccd"):
            for workers in (1, 3):
                with self.subTest(algorithm=algorithm, workers=workers):
                    self.goes_on(*self.factorisation, "--algorithm", algorithm, "--workers", workers, out=f"{algorithm}{workers}")

    def test_topics(self):
        for workers in (1, 3):
            with self.subTest(workers=workers):
                self.goes_on(*self.topics, "--workers", workers, out=f"lda{workers}")

    def test_what_speeds_divided(self):
        """A resumed run keeps the snapshot's parts, and measures nothing."""
        for program, arguments in (("mf", self.factorisation), ("mf-ccd", (*self.factorisation, "--algorithm", "ccd")), ("lda", self.topics)):
            with self.subTest(program=program):
                whole, again = self.goes_on(*arguments, "--balance", "--workers", 3, out=program)
                parts = "documents_of_workers" if program == "lda" else "users_of_workers"
                self.assertEqual(again[parts], whole[parts])
                self.assertEqual(sum(whole[parts]), 40 if program == "lda" else 30)


if __name__ == "__main__":
    unittest.main()
