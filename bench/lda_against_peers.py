#!/usr/bin/env python3
"""Topics beside tomotopy in the same run: seconds of sampling until held-out documents are told by --held-out a token.

    shared/data/programs/generate.py corpus FOLDER
    bench/lda_against_peers.py --data FOLDER --python PYTHON [--kerf build/release/bin/kerf] [--rounds 5]

PYTHON has numpy and tomotopy, which samples with two threads; Kerf runs over two workers of one thread. Both have the same alpha and beta, which stay, and as few
iterations, by tens, as come there; documents are the corpus but for its last 500, which are held out and told by document completion (docs/programs.md), words that are in no
other document left out. Loading is not counted on either side. Medians of the rounds, which take turns. And Kerf alone: nanoseconds a token, by topics and workers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HELD_OUT = 500
PEER = r"""
import json, sys, time, numpy, tomotopy
train, test, topics, alpha, beta, words, goal = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6]), float(sys.argv[7])

def tokens(line):
    return [word for entry in line.split() for word in [entry.split(":")[0]] * int(entry.split(":")[1])]

trained, tested = ([tokens(line) for line in open(file)] for file in (train, test))

def fit(iterations):
    model = tomotopy.LDAModel(k=topics, alpha=alpha, eta=beta, seed=1)
    model.optim_interval = 0
    for document in trained:
        model.add_doc(document)
    model.train(0, workers=2)
    begin = time.perf_counter()
    model.train(iterations, workers=2)
    return model, time.perf_counter() - begin

def held_out(model):
    p = numpy.zeros((topics, words))
    p[:, [int(word) for word in model.used_vocabs]] = numpy.array([model.get_topic_word_dist(k) for k in range(topics)])
    told, count = 0.0, 0
    for every in tested:
        every = [int(word) for word in every]
        q, shares = p[:, every[::2]], numpy.full(topics, 1 / topics)
        for _ in range(200):
            mixed = shares[:, None] * q
            shares = (alpha + (mixed / mixed.sum(0)).sum(1)) / (topics * alpha + len(every[::2]))
        told += numpy.log(shares @ p[:, every[1::2]]).sum()
        count += len(every[1::2])
    return told / count

iterations = 10
while held_out(fit(iterations)[0]) < goal:
    iterations += 10
    if iterations > 1000:
        sys.exit(f"tomotopy does not come to {goal} a token")
print(iterations, flush=True)
for _ in sys.stdin:  # a line asks for a round
    model, seconds = fit(iterations)
    print(json.dumps({"seconds": seconds, "held_out": held_out(model)}), flush=True)
"""


def split(corpus, folder):
    """Two files, and how many words there are."""
    with open(corpus, encoding="ascii") as file:
        lines = file.read().splitlines(True)
    train = lines[:-HELD_OUT]
    known = {entry.split(":")[0] for line in train for entry in line.split()}
    names = [f"{folder}/train.txt", f"{folder}/test.txt"]
    with open(names[0], "w", encoding="ascii") as file:
        file.writelines(train)
    with open(names[1], "w", encoding="ascii") as file:
        file.writelines(" ".join(entry for entry in line.split() if entry.split(":")[0] in known) + "\n" for line in lines[-HELD_OUT:])
    return *names, max(map(int, known)) + 1


def kerf(options, files, iterations, topics=None, workers=2):
    command = [options.kerf, "lda", "--corpus", files[0], "--topics", str(topics or options.topics), "--beta", str(options.beta),
               "--iterations", str(iterations), "--workers", str(workers), "--json"]
    if topics is None:
        command += ["--test", files[1], "--alpha", str(options.alpha)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout)


def beside_peer(options, files, words):
    iterations = 10
    while kerf(options, files, iterations)["held_out_log_likelihood_per_token"] < options.held_out:
        iterations += 10
        if iterations > 1000:
            sys.exit(f"kerf does not come to {options.held_out} a token")
    command = [options.python, "-c", PEER, *files, *map(str, (options.topics, options.alpha, options.beta, words, options.held_out))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        other_iterations = int(peer.stdout.readline())
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(kerf(options, files, iterations))
            peer.stdin.write("\n")
            peer.stdin.flush()
            theirs.append(json.loads(peer.stdout.readline()))
        peer.stdin.close()
    own, other = (statistics.median(each["seconds"] for each in rounds) for rounds in (ours, theirs))
    print("| to a held-out log-likelihood of | Kerf, two workers | tomotopy, two threads | ratio |\n|---|---|---|---|")
    print(f"| {options.held_out:g} a token, {options.topics} topics | {own:.2f} s ({iterations} iterations, {1e3 * own / iterations:.0f} ms each) | "
          f"{other:.2f} s ({other_iterations} iterations, {1e3 * other / other_iterations:.0f} ms each) | {own / other:.2f} |\n")


def alone(options, files):
    print("| topics | workers | ns a token and worker | iterations a second |\n|---|---|---|---|")
    cases = [(topics, workers) for topics in (100, 1000) for workers in (1, 2)]
    found = {case: [] for case in cases}
    for _ in range(options.rounds):
        for topics, workers in cases:
            found[topics, workers].append(kerf(options, files, 50, topics, workers))
    for (topics, workers), rounds in found.items():
        seconds = statistics.median(each["seconds"] for each in rounds)
        print(f"| {topics} | {workers} | {1e9 * seconds * workers / rounds[0]['updates']:.1f} | {50 / seconds:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default="build/release/bin/kerf")
    parser.add_argument("--python", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--beta", type=float, default=0.01)
    parser.add_argument("--held-out", type=float, default=-7.7)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        *files, words = split(f"{options.data}/corpus.txt", folder)
        beside_peer(options, files, words)
        alone(options, files)


main()
