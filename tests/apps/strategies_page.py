"""docs/strategies.md: what every strategy makes of well-known networks, from `kerf plan --json`.

    strategies_page.py --write docs/strategies.md           the whole page; minutes
    strategies_page.py --check docs/strategies.md alexnet   these networks' rows are what kerf says now
"""

import json
import pathlib
import subprocess
import sys

from kerf_command import KERF

# Name in `kerf models`, and what the literature calls it.
NETWORKS = {
    "bvlc-alexnet": "AlexNet (two towers as groups, with LRN)",
    "inception-v1": "GoogLeNet",
    "inception-v3": "Inception-v3, 299 x 299 pixels",
    "vgg16": "VGG-16",
    "vgg19": "VGG-19",
    "resnet50": "ResNet-50",
    "resnet101": "ResNet-101",
}
CUTS = ("layer", "feature", "batch", "hybrid", "auto")
WORKERS = (1, 2, 4, 8)
STEP = ("--batch", "32", "--micro-batches", "4")
MEMORY = ("--memory", "12G")

HEADER = ("workers", "cut", "weights", "peak memory", "step", "messages", "bytes", "batch in 12 GiB")

TOP = """# What each strategy makes of a network

Made by `tests/apps/strategies_page.py --write`, which asks `kerf plan NETWORK --cut CUT --workers N --json`; nothing here
was run. A test compares these rows with what Kerf says now.

A training step of 32 images in 4 micro-batches, 1F1B, SGD with momentum, at the speeds that `kerf plan` takes for devices
that it does not know. *Weights* and *peak memory* are those of the fullest worker, *step* is the predicted time of
a step, *messages* and *bytes* are all that workers send each other in one. *Batch in 12 GiB* is the most images
of a step, still in 4 micro-batches, with which no worker needs more than 12 GiB (`--fit-batch --memory 12G`): what the survey's
first table asks of a single Titan X.
"""


def ask(*arguments):
    answer = subprocess.run([KERF, "plan", *arguments, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False)
    if answer.returncode == 2:
        return None
    answer.check_returncode()
    return json.loads(answer.stdout)


def mebibytes(count):
    return f"{count / 2**20:,.0f} MiB" if count >= 10 * 2**20 else f"{count / 2**20:.2g} MiB" if count else "0"


def row(network, workers, cut):
    asked = (network, "--cut", cut, "--workers", str(workers), "--micro-batches", "4")
    plan = ask(*asked, "--batch", "32")
    if plan is None:
        return (str(workers), cut, *["cannot"] * 6)
    fullest = ask(*asked, "--fit-batch", *MEMORY)
    sent = plan["workers"]
    return (str(workers), cut, mebibytes(max(each["weight_bytes"] for each in sent)),
            mebibytes(max(each["peak_bytes"] for each in sent)), f"{plan['step_seconds']:.3g} s",
            f"{sum(each['messages'] for each in sent):,}", mebibytes(sum(each["bytes_out"] for each in sent)),
            "none" if fullest is None else f"{fullest['batch']:,}")


def rows_of(network):
    one = row(network, 1, "layer")
    yield (one[0], "none", *one[2:])
    for workers in WORKERS[1:]:
        for cut in CUTS:
            yield row(network, workers, cut)


def line(cells):
    return "| " + " | ".join(cells) + " |"


def section(network):
    lines = [f"## {NETWORKS[network]}: `{network}`", "", line(HEADER), line(["---:", "---"] + ["---:"] * 6)]
    return lines + [line(cells) for cells in rows_of(network)]


def page():
    return TOP + "\n" + "\n\n".join("\n".join(section(network)) for network in NETWORKS) + "\n"


def differing(text, networks):
    """Lines that the page should have of these networks, and has not."""
    for network in networks:
        begin = text.find(f": `{network}`\n")
        rest = text[begin:] if begin >= 0 else ""
        there = rest.split("\n## ")[0].splitlines()
        yield from (f"{network}: {wanted}" for wanted in section(network)[2:] if wanted not in there)


def main(what, path, *networks):
    file = pathlib.Path(path)
    if what == "--write":
        file.write_text(page())
        return 0
    faults = list(differing(file.read_text(), networks or NETWORKS))
    print("\n".join(faults))
    print(f"{len(faults)} rows of {path} are not what kerf says; strategies_page.py --write makes the page anew")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
