"""docs/strategies.md: what every strategy makes of well-known networks, from `kerf plan --json`.

    strategies_page.py --write docs/strategies.md                the whole page; minutes
    strategies_page.py --write docs/strategies.md bvlc-alexnet   these networks' tables, others as they stand
    strategies_page.py --check docs/strategies.md bvlc-alexnet   these networks' rows are what kerf says now
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

from kerf_command import KERF

# Name in `kerf models`, what the literature calls it, and, of chains, how many layers have weights.
NETWORKS = {
    "bvlc-alexnet": ("AlexNet (two towers as groups, with LRN)", 8),
    "inception-v1": ("GoogLeNet", None),
    "inception-v3": ("Inception-v3, 299 x 299 pixels", None),
    "vgg16": ("VGG-16", 16),
    "vgg19": ("VGG-19", 19),
    "resnet50": ("ResNet-50", None),
    "resnet101": ("ResNet-101", None),
}
CUTS = ("layer", "feature", "batch", "hybrid", "free", "auto")
WORKERS = (1, 2, 4, 8)
BATCH = 32
MICRO_BATCHES = 4
HYBRID_STAGES = 2  # as `kerf plan --cut hybrid` has them where nobody says
MEMORY = "12G"
BYTES_PER_WEIGHT = 4

HEADER = ("workers", "cut", "weights", "peak memory", "step", "messages", "survey", "bytes", "batch in 12 GiB")

OF_THE_MACHINE = ("peak memory", "batch in 12 GiB")

TOP = f"""# What each strategy makes of a network

Made by `tests/apps/strategies_page.py --write docs/strategies.md`, which asks `kerf plan NETWORK --cut CUT --workers N --json`;
nothing here was run. A test compares AlexNet's rows with what Kerf says now.

A training step of {BATCH} images in {MICRO_BATCHES} micro-batches, 1F1B, SGD with momentum, at the speeds that `kerf plan` takes for devices
that it does not know. *Weights* and *peak memory* are those of the fullest worker; *step* is the predicted time of
a step, *messages* and *bytes* are all that workers send each other in one.

The strategies and two of the questions are those of a survey: Park, Ahn, Lim, Choi, Woo and Choi, "Deep Learning Model
Parallelism", Electronics and Telecommunications Trends 33(4), ETRI 2018, pages 1 to 13.

- Its table 1 takes six such networks, Caffe and a Titan X, and asks which batch fills the 12 GB of that GPU. *Batch in 12 GiB*
  is Kerf's answer: the most images of a step, still in {MICRO_BATCHES} micro-batches, with which no worker needs more than 12 GiB
  (`--fit-batch --memory {MEMORY}`); of `auto` it is that of the best of the other cuts, all of which it tries.
  *Free* is Kerf's own, here by space: rows where images are large, samples where they are small, features where there are none.
- Its section II.2 counts messages of one mini-batch: `(L-1)*2` of L groups of layers, `(L-1)*F*(F-1)*2` of L layers divided by
  features over F workers, `(L-1)*F*F*2` of L groups over F workers each. *Survey* is that times {MICRO_BATCHES} micro-batches: with the
  workers for L, with the layers that have weights for L where these are a chain, and with {HYBRID_STAGES} groups. Kerf counts more where
  several tensors cross a boundary (skips, branches) or one that weights do not need (classes that the loss wants whole), fewer
  where what follows needs only what is there already (or takes partial sums, unless `--pairs off`), and adds, once a step, the loss and the norm of gradients of all workers;
  within a hybrid's group it counts what the survey leaves out.

Its table 2 lays five frameworks side by side. As its text describes them, and Kerf beside them (its text says nothing where there
is a dash):

| | DistBelief | MXNet | Petuum | SINGA | TensorFlow | Kerf |
| --- | --- | --- | --- | --- | --- | --- |
| a model is | layers of C++, put together in a script; no recurrence | a graph of symbols, and imperative code | a program of `schedule`, `update`, `aggregate` | layers, each naming those that it reads | a graph of operations with state and control flow | a graph of ONNX operators (recurrence and tied weights too), or such a program |
| it is divided | anywhere between neurons | by layer | anywhere | by layer; within a layer by batch or feature; both | anywhere between operations, by a device for each | by layer, feature, batch, both (hybrid), any index set (free), or as is predicted to be fastest (auto) |
| when | before it runs | before it runs; independent operations side by side by themselves | before or while it runs | before it runs | before it runs | before it runs, by a plan that can be read, changed and checked; programs while they run |
| at a boundary | messages | intermediate results | parameters through the scheduler | bridges, slices, concats | sends and receives | bridges, slices, concats, sums: counted beforehand |
| over | messages, threads | - | an asynchronous store of keys and values | MPI or ZeroMQ | TCP or RDMA; copies within a machine | shared memory, ipc, tcp, CUDA |
| pipelined | - | layer by layer of a sequence | - | - | - | micro-batches, by a schedule that is proved beforehand |

The survey prints the figures of its table 1 as a picture only, so that they are not repeated here. The tables below have its
columns (weights, time, memory, and the batch that memory allows) for every strategy, and what the strategies send.
"""


def ask(*arguments):
    """The plan, or nothing where there is none that fits; a strategy that fails otherwise fails the page."""
    answer = subprocess.run([KERF, "plan", *map(str, arguments), "--json"], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, check=False)
    if answer.returncode == 2 and "no plan fits" in answer.stderr:
        return None
    if answer.returncode != 0:
        raise RuntimeError(f"kerf plan {arguments}: {answer.stderr}")
    return json.loads(answer.stdout)


def mebibytes(count):
    return f"{count / 2**20:,.0f} MiB" if count >= 10 * 2**20 else f"{count / 2**20:.2g} MiB" if count else "0"


def survey_messages(network, workers, cut):
    """What the survey's formulas say of a step."""
    layers = NETWORKS[network][1]
    group = workers // HYBRID_STAGES
    count = {"layer": (workers - 1) * 2,
             "feature": layers and (layers - 1) * workers * (workers - 1) * 2,
             "hybrid": (HYBRID_STAGES - 1) * group * group * 2}.get(cut)
    return "-" if count is None or workers == 1 else f"{count * MICRO_BATCHES:,}"


def largest_batch(asked):
    plan = ask(*asked, "--fit-batch", "--memory", MEMORY)
    return plan["batch"] if plan else 0


def row(network, workers, cut):
    """The cells but the last, and its number."""
    asked = (network, "--cut", cut, "--workers", workers, "--micro-batches", MICRO_BATCHES)
    plan = ask(*asked, "--batch", BATCH)
    sent = plan["workers"]
    cells = (str(workers), "none" if workers == 1 else cut, mebibytes(max(each["weight_bytes"] for each in sent)),
             mebibytes(max(plan["proved_bytes"])), f"{plan['step_seconds']:.3g} s",
             f"{sum(each['messages'] for each in sent):,}", survey_messages(network, workers, cut),
             mebibytes(sum(each["bytes_out"] for each in sent)))
    return cells, 0 if cut == "auto" else largest_batch(asked)


def rows_of(networks):
    """network -> lines of its table, as many at once as there are cores."""
    asked = [(network, workers, cut) for network in networks for workers in WORKERS
             for cut in (CUTS if workers > 1 else ("layer",))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as several:
        answers = dict(zip(asked, several.map(lambda each: row(*each), asked)))
    lines = {network: [] for network in networks}
    for (network, workers, cut), (cells, batch) in answers.items():
        if cut == "auto":
            batch = max(answers[network, workers, other][1] for other in CUTS)
        lines[network].append(line((*cells, f"{batch:,}" if batch else "none")))
    return lines


def line(cells):
    return "| " + " | ".join(cells) + " |"


def title(network):
    return f"## {NETWORKS[network][0]}: `{network}`"


def table_of(text, network):
    """What stands under a network's title."""
    return text.partition(title(network) + "\n")[2].split("\n## ")[0].strip()


def words_on(network):
    """What stands between a network's title and its table."""
    plan = ask(network, "--cut", "layer", "--workers", 1, "--batch", 1, "--micro-batches", 1)
    return (f"{plan['workers'][0]['weight_bytes'] // BYTES_PER_WEIGHT:,} weights; {plan['workers'][0]['forward_flops'] / 1e9:.2f} GFLOP "
            "forward for each image.")


def page(text, networks):
    """The page with these networks' tables made anew."""
    tables = {network: table_of(text, network) for network in NETWORKS}
    for network, lines in rows_of(networks).items():
        tables[network] = "\n".join([words_on(network), "", line(HEADER), line(("---:", "---", *["---:"] * (len(HEADER) - 2))), *lines])
    return TOP + "".join(f"\n{title(network)}\n\n{table}\n" for network, table in tables.items() if table)


def number(cell):
    """7 of "7 MiB", or nothing."""
    digits = cell.split(" ")[0].replace(",", "")
    return float(digits) if digits.replace(".", "", 1).isdigit() else None


def alike(one, other):
    """Whether two rows say the same: what kernels take for themselves is the machine's to say, and with it peaks and batches."""
    for column, ours, theirs in zip(HEADER, one, other):
        if ours == theirs:
            continue
        a, b = number(ours), number(theirs)
        if column not in OF_THE_MACHINE or a is None or b is None or abs(a - b) > 0.1 * max(a, b):
            return False
    return len(one) == len(other)


def cells_of(text):
    return [cell.strip() for cell in text.strip("|").split("|")]


def differing(text, networks):
    """Rows that the page should have of these networks, and has not."""
    for network, lines in rows_of(networks).items():
        words, _, _, _, *there = (table_of(text, network) or "\n" * 4).splitlines()
        if words != words_on(network):
            yield f"{network}: the page says\n  {words}\nand kerf\n  {words_on(network)}"
        if len(there) != len(lines):
            yield f"{network}: the page has {len(there)} rows, not {len(lines)}"
        yield from (f"{network}: the page says\n  {says}\nand kerf\n  {wanted}" for says, wanted in zip(there, lines)
                    if not alike(cells_of(says), cells_of(wanted)))


def main(what, path, *networks):
    file = pathlib.Path(path)
    if what == "--write":
        file.write_text(page(file.read_text() if file.exists() else "", networks or tuple(NETWORKS)))
        return 0
    text = file.read_text()
    faults = list(differing(text, networks or tuple(NETWORKS)))
    if not text.startswith(TOP):
        faults.append("its first paragraphs are not those of strategies_page.py")
    print("\n".join(faults))
    print(f"{path}: {len(faults)} faults; strategies_page.py --write makes the page anew")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
