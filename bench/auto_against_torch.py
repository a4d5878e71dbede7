"""Two workers on two cores, with the automatic cut's own plan, against PyTorch on the same two cores: medians of ratios.

    auto_against_torch.py [--kerf build/release/bin/kerf] [--rounds 7] [--only GPT] [--python PYTHON] [--small] [--json]

A ratio is Kerf's step time over the other's of the same round; below 1 the automatic plan is faster. The others are PyTorch's
ways (two threads, DistributedDataParallel over gloo, a pipeline written by hand; channels last and compiled where that PyTorch
has it), of which the one of the least median counts, and Kerf's own other cuts, likewise: the planner is honest if its plan is
hardly slower than the fastest of these. All run in turn within each round, in an order that turns with the round. --python
names an interpreter with another PyTorch than Debian's. --small is for seeing that it works.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from turns import KERF, TORCH_PYTHON, answer, fastest, in_turns, ratios_of, told_ratio

HERE = pathlib.Path(__file__).resolve().parent
CORES = "0,1"
OTHER_CUTS = ("layer", "feature", "batch")
WAYS = ("threads", "ddp", "pipeline")


class Case:
    def __init__(self, name, model, torch_model, batch, steps, data, image=False):
        self.name, self.model, self.torch_model = name, model, torch_model
        self.batch, self.steps, self.data, self.image = batch, steps, data, image


CASES = [
    Case("GPT of 4 layers, 512 features, 128 tokens, batch 16", ["gpt"], ["gpt"], 16, 5, "tokens:64x128x96"),
    Case("ResNet-50 of 64x64, batch 32", ["resnet50", "--image-size", "64"], ["resnet50"], 32, 4, "synthetic:64x12288x1000",
         True),
    Case("MLP 784-4096-4096-10, batch 1024", ["mlp", "--sizes", "784-4096-4096-10"], ["mlp"], 1024, 6,
         "synthetic:2048x784x10"),
]
SMALL = [
    Case("GPT, small", ["gpt", "--sizes", "2-32-2-128-96"], ["gpt", "--sizes", "2-32-2-128-96"], 8, 2, "tokens:16x128x96"),
    Case("MLP, small", ["mlp", "--sizes", "784-64-64-10"], ["mlp", "--sizes", "784-64-64-10"], 64, 3, "synthetic:128x784x10"),
]


def kerf_step(arguments, case, cut):
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.kerf, "train", *case.model, "--data", case.data, "--workers", "2", "--cut", cut, "--threads", "1",
                   "--transport", "shm", "--batch", str(case.batch), "--micro-batches", str(arguments.micro_batches),
                   "--steps", str(case.steps + 1), "--lr", "0.001", "--no-test", "--trace-steps", "0", "--json", "--out",
                   folder]
        return answer(command, CORES)["median_step_seconds"]


def torch_step(arguments, case, way, mode):
    command = [arguments.python, str(HERE / "peer_torch_two.py"), *case.torch_model, "--way", way, "--mode", mode, "--batch",
               str(case.batch), "--steps", str(case.steps), "--micro-batches", str(arguments.micro_batches)]
    report = answer(command, CORES, 2 if way == "threads" else 1)
    return statistics.median(report["step_seconds"])


def modes_of(python, case):
    """Those that this PyTorch has for the model: Debian's compiles nothing."""
    version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                             check=True).stdout.strip()
    modes = ["eager"] + (["channels-last"] if case.image else [])
    return version, modes + (["compile"] if int(version.split(".")[0]) > 1 else [])


def sides_of(arguments, case, modes):
    cuts = ("auto", *OTHER_CUTS)
    sides = {f"kerf {cut}": lambda cut=cut: kerf_step(arguments, case, cut) for cut in cuts}
    return sides | {f"torch {way} {mode}": lambda way=way, mode=mode: torch_step(arguments, case, way, mode)
                    for way in WAYS for mode in modes}


def against(times, kind):
    """The fastest of one kind, and the automatic plan's ratios to it."""
    best = fastest({name: each for name, each in times.items() if name.startswith(kind) and name != "kerf auto"})
    return {"best": best, **ratios_of(times["kerf auto"], times[best])}


def measure(arguments, case):
    version, modes = modes_of(arguments.python, case)
    times = in_turns(sides_of(arguments, case, modes), arguments.rounds)
    return {"torch": version, "seconds": {name: statistics.median(each) for name, each in times.items()},
            "against_torch": against(times, "torch"), "against_kerf": against(times, "kerf")}


def told(name, result):
    lines = [f"{name}, PyTorch {result['torch']}"]
    lines += [f"  {side:<28} {seconds * 1e3:9.1f} ms" for side, seconds in result["seconds"].items()]
    for key in ("against_torch", "against_kerf"):
        lines.append(f"  kerf auto / {result[key]['best']}: {told_ratio(result[key])}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kerf", default=KERF)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--only", default="", help="cases whose name has this, as in GPT")
    parser.add_argument("--python", default=TORCH_PYTHON, help="an interpreter that has PyTorch")
    parser.add_argument("--small", action="store_true", help="small models, to see that it works")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = {}
    for case in SMALL if arguments.small else CASES:
        if arguments.only not in case.name:
            continue
        result = report[case.name] = measure(arguments, case)
        if not arguments.json:
            print(told(case.name, result), flush=True)
    if arguments.json:
        print(json.dumps(report, indent=2))


main()
