"""kerf predict: what a program wrote is read back and says of data what it should."""

import json
import math
import random
import unittest

from kerf_command import KerfTest, run

MATRIX = "%%MatrixMarket matrix array real general\n"


def numbers(text):
    return [[float(field) for field in line.split()] for line in text.splitlines()]


class Predict(KerfTest):
    def fit(self, *arguments):
        answer = run(*arguments, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def predict(self, *arguments):
        """The predictions, line by line, and the measures, by one run each; a file has what the standard output has."""
        shown, told, out = run("predict", *arguments), run("predict", *arguments, "--json"), self.folder / "predicted"
        kept = run("predict", *arguments, "--out", out)
        for answer in (shown, told, kept):
            self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(out.read_text(), shown.stdout)
        self.assertEqual(shown.stderr, f"kerf: note: {kept.stdout}")
        return shown.stdout, json.loads(told.stdout)

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def test_lasso(self):
        chance = random.Random(1)
        x = [[chance.gauss(0, 1) for _ in range(5)] for _ in range(40)]
        y = [3 * row[1] - row[4] + chance.gauss(0, 0.1) for row in x]
        columns = "".join(f"{row[j]!r}\n" for j in range(5) for row in x)
        matrix, column = self.write("x.mtx", f"{MATRIX}40 5\n{columns}"), self.write("y.csv", "y\n" + "".join(f"{v!r}\n" for v in y))
        beta = self.folder / "beta.mtx"
        self.fit("lasso", "--x", matrix, "--y", column, "--lambda", 1, "--out", beta)
        b = [row[0] for row in numbers(beta.read_text().split("\n", 2)[2])]
        expected = [sum(a * c for a, c in zip(row, b, strict=True)) for row in x]
        for data in (matrix, self.write("x.csv", "".join(",".join(map(repr, row)) + "\n" for row in x))):
            text, told = self.predict("--model", beta, "--data", data, "--y", column)
            for (got,), want in zip(numbers(text), expected, strict=True):
                self.assertAlmostEqual(got, want, delta=1e-12 * max(1, abs(want)))
            rmse = math.sqrt(sum((a - c) ** 2 for a, c in zip(y, expected, strict=True)) / 40)
            self.assertAlmostEqual(told["rmse"], rmse, delta=1e-12)
        self.assertNotIn("rmse", self.predict("--model", beta, "--data", matrix)[1])
        self.assert_one_error(run("predict", "--model", beta, "--data", column), "it has 1 column, and the model has 5 coefficients")

    def test_ratings(self):
        chance = random.Random(2)
        head = "%%MatrixMarket matrix coordinate real general\n"
        places = [(u, i) for u in range(1, 21) for i in range(1, 16)]
        chance.shuffle(places)

        def ratings(name, some):
            return self.write(name, f"{head}20 15 {len(some)}\n" + "".join(f"{u} {i} {3 + u / 10 * (i - 8)}\n" for u, i in some))
        train, test, model = ratings("train.mtx", places[:200]), ratings("test.mtx", places[200:]), self.folder / "model"
        told = self.fit("mf", "--ratings", train, "--test", test, "--rank", 2, "--iterations", 50, "--tol", 0, "--out", model)
        text, measures = self.predict("--model", model, "--data", test)
        self.assertAlmostEqual(measures["rmse"], told["test_rmse"], delta=1e-5)
        self.assertEqual(sorted((int(u), int(i)) for u, i, _ in numbers(text)), sorted(places[200:]))
        squares = [(rating - 3 - u / 10 * (i - 8)) ** 2 for u, i, rating in numbers(text)]
        self.assertAlmostEqual(measures["rmse"], math.sqrt(sum(squares) / len(squares)), delta=1e-9)
        self.assert_one_error(run("predict", "--model", model, "--data", self.write("x.mtx", f"{head}20 14 1\n1 1 1\n")), "20 x 14", "15 items")

    def test_classes(self):
        chance = random.Random(3)
        rows = [[chance.gauss(0, 1) for _ in range(4)] for _ in range(120)]
        labels = [2 if row[0] - row[3] > 0.1 * chance.gauss(0, 1) else 1 for row in rows]
        data = self.write("data.libsvm", "".join(f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row)) + "\n"
                                                 for label, row in zip(labels, rows, strict=True)))
        for program in ("logistic", "svm"):
            with self.subTest(program=program):
                model = self.folder / f"{program}.txt"
                self.fit(program, "--data", data, "--out", model)
                weights = {int(line.split()[0]): float(line.split()[1]) for line in model.read_text().splitlines() if line[0].isdigit()}
                text, told = self.predict("--model", model, "--data", data)
                right = 0
                for line, row, label in zip(numbers(text), rows, labels, strict=True):
                    score = sum(weights.get(j + 1, 0) * v for j, v in enumerate(row))
                    self.assertEqual(line[0], 2 if score > 0 else 1)
                    if program == "logistic":
                        self.assertAlmostEqual(line[1], 1 / (1 + math.exp(-score)), delta=1e-12)
                    right += line[0] == label
                table = self.write("x.csv", "".join(",".join(map(repr, row)) + "\n" for row in rows))
                column = self.write("y.csv", "".join(f"{label}\n" for label in labels))
                self.assertEqual(self.predict("--model", model, "--data", table, "--y", column), (text, told), "the same rows as a matrix")
                self.assertNotIn("accuracy", self.predict("--model", model, "--data", table)[1])
                self.assertAlmostEqual(told["accuracy"], right / 120, delta=1e-12)
                self.assertGreater(right, 100)

    def test_topics(self):
        chance = random.Random(4)
        lines = []
        for document in range(60):
            words = [chance.randrange(10) + 10 * (document % 2) for _ in range(30)]
            lines.append(" ".join(f"{word}:{words.count(word)}" for word in sorted(set(words))))
        corpus, model = self.write("corpus.txt", "\n".join(lines) + "\n"), self.folder / "topics"
        self.fit("lda", "--corpus", corpus, "--topics", 2, "--alpha", 0.1, "--iterations", 60, "--out", model)
        text, told = self.predict("--model", model, "--data", corpus)
        shares = [{int(topic): float(share) for topic, share in (each.split(":") for each in line.split())} for line in text.splitlines()]
        main = [max(each, key=each.get) for each in shares]
        self.assertEqual(len(set(main[::2])), 1, "documents of one kind have one topic")
        self.assertEqual(set(main[1::2]), {1 - main[0]})
        self.assertAlmostEqual(told["held_out_log_likelihood_per_token"], -math.log(10), delta=0.1)

    def test_what_is_no_model_is_refused(self):
        data = self.write("x.csv", "1\n")
        for text in ("", "kerf\n", "kerf mf: x\nmean nan\n", "kerf svm: w\n", "kerf lda: x\n"):
            self.assertEqual(run("predict", "--model", self.write("model.txt", text), "--data", data).returncode, 2, text)
        self.assert_one_error(run("predict", "--model", self.folder / "none", "--data", data), "none")
        self.assert_one_error(run("predict", "--model", self.write("model.txt", "kerf mf: x\n"), "--data", data, "--y", data), "--y")


if __name__ == "__main__":
    unittest.main()
