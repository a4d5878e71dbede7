"""kerf lda as a person runs it: documents in, topics out, advice where it cannot be."""

import collections
import json
import math
import random
import subprocess
import sys
import unittest

from kerf_command import KerfTest, run, shared_data
from peer_test import PYTHON, run_peer

TOPICS, WORDS, DOCUMENTS = 3, 30, 80


def documents(seed, count):
    """Of two topics each, mostly of one; topic k has words 10 k to 10 k + 9."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        most, some = chance.randrange(TOPICS), chance.randrange(TOPICS)
        tokens = [10 * (most if chance.random() < 0.8 else some) + min(chance.randrange(10), chance.randrange(10)) for _ in range(chance.randrange(10, 50))]
        found.append(sorted(collections.Counter(tokens).items()))
    return found


def text(corpus):
    return "".join(" ".join(f"{word}:{count}" for word, count in document) + "\n" for document in corpus)


def read_model(folder):
    """Counts by word and topic, and what model.txt says."""
    head, *lines = (folder / "model.txt").read_text().splitlines()
    assert head.startswith("kerf lda: "), head
    said = {name: float(value) for name, value in map(str.split, lines)}
    _, size, *entries = (folder / "counts.mtx").read_text().splitlines()
    words, topics, count = map(int, size.split())
    counts = [[0] * topics for _ in range(words)]
    for entry in entries:
        word, topic, value = entry.split()
        counts[int(word) - 1][int(topic) - 1] = int(value)
    assert (len(entries), words, topics) == (count, said["words"], said["topics"])
    return counts, said


def held_out(folder, corpus):
    """As docs/programs.md has it, in plain Python."""
    counts, said = read_model(folder)
    topics, alpha, beta = int(said["topics"]), said["alpha"], said["beta"]
    totals = [sum(row[k] for row in counts) for k in range(topics)]
    p = [[(row[k] + beta) / (totals[k] + said["words"] * beta) for k in range(topics)] for row in counts]
    told, tokens = 0.0, 0
    for document in corpus:
        every = [word for word, count in document for _ in range(count)]
        seen, other = every[::2], every[1::2]
        shares = [1 / topics] * topics
        for _ in range(200):
            new = [alpha] * topics
            for word in seen:
                mixed = [s * q for s, q in zip(shares, p[word])]
                for k in range(topics):
                    new[k] += mixed[k] / sum(mixed)
            shares = [each / (topics * alpha + len(seen)) for each in new]
        told += sum(math.log(sum(s * q for s, q in zip(shares, p[word]))) for word in other)
        tokens += len(other)
    return told / tokens


class Topics(KerfTest):
    def setUp(self):
        super().setUp()
        self.corpus, self.test = documents(1, DOCUMENTS), documents(2, 10)
        (self.folder / "corpus.txt").write_text(text(self.corpus))
        (self.folder / "test.txt").write_text(text(self.test))
        (self.folder / "words.txt").write_text("".join(f"{'abc'[i // 10]}{i % 10}\n" for i in range(WORDS)))
        self.common = ("lda", "--corpus", self.folder / "corpus.txt", "--topics", TOPICS, "--alpha", 0.2)

    def test_a_model_that_is_as_good_as_it_says(self):
        tokens = sum(count for document in self.corpus for _, count in document)
        of_words = collections.Counter()
        for document in self.corpus:
            of_words.update(dict(document))
        for workers in (1, 3):
            with self.subTest(workers=workers):
                out, picture = self.folder / f"model{workers}", self.folder / "how.svg"
                answer = run(*self.common, "--test", self.folder / "test.txt", "--vocabulary", self.folder / "words.txt", "--workers", workers,
                             "--iterations", 60, "--out", out, "--picture", picture, "--json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                told = json.loads(answer.stdout)
                self.assertEqual((told["tokens"], told["words"], told["documents"], told["iterations"], told["updates"]),
                                 (tokens, WORDS, DOCUMENTS, 60, 60 * tokens))
                history = told["history"]
                self.assertEqual([point["iterations"] for point in history], [*range(61)])
                self.assertEqual(history[-1]["log_likelihood"], told["log_likelihood"])
                self.assertGreater(told["log_likelihood"], history[0]["log_likelihood"])
                self.assertAlmostEqual(told["iterations_per_second"], 60 / told["seconds"], delta=1e-6 * told["iterations_per_second"])
                self.assertAlmostEqual(told["held_out_log_likelihood_per_token"], held_out(out, self.test), delta=1e-5)
                counts, said = read_model(out)
                self.assertEqual((said["tokens"], said["alpha"], said["beta"]), (tokens, 0.2, 0.01))
                self.assertEqual([sum(row) for row in counts], [of_words[word] for word in range(WORDS)])
                # What was planted: each topic's commonest words begin with one letter.
                letters = []
                for line in (out / "topics.txt").read_text().splitlines():
                    _, _, *words = line.split()
                    self.assertEqual(len({word[0] for word in words[:6]}), 1, line)
                    letters.append(words[0][0])
                self.assertEqual(sorted(letters), ["a", "b", "c"])
                self.assertEqual((out / "words.txt").read_text(), (self.folder / "words.txt").read_text())
                self.assertIn("Topics, 3 of them", picture.read_text())
                self.assertNotIn("gap", picture.read_text())

    def test_speeds_divide_the_documents(self):
        out = self.folder / "model"
        answer = run(*self.common, "--workers", 3, "--balance", "--iterations", 5, "--out", out, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        told = json.loads(answer.stdout)
        self.assertEqual((len(told["documents_of_workers"]), sum(told["documents_of_workers"])), (3, DOCUMENTS))
        self.assertGreaterEqual(min(told["documents_of_workers"]), 1)
        self.assertEqual(sum(map(sum, read_model(out)[0])), told["tokens"])
        self.assertRegex(run(*self.common, "--workers", 1, "--balance", "--iterations", 2).stdout, rf"a token; documents over the workers: {DOCUMENTS}\n$")
        self.assertNotIn("documents_of_workers", json.loads(run(*self.common, "--iterations", 2, "--json").stdout))

    def test_the_same_bits_over_any_transport(self):
        bits = set()
        for transport in ("inproc", "shm", "tcp"):
            out = self.folder / transport
            answer = run(*self.common, "--workers", 3, "--iterations", 5, "--transport", transport, "--out", out)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            bits.add((*((out / name).read_bytes() for name in ("counts.mtx", "topics.txt", "model.txt")), answer.stdout.split("log-likelihood ")[-1]))
            self.assertFalse((out / "words.txt").exists())
        self.assertEqual(len(bits), 1)

    def test_people_see_the_commonest_words_of_the_largest_topics(self):
        answer = run(*self.common, "--vocabulary", self.folder / "words.txt", "--iterations", 40, "--test", self.folder / "test.txt")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"topic \d \(\d+ tokens\): [abc]\d [abc]\d")
        self.assertRegex(answer.stdout, r"40 iterations in .* over 2 workers \(.* a second\): log-likelihood -\d+.*, -\d.\d+ a token, of held-out tokens -\d")

    def test_time_ends_it(self):
        told = json.loads(run(*self.common, "--iterations", 10_000_000, "--max-seconds", 0.2, "--json").stdout)
        self.assertGreaterEqual(told["seconds"], 0.2)
        self.assertLess(told["iterations"], 10_000_000)

    def test_what_cannot_be(self):
        for flags, words in ((("--topics", 0), ("--topics", "1 to 32768")), (("--topics", 40_000), ("--topics",)), (("--alpha", 0), ("--alpha",)),
                             (("--alpha", "nan"), ("--alpha",)), (("--beta", -1), ("--beta",)), (("--beta", "inf"), ("--beta",)),
                             (("--max-seconds", -1), ("--max-seconds",)), (("--max-seconds", "nan"), ("--max-seconds",)), (("--iterations", 0), ("--iterations",)),
                             (("--blocks", 0), ("--blocks",)), (("--workers", 0), ("--workers",)),
                             (("--workers", 16), ("--workers", "1 and 15: 80 documents and 30 words in 2 blocks")),
                             (("--picture", self.folder / "no" / "a.svg"), ("--picture", "there is no folder")),
                             (("--corpus", self.folder / "none.txt"), ("none.txt",)), (("--test", self.folder / "none.txt"), ("none.txt",)),
                             (("--vocabulary", self.folder / "none.txt"), ("none.txt",))):
            with self.subTest(flags=flags):
                given = {**dict(zip(self.common[1::2], self.common[2::2], strict=True)), **dict(zip(flags[::2], flags[1::2], strict=True))}
                self.assert_one_error(run("lda", *(each for pair in given.items() for each in pair)), *words, code=2)
        for flag, content, line, what in (("--corpus", "0:1\n1:x\n", 2, "a count"), ("--corpus", "0:1 0:1\n", 1, "twice"), ("--corpus", "5\n", 1, "WORD:COUNT"),
                                          ("--test", "0:2\n30:1\n", 2, "a word from 0 to 29"), ("--vocabulary", "a\n\n", 2, "one word"),
                                          ("--vocabulary", "a\nb\n", None, "a word from 0 to 1")):
            with self.subTest(flag=flag, content=content):
                (self.folder / "bad.txt").write_text(content)
                given = {**dict(zip(self.common[1::2], self.common[2::2], strict=True)), flag: self.folder / "bad.txt"}
                answer = run("lda", *(each for pair in given.items() for each in pair))
                self.assert_one_error(answer, what, f"bad.txt:{line}" if line else "corpus.txt:1", code=2)
        (self.folder / "empty.txt").write_text("\n\n")
        for flag, what in (("--corpus", "it has no words"), ("--test", "it has no document of two tokens")):
            given = {**dict(zip(self.common[1::2], self.common[2::2], strict=True)), flag: self.folder / "empty.txt"}
            self.assert_one_error(run("lda", *(each for pair in given.items() for each in pair)), f"empty.txt: {what}", code=2)
        (self.folder / "file").write_text("")
        self.assert_one_error(run(*self.common, "--out", self.folder / "file"), "file: this is no folder", code=2)


PEER = r"""
import sys, numpy, tomotopy
corpus, topics, alpha, beta, iterations = sys.argv[1], *map(float, sys.argv[2:6])
model = tomotopy.LDAModel(k=int(topics), alpha=alpha, eta=beta, seed=int(sys.argv[6]))
model.optim_interval = 0
for line in open(corpus):
    document = [word for entry in line.split() for word in [entry.split(":")[0]] * int(entry.split(":")[1])]
    if document:
        model.add_doc(document)
model.train(int(iterations), workers=2)
by_word = numpy.zeros((int(topics), int(sys.argv[7])))
by_word[:, [int(word) for word in model.used_vocabs]] = numpy.array([model.get_topic_word_dist(k) for k in range(int(topics))])
p, told, tokens = by_word, 0.0, 0
for line in open(sys.argv[8]):
    every = [int(word) for entry in line.split() for word in [entry.split(":")[0]] * int(entry.split(":")[1])]
    q, shares = p[:, every[::2]], numpy.full(int(topics), 1 / topics)
    for _ in range(200):
        mixed = shares[:, None] * q
        shares = (alpha + (mixed / mixed.sum(0)).sum(1)) / (topics * alpha + len(every[::2]))
    told += numpy.log(shares @ p[:, every[1::2]]).sum()
    tokens += len(every[1::2])
print(told / tokens)
"""


class Peers(KerfTest):
    """shared/data/programs/generate.py corpus beside tomotopy, at the same priors and iterations."""

    def test_held_out_documents_are_told_as_well(self):
        script = shared_data("programs")
        if script is None:
            self.skipTest("there is no shared/data/programs above the sources, and KERF_DATA names none")
        run_peer(script / "generate.py", "corpus", self.folder)
        lines = (self.folder / "corpus.txt").read_text().splitlines(True)
        (self.folder / "train.txt").write_text("".join(lines[:2000]))
        known = {entry.split(":")[0] for line in lines[:2000] for entry in line.split()}  # the peer knows no other words
        (self.folder / "test.txt").write_text("".join(" ".join(e for e in line.split() if e.split(":")[0] in known) + "\n" for line in lines[2000:2300]))
        ours, theirs = [], []
        for seed in (1, 2, 3):
            answer = run("lda", "--corpus", self.folder / "train.txt", "--test", self.folder / "test.txt", "--vocabulary", self.vocabulary(), "--topics", 50,
                         "--alpha", 0.1, "--beta", 0.01, "--iterations", 100, "--seed", seed, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            ours.append(json.loads(answer.stdout)["held_out_log_likelihood_per_token"])
            theirs.append(float(run_peer("-c", PEER, self.folder / "train.txt", 50, 0.1, 0.01, 100, seed, 10_000, self.folder / "test.txt")))
        self.assertAlmostEqual(sum(ours) / 3, sum(theirs) / 3, delta=0.005 * -sum(theirs) / 3)

    def vocabulary(self):
        (self.folder / "words.txt").write_text("".join(f"w{i}\n" for i in range(10_000)))
        return self.folder / "words.txt"


def missing():
    """Why there is no peer; empty if there is one."""
    if not PYTHON:
        return "there is no python3 in PATH; KERF_PEER_PYTHON names one"
    try:
        run_peer("-c", "import numpy, tomotopy")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return f"{PYTHON} has no tomotopy ({str(error).splitlines()[-1]}); KERF_PEER_PYTHON names one that has"
    return ""


if __name__ == "__main__":
    if sys.argv[1:] == ["peers"]:
        sys.argv[1:] = ["Peers"]
        if why := missing():
            print(why)
            sys.exit(77)
    else:
        sys.argv[1:] = sys.argv[1:] or ["Topics"]
    unittest.main()
