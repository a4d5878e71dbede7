"""The shipped programs on real data from Debian packages: liblinear-tools (heart_scale), scikit-learn's diabetes, r-cran-lme4 (InstEval, which
takes Rscript), wordnet-base (glosses). Each test says what it lacks and skips where it is absent; KERF_PEER_PYTHON names a Python that has
scikit-learn."""

import collections
import csv
import gzip
import json
import math
import pathlib
import random
import re
import shutil
import subprocess
import unittest

from kerf_command import KerfTest, run
from peer_test import PYTHON, run_peer

HEART = pathlib.Path("/usr/share/doc/liblinear-tools/examples/heart_scale")
INST_EVAL = pathlib.Path("/usr/lib/R/site-library/lme4/data/Rdata")
GLOSSES = pathlib.Path("/usr/share/wordnet/data.noun")

CLASSIFIERS = r"""
import json, sys, numpy
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
x, y = load_svmlight_file(sys.argv[1])
x = x.toarray()
losses = {"logistic": lambda m: numpy.logaddexp(0, -m), "hinge": lambda m: numpy.maximum(0, 1 - m), "squared-hinge": lambda m: numpy.maximum(0, 1 - m) ** 2}
models = {"logistic": LogisticRegression(C=1, fit_intercept=False, tol=1e-12, max_iter=100_000),
          "hinge": LinearSVC(loss="hinge", C=1, fit_intercept=False, tol=1e-10, max_iter=10_000_000),
          "squared-hinge": LinearSVC(loss="squared_hinge", C=1, fit_intercept=False, tol=1e-10, max_iter=10_000_000)}
told = {}
for name, model in models.items():
    w = model.fit(x, y).coef_.ravel()
    told[name] = {"objective": w @ w / 2 + losses[name](y * (x @ w)).sum(), "accuracy": float(((x @ w > 0) == (y > 0)).mean())}
print(json.dumps(told))
"""

DIABETES = r"""
import json, sys, numpy
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Lasso
x, y = load_diabetes(return_X_y=True)
y = y - y.mean()
numpy.savetxt(sys.argv[1] + "/x.csv", x, delimiter=",", fmt="%.17g", header="age,sex,bmi,bp,s1,s2,s3,s4,s5,s6", comments="")
numpy.savetxt(sys.argv[1] + "/y.csv", y, fmt="%.17g")
told = {}
for part in map(float, sys.argv[2:]):
    weight = part * abs(x.T @ y).max()
    b = Lasso(alpha=weight / len(y), fit_intercept=False, tol=1e-14, max_iter=1_000_000).fit(x, y).coef_
    told[str(part)] = {"lambda": weight, "objective": ((y - x @ b) ** 2).sum() / 2 + weight * abs(b).sum(), "nonzeros": int((b != 0).sum())}
print(json.dumps(told))
"""


def has_scikit_learn():
    if PYTHON is None:
        return False
    try:
        run_peer("-c", "import sklearn")
        return True
    except (RuntimeError, OSError):
        return False


class RealData(KerfTest):
    def told(self, *arguments):
        answer = run(*arguments, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def test_classifiers_of_hearts(self):
        packed = HEART.with_suffix(".gz")
        if not HEART.exists() and not packed.exists():
            self.skipTest("there is no heart_scale: install liblinear-tools")
        if not has_scikit_learn():
            self.skipTest("there is no Python with scikit-learn; KERF_PEER_PYTHON names one")
        data = self.folder / "heart.libsvm"
        data.write_bytes(HEART.read_bytes() if HEART.exists() else gzip.decompress(packed.read_bytes()))
        for name, expected in json.loads(run_peer("-c", CLASSIFIERS, data)).items():
            program = ("logistic",) if name == "logistic" else ("svm", "--loss", name)
            for workers in (1, 3):
                with self.subTest(loss=name, workers=workers):
                    told = self.told(*program, "--data", data, "--test", data, "--tol", 1e-7, "--workers", workers)
                    self.assertTrue(told["converged"])
                    self.assertAlmostEqual(told["objective"], expected["objective"], delta=1e-5 * expected["objective"])
                    self.assertAlmostEqual(told["test_accuracy"], expected["accuracy"], delta=1.5 / 270)

    def test_lasso_of_diabetes(self):
        if not has_scikit_learn():
            self.skipTest("there is no Python with scikit-learn; KERF_PEER_PYTHON names one")
        for part, expected in json.loads(run_peer("-c", DIABETES, self.folder, 0.5, 0.1, 0.01)).items():
            for schedule in ("sweeps", "priority+filter"):
                with self.subTest(part=part, schedule=schedule):
                    told = self.told("lasso", "--x", self.folder / "x.csv", "--y", self.folder / "y.csv", "--lambda", expected["lambda"], "--tol", 1e-8,
                                     "--schedule", schedule, *(() if schedule == "sweeps" else ("--set-size", 1, "--depth", 1)))
                    self.assertAlmostEqual(told["objective"], expected["objective"], delta=1e-7 * expected["objective"])
                    self.assertEqual(told["nonzeros"], expected["nonzeros"])

    def test_ratings_of_lecturers(self):
        if not INST_EVAL.with_suffix(".rdb").exists() or not shutil.which("Rscript"):
            self.skipTest("there is no InstEval, or no Rscript: install r-cran-lme4")
        table = self.folder / "ratings.csv"
        subprocess.run(["Rscript", "-e", f'lazyLoad("{INST_EVAL}"); write.csv(InstEval[c("s", "d", "y")], "{table}", row.names = FALSE, quote = FALSE)'],
                       check=True, capture_output=True)
        with table.open() as lines:
            ratings = [(row["s"], row["d"], float(row["y"])) for row in csv.DictReader(lines)]
        self.assertEqual(len(ratings), 73_421)
        random.Random(1).shuffle(ratings)
        students, lecturers = ({name: place + 1 for place, name in enumerate(sorted({rating[column] for rating in ratings}))} for column in (0, 1))
        for name, some in (("train", ratings[:66_000]), ("test", ratings[66_000:])):
            (self.folder / f"{name}.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n{len(students)} {len(lecturers)} {len(some)}\n"
                                                     + "".join(f"{students[s]} {lecturers[d]} {y}\n" for s, d, y in some))
        mean = sum(y for _, _, y in ratings[:66_000]) / 66_000
        by_mean = math.sqrt(sum((y - mean) ** 2 for _, _, y in ratings[66_000:]) / len(ratings[66_000:]))
        for algorithm in ("sgd", "ccd"):
            with self.subTest(algorithm=algorithm):
                told = self.told("mf", "--ratings", self.folder / "train.mtx", "--test", self.folder / "test.mtx", "--rank", 2, "--lambda", 0.2,
                                 "--algorithm", algorithm, "--workers", 3)
                self.assertAlmostEqual(told["mean"], mean, delta=1e-9)
                self.assertLess(told["test_rmse"], 0.97 * by_mean)

    def test_topics_of_glosses(self):
        if not GLOSSES.exists():
            self.skipTest("there are no glosses: install wordnet-base")
        documents = [re.findall("[a-z]{4,}", line.split("|", 1)[1].lower()) for line in GLOSSES.read_text().splitlines()[29:20_000] if "|" in line]
        often = collections.Counter(word for document in documents[:18_000] for word in document)
        number = {word: place for place, word in enumerate(sorted(word for word, count in often.items() if count >= 5))}
        lines = [" ".join(f"{number[word]}:{count}" for word, count in collections.Counter(word for word in document if word in number).items())
                 for document in documents]
        (self.folder / "words.txt").write_text("\n".join(number) + "\n")
        (self.folder / "train.txt").write_text("\n".join(lines[:18_000]) + "\n")
        (self.folder / "test.txt").write_text("\n".join(lines[18_000:]) + "\n")
        told = self.told("lda", "--corpus", self.folder / "train.txt", "--test", self.folder / "test.txt", "--vocabulary", self.folder / "words.txt",
                         "--topics", 20, "--iterations", 100)
        self.assertEqual((told["words"], told["documents"]), (len(number), 18_000))
        # What a document does not tell of its other half: every word by how often it is anywhere.
        tokens = sum(often[word] for word in number)
        self.assertEqual(told["tokens"], tokens)
        unseen = [word for line in lines[18_000:] for word in [int(entry.split(":")[0]) for entry in line.split() for _ in range(int(entry.split(":")[1]))][1::2]]
        names = list(number)
        alone = sum(math.log(often[names[word]] / tokens) for word in unseen) / len(unseen)
        self.assertGreater(told["held_out_log_likelihood_per_token"], alone)
        self.assertGreater(told["history"][-1]["log_likelihood"], told["history"][0]["log_likelihood"])


if __name__ == "__main__":
    unittest.main()
