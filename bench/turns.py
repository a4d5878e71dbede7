"""What measuring against a peer is made of: commands on given cores, sides in turns within each round, medians of ratios."""

import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys

KERF = str(pathlib.Path(__file__).resolve().parent.parent / "build/release/bin/kerf")
# Debian's python3-torch is known to Debian's interpreter only.
TORCH_PYTHON = sys.executable if importlib.util.find_spec("torch") else "/usr/bin/python3"


def blas_core():
    """OpenBLAS takes a processor younger than itself for one of 2004: name the best kernels that this one can run."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return "SkylakeX" if "avx512f" in flags else "Haswell" if "avx2" in flags else None


def threads(count):
    """An environment in which every library computes with so many."""
    environment = {**os.environ, **dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"], str(count))}
    if blas_core():
        environment.setdefault("OPENBLAS_CORETYPE", blas_core())
    return environment


def on_cores(cores, command):
    return ["taskset", "-c", cores, *map(str, command)]


def answer(command, cores="0", computing_threads=1):
    """What the command prints as JSON; its own words end the run where it fails."""
    run = subprocess.run(on_cores(cores, command), env=threads(computing_threads), stdin=subprocess.DEVNULL, capture_output=True,
                         text=True, check=False)
    if run.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{run.stderr}")
    return json.loads(run.stdout)


def in_turns(sides, rounds, beaten=lambda times: set()):
    """By side what each round gave: `sides` are functions without arguments, in an order that turns with the round.

    Those that `beaten` names by the first round's times are not run again.
    """
    order = list(sides)
    times = {name: [] for name in order}
    for turn in range(rounds):
        if turn == 1:
            out = beaten(times)
            order = [name for name in order if name not in out]
        first = turn % len(order)
        for name in order[first:] + order[:first]:
            times[name].append(sides[name]())
    return times


def fastest(times):
    return min(times, key=lambda name: statistics.median(times[name]))


def ratios_of(ours, theirs):
    """Round by round; their median with its quartiles."""
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    return {"ratio": statistics.median(ratios), "quartiles": [quartiles[0], quartiles[2]], "ratios": ratios}


def told_ratio(result):
    low, high = result["quartiles"]
    return f"{result['ratio']:.2f} (quartiles {low:.2f} to {high:.2f})"
