"""Layer cuts beside a dynamic programme over six topological orders, both of a graph whose work is counted here, from the file alone.

    VENV/bin/python bench/plan_orders.py build/release/bin/kerf [MODEL.onnx ...] [--workers 4 8] [--bias 1] [--json]

The Python needs `pip install onnx`. Without models, the nine light models of the onnx package. Nodes are those of the file, none joined as an
import does, and FLOPs of the forward pass of 32 images: 2 per multiply-add, `--bias` per output that has one, k x k per output of a pool (a
global one: all that it is the mean of), 1 per element of Relu, Dropout, Mul and Add and of each further input of Sum, 4 of a batch norm and of a
softmax, 15 of LRN; Concat, Reshape and the like cost nothing. The programme finds the least bottleneck of segments of an order, each of a node or
more, then the fewest bytes of distinct (tensor, stage) that keep it; the best of six orders counts. Kerf plans the same graph (`--format costs`),
with as much slack as the programme's bottleneck leaves it. Exit code 1 if its bottleneck, or then its bytes, are above the programme's.
"""

import argparse
import glob
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import onnx
from onnx import helper, shape_inference

BATCH = 32
BYTES = 4  # of an element
PER_ELEMENT = {"Relu": 1, "Dropout": 1, "Mul": 1, "Add": 1, "BatchNormalization": 4, "Softmax": 4, "LRN": 15}
NOTHING = {"Concat", "Reshape", "Flatten", "Transpose", "Unsqueeze", "Squeeze", "Identity"}
NEVER = math.inf
ROUNDING = 1 + 1e-12


class File:
    def __init__(self, path):
        graph = shape_inference.infer_shapes(onnx.load(path)).graph
        values = [*graph.value_info, *graph.input, *graph.output]
        self.shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
        self.shapes |= {each.name: list(each.dims) for each in graph.initializer}
        fixed = {each.name for each in graph.initializer}
        self.nodes = []
        for node in graph.node:
            if all(name in fixed for name in node.input if name):
                fixed.update(node.output)
            else:
                self.nodes.append(node)

    def elements(self, name):
        return BATCH * math.prod(self.shapes[name][1:])

    def work(self, node, bias):
        outputs = self.elements(node.output[0])
        said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type in NOTHING:
            return 0
        if node.op_type in PER_ELEMENT:
            return outputs * PER_ELEMENT[node.op_type]
        if node.op_type == "Sum":
            return outputs * (len(node.input) - 1)
        if node.op_type == "GlobalAveragePool":
            return outputs * math.prod(self.shapes[node.input[0]][2:])
        if node.op_type in ("MaxPool", "AveragePool"):
            return outputs * math.prod(said["kernel_shape"])
        if node.op_type not in ("Conv", "Gemm"):
            sys.exit(f"{node.op_type}: its work is not known here")
        weights = self.shapes[node.input[1]]
        if node.op_type == "Conv":
            products = math.prod(weights[1:])
        else:
            products = weights[1] if said.get("transB") else weights[0]
        return outputs * (2 * products + (bias if len(node.input) > 2 else 0))

    def costs(self, bias):
        made = {}
        nodes = []
        for index, node in enumerate(self.nodes):
            nodes.append({"name": f"n{index}", "forward": [float(self.work(node, bias))], "backward": [0.0]})
            for name in dict.fromkeys(node.input):
                if name in made:
                    made[name]["readers"].append(index)
            size = float(self.elements(node.output[0]) * BYTES)
            made[node.output[0]] = {"producer": index, "readers": [], "bytes": size, "forward_bytes": size}
        return {"name": "counted", "unit": "FLOP", "nodes": nodes, "values": [v for v in made.values() if v["readers"]], "held": [], "close": []}


def six_orders(costs):
    """Ready nodes are taken first come first served, last come first served, or by their work; from the inputs on, or from the outputs back."""
    count = len(costs["nodes"])
    after = [set() for _ in range(count)]
    for value in costs["values"]:
        after[value["producer"]].update(value["readers"])
    before = [set() for _ in range(count)]
    for node, readers in enumerate(after):
        for reader in readers:
            before[reader].add(node)
    work = [node["forward"][0] for node in costs["nodes"]]
    picks = (lambda ready: 0, lambda ready: len(ready) - 1, lambda ready: max(range(len(ready)), key=lambda i: work[ready[i]]))
    for backwards in (False, True):
        needs, frees = (after, before) if backwards else (before, after)
        for pick in picks:
            left = [len(each) for each in needs]
            ready = [node for node in range(count) if left[node] == 0]
            order = []
            while ready:
                node = ready.pop(pick(ready))
                order.append(node)
                for other in sorted(frees[node]):
                    left[other] -= 1
                    if left[other] == 0:
                        ready.append(other)
            yield order[::-1] if backwards else order


def best_of_order(costs, order, stages):
    """(bottleneck, bytes) of the segments of one order."""
    count = len(order)
    place = {node: position for position, node in enumerate(order)}
    before = [0.0]
    for node in order:
        before.append(before[-1] + costs["nodes"][node]["forward"][0])
    # The distinct bytes that [begin, end) reads of what stands before it.
    enters = [[0.0] * (count + 1) for _ in range(count)]
    read = [[] for _ in range(count)]
    for value in costs["values"]:
        for reader in value["readers"]:
            read[place[reader]].append((place[value["producer"]], value))
    for begin in range(count):
        known = set()
        for end in range(begin, count):
            more = 0.0
            for producer, value in read[end]:
                if producer < begin and id(value) not in known:
                    known.add(id(value))
                    more += value["forward_bytes"]
            enters[begin][end + 1] = enters[begin][end] + more

    def least(join, cost, most):
        best = [0.0] + [NEVER] * count
        for _ in range(stages):
            following = [NEVER] * (count + 1)
            for end in range(1, count + 1):
                for begin in range(end):
                    if best[begin] < NEVER and before[end] - before[begin] <= most:
                        following[end] = min(following[end], join(best[begin], cost(begin, end)))
            best = following
        return best[count]

    bottleneck = least(max, lambda begin, end: before[end] - before[begin], NEVER)
    return bottleneck, least(lambda a, b: a + b, lambda begin, end: enters[begin][end], bottleneck * ROUNDING)


def kerf_plan(kerf, costs, stages, slack):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "costs.json"
        file.write_text(json.dumps(costs))
        asked = [kerf, "plan", str(file), "--format", "costs", "--cut", "layer", "--workers", str(stages), "--json"]
        asked += ["--slack", repr(slack)] if slack > 0 else []
        return json.loads(subprocess.run(asked, check=True, capture_output=True).stdout)


def compare(kerf, model, stages, bias):
    costs = File(model).costs(bias)
    mean = sum(node["forward"][0] for node in costs["nodes"]) / stages
    bottleneck, crossing = min(best_of_order(costs, order, stages) for order in six_orders(costs))
    least = kerf_plan(kerf, costs, stages, 0)["bottleneck"]
    held = kerf_plan(kerf, costs, stages, bottleneck / least * ROUNDING - 1)
    return {"model": pathlib.Path(model).stem, "workers": stages, "ratio": least / mean, "of_orders": bottleneck / mean,
            "bytes": held["cut_bytes"], "bytes_of_orders": crossing}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kerf")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--bias", type=float, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    light = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_*.onnx"
    models = asked.models or sorted(glob.glob(str(light)))
    if not models:
        sys.exit(f"no models: neither given nor at {light}")
    rows = []
    for model in models:
        for stages in asked.workers:
            row = compare(asked.kerf, model, stages, asked.bias)
            rows.append(row)
            if not asked.json:
                print(f"{row['model']:22} {stages:2} workers: ratio {row['ratio']:.4f}, of six orders {row['of_orders']:.4f}; "
                      f"within that {row['bytes'] / 1e6:.1f} MB, of six orders {row['bytes_of_orders'] / 1e6:.1f} MB", flush=True)
    if asked.json:
        print(json.dumps(rows, indent=1))
    room = 1 + 1e-9
    return int(any(row["ratio"] > row["of_orders"] * room or row["bytes"] > row["bytes_of_orders"] * room for row in rows))


if __name__ == "__main__":
    sys.exit(main())
