"""Two workers on two cores, with the automatic cut's own plan, against PyTorch on the same two cores: medians of ratios.

    auto_against_torch.py [--kerf build/release/bin/kerf] [--rounds 7] [--only GPT] [--micro-batches 1 4] [--small] [--json]

A ratio is Kerf's step time over the other's of the same round; below 1 the automatic plan is faster. The others are PyTorch's
ways (two threads, DistributedDataParallel over gloo, a pipeline written by hand; channels last and compiled where that PyTorch
has it), of which the one of the least median counts, and Kerf's own other cuts, likewise: the planner is honest if its plan is
hardly slower than the fastest of these. Kerf's cuts are tried with several numbers of micro-batches, as PyTorch's threads and
DistributedDataParallel take the batch as a whole. All run in turn within each round, in an order that turns with the round; what
takes 1.2 times the fastest of its side in the first round is not run again. --python names an interpreter with another PyTorch
than Debian's. --small is for seeing that it works.
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
BEATEN = 1.2  # times the fastest of its side


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


def kerf_step(arguments, case, cut, micro_batches):
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.kerf, "train", *case.model, "--data", case.data, "--workers", "2", "--cut", cut, "--threads", "1",
                   "--transport", "shm", "--batch", str(case.batch), "--micro-batches", str(micro_batches),
                   "--steps", str(case.steps + 1), "--lr", "0.001", "--no-test", "--trace-steps", "0", "--json", "--out",
                   folder]
        return answer(command, CORES)["median_step_seconds"]


def torch_step(arguments, case, way, mode):
    command = [arguments.python, str(HERE / "peer_torch_two.py"), *case.torch_model, "--way", way, "--mode", mode, "--batch",
               str(case.batch), "--steps", str(case.steps), "--micro-batches", str(max(arguments.micro_batches))]
    report = answer(command, CORES, 2 if way == "threads" else 1)
    return statistics.median(report["step_seconds"])


def modes_of(python, case):
    """Those that this PyTorch has for the model: Debian's compiles nothing."""
    version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                             check=True).stdout.strip()
    modes = ["eager"] + (["channels-last"] if case.image else [])
    return version, modes + (["compile"] if int(version.split(".")[0]) > 1 else [])


def sides_of(arguments, case, modes):
    sides = {f"kerf {cut} in {m}": lambda cut=cut, m=m: kerf_step(arguments, case, cut, m)
             for cut in ("auto", *OTHER_CUTS) for m in arguments.micro_batches}
    return sides | {f"torch {way} {mode}": lambda way=way, mode=mode: torch_step(arguments, case, way, mode)
                    for way in WAYS for mode in modes}


def sides_by_kind(times):
    """The automatic cut's, Kerf's other cuts', PyTorch's."""
    kinds = {"auto": {}, "kerf": {}, "torch": {}}
    for name, each in times.items():
        kinds["auto" if name.startswith("kerf auto") else name.split()[0]][name] = each
    return kinds


def beaten(times):
    """What the first round shows to be far from the fastest of its kind."""
    return {name for side in sides_by_kind(times).values() for name, each in side.items()
            if each[0] > BEATEN * min(side.values())[0]}


def against(times, kind):
    """The fastest of one kind, and the ratios of the automatic plan's fastest run to it."""
    went_on = {name: each for name, each in times.items() if name not in beaten(times)}
    kinds = sides_by_kind(went_on)
    auto, best = fastest(kinds["auto"]), fastest(kinds[kind])
    return {"auto": auto, "best": best, **ratios_of(times[auto], times[best])}


def measure(arguments, case):
    version, modes = modes_of(arguments.python, case)
    times = in_turns(sides_of(arguments, case, modes), arguments.rounds, beaten)
    return {"torch": version, "seconds": {name: statistics.median(each) for name, each in times.items()},
            "against_torch": against(times, "torch"), "against_kerf": against(times, "kerf")}


def told(name, result):
    lines = [f"{name}, PyTorch {result['torch']}"]
    lines += [f"  {side:<28} {seconds * 1e3:9.1f} ms" for side, seconds in result["seconds"].items()]
    for key in ("against_torch", "against_kerf"):
        lines.append(f"  {result[key]['auto']} / {result[key]['best']}: {told_ratio(result[key])}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kerf", default=KERF)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[1, 4])
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
