#!/usr/bin/env python3
"""The Lasso beside scikit-learn and celer in the same run, to the relative duality gap that the peer came to, after loading.

    shared/data/programs/generate.py lasso FOLDER          or lasso-large, with --lambdas 0.5 --peers scikit-learn
    bench/lasso_against_peers.py --data FOLDER --python PYTHON [--kerf build/release/bin/kerf] [--rounds 3]

PYTHON has scipy and scikit-learn, and celer if that is to be a peer. Each peer runs with one thread and the loosest of its tolerances
that comes to a gap of --gap, judged by the dual solution that its residual makes; Kerf goes by the best of its own checks, over two
workers of one thread. Medians of the rounds, which take turns.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

PEER = r"""
import os, sys, time, json, numpy, scipy.io, scipy.sparse
folder, which, penalty, tolerance = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
if os.path.exists(folder + "/x.npz"):
    z = numpy.load(folder + "/x.npz")
    x, y = scipy.sparse.csc_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"])), numpy.load(folder + "/y.npy")
    fitted = y.astype(x.dtype)
else:
    x, y = scipy.io.mmread(folder + "/x.mtx").tocsc(), scipy.io.mmread(folder + "/y.mtx").ravel()
    fitted = y
if which == "scikit-learn":
    from sklearn.linear_model import Lasso
    model = Lasso(alpha=penalty / len(y), fit_intercept=False, tol=tolerance, max_iter=1000000)
else:
    from celer import Lasso
    model = Lasso(alpha=penalty / len(y), fit_intercept=False, tol=tolerance, max_iter=1000, max_epochs=1000000)
    Lasso(alpha=1.0 / len(y), fit_intercept=False).fit(x[:, :50], y)  # compiled before it is timed
begin = time.perf_counter()
b = model.fit(x, fitted).coef_.astype(float)
seconds = time.perf_counter() - begin
r = y - x @ b
primal = r @ r / 2 + penalty * abs(b).sum()
most = penalty / abs(x.T @ r).max()
scale = numpy.clip(y @ r / (r @ r), -most, most)
print(json.dumps({"seconds": seconds, "gap": (primal - (scale * (y @ r) - scale * scale * (r @ r) / 2)) / primal}))
"""


def peer(options, which, penalty, tolerance):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [options.python, "-c", PEER, options.data, which, str(penalty), str(tolerance)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=environment).stdout)


def tolerance_of(options, which, penalty):
    for power in range(4, 11):
        if peer(options, which, penalty, 10.0**-power)["gap"] <= options.gap:
            return 10.0**-power
    sys.exit(f"{which} does not come to a gap of {options.gap}")


def kerf(options, penalty, gap):
    x, y = ("x.npz", "y.npy") if os.path.exists(f"{options.data}/x.npz") else ("x.mtx", "y.mtx")
    command = [options.kerf, "lasso", "--x", f"{options.data}/{x}", "--y", f"{options.data}/{y}", "--lambda", str(penalty),
               "--tol", str(gap), "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default="build/release/bin/kerf")
    parser.add_argument("--python", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--gap", type=float, default=1.2e-5)
    parser.add_argument("--lambdas", default="0.25,0.05,0.01")
    parser.add_argument("--peers", default="scikit-learn,celer")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| lambda | peer | its gap | its time | Kerf to that gap | ratio |\n|---|---|---|---|---|---|")
    for penalty in map(float, options.lambdas.split(",")):
        for name in options.peers.split(","):
            tolerance = tolerance_of(options, name, penalty)
            theirs = [peer(options, name, penalty, tolerance)]
            gap = theirs[0]["gap"]
            ours = [kerf(options, penalty, gap)]
            for _ in range(options.rounds - 1):
                theirs.append(peer(options, name, penalty, tolerance))
                ours.append(kerf(options, penalty, gap))
            time, own = statistics.median(each["seconds"] for each in theirs), statistics.median(ours)
            print(f"| {penalty:g} | {name} (tol {tolerance:g}) | {gap:.1e} | {time:.3f} s | {own:.3f} s | {own / time:.2f} |", flush=True)


main()
