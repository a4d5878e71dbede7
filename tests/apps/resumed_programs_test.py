"""Every shipped program goes on from a snapshot to the same bits: a run that is begun anew from the last snapshot of another writes
the same model, and tells the same history from there on."""

import json
import unittest

from kerf_command import KerfTest, run
from small_programs import factorisation, lasso, topics, write_small_data


class Resumed(KerfTest):
    def setUp(self):
        super().setUp()
        write_small_data(self.folder)
        self.factorisation = factorisation(self.folder, 9)
        self.topics = topics(self.folder, 9)

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
                    self.goes_on(*lasso(self.folder, "--tol", 1e-9), "--workers", workers, "--schedule", schedule, *more, out=f"{schedule}{workers}.mtx")

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
