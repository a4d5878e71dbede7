#!/usr/bin/env python3
"""Matrix factorisation beside cmfrec in the same run: seconds after loading until the test RMSE is down at --rmse.

    shared/data/programs/generate.py ratings FOLDER
    bench/mf_against_peers.py --data FOLDER --python PYTHON [--kerf build/release/bin/kerf] [--rounds 5]

PYTHON has scipy and cmfrec, which runs with two threads and as few of its iterations (alternating least squares, by Cholesky or by conjugate
gradients, the better of them) as come there; of the lambdas tried the one that comes there soonest. Kerf runs over two workers of one thread,
by its defaults, after loading, in which ratings are sorted into cells too (cmfrec's fit makes its own form of them within the time); what counts is the end of the first iteration with that test RMSE in its history. Medians of the rounds, which take turns.
"""
import argparse
import json
import os
import statistics
import subprocess

PEER = r"""
import sys, time, json, numpy, scipy.io
from cmfrec import CMF
folder, rmse, rank, rounds = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
train, test = (scipy.io.mmread(f"{folder}/{name}.mtx").tocoo() for name in ("train", "test"))

def fit(way):
    exact, penalty, iterations = way
    model = CMF(k=rank, lambda_=penalty, method="als", use_cg=not exact, niter=iterations, nthreads=2, user_bias=False, item_bias=False,
                use_float=True, verbose=False, finalize_chol=False, precompute_for_predictions=False)
    begin = time.perf_counter()
    model.fit(train)
    seconds = time.perf_counter() - begin
    errors = test.data - model.predict(test.row, test.col)
    return seconds, float(numpy.sqrt((errors * errors).mean()))

def first(exact, penalty):
    for iterations in range(2, 16):
        if fit((exact, penalty, iterations))[1] <= rmse:
            return exact, penalty, iterations

ways = [way for exact in (True, False) for penalty in (0.5, 1, 2) if (way := first(exact, penalty))]
if not ways:
    sys.exit(f"cmfrec does not come to a test RMSE of {rmse}")
best = min(ways, key=lambda way: min(fit(way)[0] for _ in range(2)))
print(json.dumps(dict(zip(("exact", "lambda", "iterations"), best))), flush=True)
for _ in sys.stdin:  # a line asks for a round
    seconds, found = fit(best)
    print(json.dumps({"seconds": seconds, "rmse": found}), flush=True)
"""


def kerf(options):
    command = [options.kerf, "mf", "--ratings", f"{options.data}/train.mtx", "--test", f"{options.data}/test.mtx", "--rank", str(options.rank), "--json"]
    history = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)["history"]
    return next(point for point in history if point["test_rmse"] <= options.rmse)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default="build/release/bin/kerf")
    parser.add_argument("--python", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rmse", type=float, default=0.34)
    parser.add_argument("--rank", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [options.python, "-c", PEER, options.data, str(options.rmse), str(options.rank), str(options.rounds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as peer:
        best = json.loads(peer.stdout.readline())
        theirs, ours = [], []
        for _ in range(options.rounds):
            ours.append(kerf(options))
            peer.stdin.write("\n")
            peer.stdin.flush()
            theirs.append(json.loads(peer.stdout.readline()))
        peer.stdin.close()
    own, other = (statistics.median(each["seconds"] for each in rounds) for rounds in (ours, theirs))
    print("| to a test RMSE of | Kerf, two workers | cmfrec, two threads | ratio |\n|---|---|---|---|")
    print(f"| {options.rmse:g} | {own:.3f} s ({ours[0]['iterations']} iterations) | {other:.3f} s ({best['iterations']} iterations"
          f"{' by Cholesky' if best['exact'] else ' by conjugate gradients'}, lambda {best['lambda']:g}) | {own / other:.2f} |")


main()
