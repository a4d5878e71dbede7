"""One worker with one thread against PyTorch with one thread, in turns within one run: medians of ratios.

    against_torch.py [--kerf build/release/bin/kerf] [--rounds 7] [--only convnet] [--python PYTHON] [--device cuda:0]
                     [--ways eager] [--memory] [--json]

A ratio is Kerf's step time over PyTorch's; below 1 Kerf is faster. Each round runs Kerf and every way that PyTorch has for the
model, in an order that turns with the round; PyTorch's is the way of the least median. --python names an interpreter with
another PyTorch than Debian's (and torchvision, for its networks).

With --device both compute there instead, what Kerf has kernels for; Kerf's step still brings its batch from the host, PyTorch's
lies there.

With --memory it is the most memory that was resident during the steps, less what is at start: of `kerf --version`, and of
PyTorch imported; its way of the least.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

from turns import KERF, TORCH_PYTHON, answer, fastest, in_turns, on_cores, ratios_of, threads, told_ratio

HERE = pathlib.Path(__file__).resolve().parent
ZOO = ["--image-size", "64"]
IMAGE_WAYS = ("eager", "channels-last", "compile")


class Case:
    """`model`: Kerf's; a FILE.onnx is what PyTorch exports of torch_model."""

    def __init__(self, name, model, batch, steps, data, ways=("eager",), torch_model=None, on_gpus=True):
        self.name, self.model, self.batch, self.steps, self.data = name, model, batch, steps, data
        self.ways, self.torch_model, self.on_gpus = ways, torch_model or model, on_gpus


CASES = [
    Case("LeNet-5, batch 256", ["lenet5"], 256, 60, "784x10", IMAGE_WAYS),
    Case("convnet 32-64, batch 64", ["convnet"], 64, 12, "784x10", IMAGE_WAYS),
    Case("convnet 32-64, batch 256", ["convnet"], 256, 5, "784x10", IMAGE_WAYS),
    Case("CNN 32-64-128, batch 256", ["cnn.onnx"], 256, 8, "784x10", IMAGE_WAYS, ["cnn"]),
    Case("MLP 784-4096-4096-10, batch 256", ["mlp", "--sizes", "784-4096-4096-10"], 256, 8, "784x10", ("eager", "compile")),
    Case("ResNet-50 of 64x64, batch 16", ["resnet50", *ZOO], 16, 5, "12288x1000", IMAGE_WAYS, ["resnet50"]),
    Case("VGG-16 of 64x64, batch 16", ["vgg16", *ZOO], 16, 3, "12288x1000", IMAGE_WAYS, ["vgg16"]),
    Case("GPT of 4 layers, 512 features, 128 tokens, batch 8", ["gpt"], 8, 5, None, ("eager", "compile"), on_gpus=False),
]


def kerf_command(kerf, case, folder, device="cpu", batches=4):
    """On data of so many batches."""
    rows = case.batch * batches
    data = f"synthetic:{rows}x{case.data}" if case.data else f"tokens:{rows}x128x96"
    model = case.model
    if model[0].endswith(".onnx"):
        file = os.path.join(folder, model[0])
        subprocess.run([TORCH_PYTHON, str(HERE / "peer_torch.py"), *case.torch_model, "--export", file], check=True,
                       stdout=subprocess.DEVNULL)
        model = [file, "--loss", "cross-entropy"]
    return [kerf, "train", *model, "--data", data, "--workers", "1", "--transport", "inproc", "--threads", "1", "--batch",
            str(case.batch), "--micro-batches", "1", "--steps", str(case.steps), "--lr", "0.001", "--no-test",
            "--trace-steps", "0", "--device", device, "--json", "--out", os.path.join(folder, "run")]


def torch_command(python, case, way, device="cpu"):
    return [python, str(HERE / "peer_torch.py"), *case.torch_model, "--batch", str(case.batch), "--steps", str(case.steps),
            "--mode", way, "--device", device]


def cores_for(device):
    return "0" if device == "cpu" else "0-3"  # what feeds a GPU is no computing


def kerf_step(arguments, case):
    with tempfile.TemporaryDirectory() as folder:
        command = kerf_command(arguments.kerf, case, folder, arguments.device)
        return answer(command, cores_for(arguments.device))["median_step_seconds"]


def torch_step(arguments, case, way):
    report = answer(torch_command(arguments.python, case, way, arguments.device), cores_for(arguments.device))
    return statistics.median(report["step_seconds"]), report["torch"]


def ways_of(arguments, case):
    """Those that this PyTorch has, Debian's compiles nothing, and that are asked for."""
    ways = [way for way in case.ways if way in arguments.ways.split(",")]
    if "compile" in ways:
        version = subprocess.run([arguments.python, "-c", "import torch; print(torch.__version__)"], capture_output=True,
                                 text=True, check=True).stdout
        if version.startswith("1."):
            ways.remove("compile")
    return ways


def measure(case, arguments):
    versions = set()

    def peer(way):
        seconds, version = torch_step(arguments, case, way)
        versions.add(version)
        return seconds

    sides = {"kerf": lambda: kerf_step(arguments, case)}
    sides |= {way: lambda way=way: peer(way) for way in ways_of(arguments, case)}
    times = in_turns(sides, arguments.rounds)
    kerf = times.pop("kerf")
    best = fastest(times)
    return {"torch": versions.pop(), "best_way": best, "kerf_seconds": statistics.median(kerf),
            "torch_seconds": {way: statistics.median(each) for way, each in times.items()}, **ratios_of(kerf, times[best])}


def most_resident(command):
    """In MiB. A process is said to have had what this small one has at least."""
    with open(os.devnull, "wb") as nowhere:
        child = os.posix_spawnp("taskset", on_cores("0", command), threads(1), file_actions=[
            (os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1), (os.POSIX_SPAWN_DUP2, nowhere.fileno(), 2)])
        _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed")
    return usage.ru_maxrss / 1024


def measure_memory(case, arguments):
    with tempfile.TemporaryDirectory() as folder:
        # PyTorch's side has one batch, too.
        command = kerf_command(arguments.kerf, case, folder, batches=1)
        kerf = most_resident(command) - most_resident([arguments.kerf, "--version"])
    torch = {}
    for way in ways_of(arguments, case):
        command = torch_command(arguments.python, case, way)
        torch[way] = most_resident(command) - most_resident(command + ["--start"])
    return {"kerf_mib": kerf, "torch_mib": torch, "ratio": kerf / min(torch.values()),
            "this_process_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def print_memory(case, result):
    ways = ", ".join(f"{way} {mib:.0f}" for way, mib in result["torch_mib"].items())
    print(f"{case.name}: kerf {result['kerf_mib']:.0f} MiB, torch {ways}, ratio {result['ratio']:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kerf", default=KERF)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose name has this, as in convnet")
    parser.add_argument("--python", default=TORCH_PYTHON, help="an interpreter that has PyTorch")
    parser.add_argument("--device", default="cpu", help="cuda:0: where both compute (not with --memory)")
    parser.add_argument("--ways", default=",".join(IMAGE_WAYS), help="of PyTorch's, those to try; default %(default)s")
    parser.add_argument("--memory", action="store_true", help="what is resident at most, instead of times")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    unknown = set(arguments.ways.split(",")) - set(IMAGE_WAYS)
    if unknown:
        parser.error(f"--ways knows {', '.join(IMAGE_WAYS)}, not {', '.join(sorted(unknown))}")
    if arguments.memory and arguments.device != "cpu":
        parser.error("--memory is that of the host: without --device")
    report = {}
    for case in CASES:
        if arguments.only not in case.name or not (case.on_gpus or arguments.device == "cpu"):
            continue
        if not ways_of(arguments, case):
            print(f"{case.name}: PyTorch has none of {arguments.ways}", file=sys.stderr)
            continue
        result = report[case.name] = (measure_memory if arguments.memory else measure)(case, arguments)
        if arguments.json:
            continue
        if arguments.memory:
            print_memory(case, result)
            continue
        peers = ", ".join(f"{way} {seconds * 1e3:.1f} ms" for way, seconds in result["torch_seconds"].items())
        print(f"{case.name}: kerf {result['kerf_seconds'] * 1e3:.1f} ms, torch {result['torch']} {peers}, "
              f"ratio {told_ratio(result)}", flush=True)
    if arguments.json:
        print(json.dumps(report, indent=2))


main()
