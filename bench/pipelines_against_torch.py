"""Pipelines of two workers beside PyTorch's: an MLP of 8 layers, one thread a worker, the same micro-batches and stages.

    pipelines_against_torch.py [--kerf build/release/bin/kerf] [--python PYTHON] [--rounds 3] [--steps 7] [--width 1024]
                               [--batch 512] [--micro-batches 8] [--only NAME] [--json]

PyTorch's are processes over gloo (torch.distributed.pipelining, loopback), Kerf's processes over shared memory; both with SGD
with momentum. Below 1 Kerf is faster. PYTHON has a PyTorch (2.6 or newer).
"""

import argparse
import json
import pathlib
import statistics
import tempfile

from turns import KERF, TORCH_PYTHON, answer, in_turns, ratios_of, told_ratio

PEER = pathlib.Path(__file__).resolve().with_name("peer_torch_pipeline.py")
NAMES = ("gpipe", "1f1b", "interleaved", "zbv")


def step_of_kerf(flags, name):
    sizes = "-".join([str(flags.width)] * 8 + ["10"])
    with tempfile.TemporaryDirectory() as folder:
        command = [flags.kerf, "train", "mlp", "--sizes", sizes, "--data", f"synthetic:{flags.batch}x{flags.width}x10", "--workers", "2",
                   "--threads", "1", "--transport", "shm", "--schedule", name, "--batch", flags.batch, "--micro-batches",
                   flags.micro_batches, "--steps", flags.steps, "--lr", "0.001", "--no-test", "--trace-steps", "0", "--json", "--out",
                   folder]
        return answer(command, "0,1")["median_step_seconds"]


def step_of_torch(flags, name):
    command = [flags.python, PEER, name, flags.width, flags.batch, flags.micro_batches, flags.steps]
    return answer(command, "0,1")["median_step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kerf", default=KERF)
    parser.add_argument("--python", default=TORCH_PYTHON)
    for name, value in (("rounds", 3), ("steps", 7), ("width", 1024), ("batch", 512), ("micro-batches", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    results = {}
    for name in [flags.only] if flags.only else NAMES:
        times = in_turns({"kerf": lambda name=name: step_of_kerf(flags, name), "torch": lambda name=name: step_of_torch(flags, name)},
                         flags.rounds)
        results[name] = {"kerf_seconds": statistics.median(times["kerf"]), "torch_seconds": statistics.median(times["torch"]),
                         **ratios_of(times["kerf"], times["torch"])}
        if not flags.json:
            print(f"{name:12} Kerf {1e3 * results[name]['kerf_seconds']:.1f} ms, PyTorch {1e3 * results[name]['torch_seconds']:.1f}: "
                  f"{told_ratio(results[name])}", flush=True)
    if flags.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
