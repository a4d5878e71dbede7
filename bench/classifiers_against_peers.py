#!/usr/bin/env python3
"""Linear classifiers beside liblinear in the same run, to the relative gap that it came to, after loading.

    shared/data/programs/generate.py classes FOLDER              or lasso-large, whose labels are the signs of y, with --threads 2
    bench/classifiers_against_peers.py --data FOLDER --python PYTHON [--kerf build/release/bin/kerf] [--threads 1] [--rounds 5]

PYTHON has scipy, scikit-learn (to read the file) and liblinear-multicore, which with one thread is liblinear. For each loss all of its
solvers are tried, each with the loosest tolerance, by powers of ten, that comes to --gap; the fastest is the peer. The gap of its weights w
is (P(w) - P*) / P(w), with P* of a run of Kerf to 1e-9; Kerf goes by its own duality gap, which is no smaller, over two workers of one
thread. C is 1. Medians of the rounds, which take turns.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

LOSSES = {"logistic": ["logistic"], "hinge": ["svm", "--loss", "hinge"], "squared-hinge": ["svm", "--loss", "squared-hinge"]}

PEER = r"""
import ctypes, json, os, sys, time
import numpy
from liblinear.liblinear import liblinear, parameter, problem, toPyModel

folder, out, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
if os.path.exists(folder + "/x.npz"):
    import scipy.sparse
    z = numpy.load(folder + "/x.npz")
    x = scipy.sparse.csc_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"])).tocsr()
    y = numpy.where(numpy.load(folder + "/y.npy") > 0, 1.0, -1.0)
    numpy.save(out + "/labels.npy", y)
else:
    from sklearn.datasets import load_svmlight_file
    x, y = load_svmlight_file(folder + "/train.libsvm")
given = problem(y, x)
LOSS = {"logistic": lambda m: numpy.logaddexp(0, -m), "hinge": lambda m: numpy.maximum(0, 1 - m),
        "squared-hinge": lambda m: numpy.maximum(0, 1 - m) ** 2}
SOLVERS = {"logistic": ((0, "primal"), (7, "dual")), "hinge": ((3, "dual"),), "squared-hinge": ((1, "dual"), (2, "primal"))}

def fit(loss, solver, tolerance, optimum):
    options = parameter(f"-s {solver} -c 1 -e {tolerance} -q" + (f" -m {threads}" if threads > 1 and solver != 7 else ""))
    begin = time.perf_counter()
    model = liblinear.train(given, options)
    seconds = time.perf_counter() - begin
    sign = 1 if model.contents.label[0] == 1 else -1
    w = sign * numpy.ctypeslib.as_array(model.contents.w, (x.shape[1],)).copy()
    liblinear.free_and_destroy_model(ctypes.byref(model))
    primal = w @ w / 2 + LOSS[loss](y * (x @ w)).sum()
    return seconds, (primal - optimum) / primal

def loosest(loss, solver, gap, optimum):
    for power in range(0, 10):
        seconds, found = fit(loss, solver, 10.0**-power, optimum)
        if found <= gap:
            return seconds, solver, 10.0**-power
    return None

print("{}", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "gap" in asked:
        ways = [(*way, name) for solver, name in SOLVERS[asked["loss"]] if (way := loosest(asked["loss"], solver, asked["gap"], asked["optimum"]))]
        if not ways:
            sys.exit(f"liblinear does not come to a gap of {asked['gap']}")
        seconds, solver, tolerance, name = min(ways)
        print(json.dumps({"solver": solver, "tolerance": tolerance, "name": name}), flush=True)
    else:
        seconds, found = fit(asked["loss"], asked["solver"], asked["tolerance"], asked["optimum"])
        print(json.dumps({"seconds": seconds, "gap": found}), flush=True)
"""


def kerf(options, labels, loss, tolerance):
    matrix = f"{options.data}/x.npz"
    data = ["--data", matrix, "--labels", labels] if os.path.exists(matrix) else ["--data", f"{options.data}/train.libsvm"]
    command = [options.kerf, *LOSSES[loss], *data, "--tol", str(tolerance), "--workers", str(options.workers), "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)


def ask(peer, **what):
    peer.stdin.write(json.dumps(what) + "\n")
    peer.stdin.flush()
    return json.loads(peer.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default="build/release/bin/kerf")
    parser.add_argument("--python", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--gap", type=float, default=1e-5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--losses", default=",".join(LOSSES))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    with tempfile.TemporaryDirectory() as folder:
        command = [options.python, "-c", PEER, options.data, folder, str(options.threads)]
        labels = f"{folder}/labels.npy"
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as peer:
            peer.stdout.readline()  # it has loaded
            print("| loss | liblinear | its gap | its time | Kerf to that gap | ratio |\n|---|---|---|---|---|---|")
            for loss in options.losses.split(","):
                optimum = kerf(options, labels, loss, 1e-9)["objective"]
                best = ask(peer, loss=loss, gap=options.gap, optimum=optimum)
                theirs, ours = [], []
                for _ in range(options.rounds):
                    theirs.append(ask(peer, loss=loss, solver=best["solver"], tolerance=best["tolerance"], optimum=optimum))
                    ours.append(kerf(options, labels, loss, theirs[0]["gap"])["seconds"])
                time, own = statistics.median(each["seconds"] for each in theirs), statistics.median(ours)
                print(f"| {loss} | {best['name']} (-s {best['solver']} -e {best['tolerance']:g}) | {theirs[0]['gap']:.1e} | {time:.3f} s"
                      f" | {own:.3f} s | {own / time:.2f} |", flush=True)
            peer.stdin.close()


main()
