"""One worker with one thread against PyTorch with one thread, in turns within one run: medians of ratios.

    against_torch.py [--kerf build/release/bin/kerf] [--rounds 7] [--only convnet] [--json]

A ratio is Kerf's step time over PyTorch's; below 1 Kerf is faster. Each round runs both, the order swapped every time.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = {
    "LeNet-5, batch 256": (["lenet5"], 256, 60),
    "convnet 32-64, batch 64": (["convnet"], 64, 12),
    "convnet 32-64, batch 64, PyTorch channels last": (["convnet"], 64, 12, ["--channels-last"]),
    "MLP 784-4096-4096-10, batch 256": (["mlp", "--sizes", "784-4096-4096-10"], 256, 8),
}


def blas_core():
    """OpenBLAS takes a processor younger than itself for one of 2004: name the best kernels that this one can run."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return "SkylakeX" if "avx512f" in flags else "Haswell" if "avx2" in flags else None


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
if blas_core():
    ONE_THREAD.setdefault("OPENBLAS_CORETYPE", blas_core())
CORE = ["taskset", "-c", "0"]
# Debian's python3-torch is known to Debian's interpreter only.
TORCH_PYTHON = sys.executable if importlib.util.find_spec("torch") else "/usr/bin/python3"


def answer(command):
    run = subprocess.run(CORE + command, env=ONE_THREAD, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         check=False)
    if run.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{run.stderr}")
    return json.loads(run.stdout)


def kerf_step(kerf, model, batch, steps):
    with tempfile.TemporaryDirectory() as folder:
        report = answer([kerf, "train", *model, "--data", f"synthetic:{batch * 4}x784x10", "--workers", "1",
                         "--transport", "inproc", "--threads", "1", "--batch", str(batch), "--micro-batches", "1",
                         "--steps", str(steps), "--lr", "0.001", "--no-test", "--trace-steps", "0", "--json", "--out",
                         folder])
    return report["median_step_seconds"]


def torch_step(model, batch, steps, more=()):
    report = answer([TORCH_PYTHON, str(HERE / "peer_torch.py"), *model, "--batch", str(batch), "--steps", str(steps), *more])
    return statistics.median(report["step_seconds"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kerf", default=str(HERE.parent / "build/release/bin/kerf"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose name has this, as in convnet")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = {}
    for name, (model, batch, steps, *more) in CASES.items():
        if arguments.only not in name:
            continue
        rounds = []
        for turn in range(arguments.rounds):
            sides = [lambda: kerf_step(arguments.kerf, model, batch, steps), lambda: torch_step(model, batch, steps, *more)]
            first = turn % 2
            times = {first: sides[first]()}
            times[1 - first] = sides[1 - first]()
            rounds.append((times[0], times[1]))
        report[name] = {
            "kerf_seconds": statistics.median(kerf for kerf, _ in rounds),
            "torch_seconds": statistics.median(torch for _, torch in rounds),
            "ratio": statistics.median(kerf / torch for kerf, torch in rounds),
            "ratios": [kerf / torch for kerf, torch in rounds],
        }
    if arguments.json:
        print(json.dumps(report, indent=2))
        return
    for name, result in report.items():
        spread = f"{min(result['ratios']):.2f} to {max(result['ratios']):.2f}"
        print(f"{name}: kerf {result['kerf_seconds'] * 1e3:.1f} ms, torch {result['torch_seconds'] * 1e3:.1f} ms, "
              f"ratio {result['ratio']:.2f} (rounds {spread})")


main()
