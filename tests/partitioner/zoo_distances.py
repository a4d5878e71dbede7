"""How far the narrow models of the zoo are from float64 when nothing cuts them: PyTorch computes every node of what zoo_reference
writes in float64, by autograd, over five batches of three steps. What is compared with it is Kerf's training in float32, and
PyTorch's in float32: which maximum of two that are nearly equal passes a gradient on is rounding, too, and two that round
differently find more of such. The greatest distance of each step's loss, and the greatest of the first one's gradients by their
norm, are in a table that zoo_cuts_test.cc reads; this is a test of whether they still are so.

    zoo_distances.py ZOO_REFERENCE TABLE [--write]    (as it is, of PyTorch 2.15)

Needs NumPy and PyTorch, of any version; exit code 77 where they are not there.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    from torch.nn import functional
except ImportError as absent:
    print(f"skipped: {absent} (apt-get install python3-torch)")
    sys.exit(77)

MODELS = ("mlp lenet5 lenet5-bn convnet alexnet bvlc-alexnet vgg16 vgg19 inception-v1 inception-v3 resnet18 resnet50 resnet101 "
          "densenet121 squeezenet shufflenet lstm-lm seq2seq gpt vit").split()
# Other processors round otherwise, which batch normalisations amplify; below the least the table says nothing.
SLACK, LEAST = 10, (1e-5, 1e-5, 1e-5, 1e-4)
TYPES = {"float32": numpy.float32, "int64": numpy.int64}


def pads_of(attributes):
    """Of both ends, which are alike, of each axis."""
    pads = attributes.get("pads", [0] * 2 * len(attributes["kernel_shape"]))
    half = len(pads) // 2
    assert pads[:half] == pads[half:], pads
    return pads[:half]


def max_pool(x, attributes):
    return functional.max_pool2d(x, attributes["kernel_shape"], attributes["strides"], pads_of(attributes),
                                 ceil_mode=bool(attributes.get("ceil_mode", 0)))


def average_pool(x, attributes):
    return functional.avg_pool2d(x, attributes["kernel_shape"], attributes["strides"], pads_of(attributes),
                                 count_include_pad=bool(attributes.get("count_include_pad", 0)))


def conv(inputs, attributes):
    x, weight, bias = inputs if len(inputs) == 3 else (*inputs, None)
    return functional.conv2d(x, weight, bias, attributes["strides"], pads_of(attributes), groups=attributes.get("group", 1))


def attention(q, k, v, attributes):
    heads = attributes["q_num_heads"]
    q, k, v = (each.unflatten(2, (heads, -1)).transpose(1, 2) for each in (q, k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    if attributes["is_causal"]:
        scores = scores.masked_fill(torch.ones(scores.shape[2:], dtype=torch.bool).triu(1), -math.inf)
    return (scores.softmax(3) @ v).transpose(1, 2).flatten(2)


def lstm(inputs, hidden):
    """Gates are input, output, forget and cell; the batch is the first axis of everything."""
    x, weight, recurrence, bias = inputs[:4]
    h, c = (inputs[5][:, 0], inputs[6][:, 0]) if len(inputs) > 5 else [x.new_zeros(x.shape[0], hidden)] * 2
    rows = []
    for step in x.unbind(1):
        i, o, f, g = (step @ weight[0].T + h @ recurrence[0].T + bias[0, :4 * hidden] + bias[0, 4 * hidden:]).split(hidden, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        rows.append(h)
    return torch.stack(rows, 1)[:, :, None], h[:, None], c[:, None]


def reshape(x, shape):
    return x.reshape([x.shape[i] if extent == 0 else extent for i, extent in enumerate(shape)])


def pad(x, pads):
    half = len(pads) // 2
    return functional.pad(x, [each for i in reversed(range(half)) for each in (pads[i], pads[half + i])])


def part(x, attributes):
    at = [slice(None)] * x.dim()
    for axis, first, end in zip(attributes["axes"], attributes["starts"], attributes["ends"]):
        at[axis] = slice(first, end)
    return x[tuple(at)]


OPERATORS = {
    "Add": lambda i, a: i[0] + i[1],
    "Attention": lambda i, a: attention(*i, a),
    "AveragePool": lambda i, a: average_pool(i[0], a),
    "BatchNormalization": lambda i, a: (functional.batch_norm(i[0], None, None, i[1], i[2], True, 0.0, a.get("epsilon", 1e-5)),),
    "Concat": lambda i, a: torch.cat(i, a["axis"]),
    "Conv": conv,
    "Flatten": lambda i, a: i[0].flatten(1),
    "Gather": lambda i, a: i[0][i[1]],
    "Gelu": lambda i, a: functional.gelu(i[0]),
    "Gemm": lambda i, a: functional.linear(i[0], i[1], i[2]),
    "GlobalAveragePool": lambda i, a: i[0].mean((2, 3), keepdim=True),
    "LRN": lambda i, a: functional.local_response_norm(i[0], a["size"], a["alpha"], a["beta"], a["bias"]),
    "LSTM": lambda i, a: lstm(i, a["hidden_size"]),
    "LayerNormalization": lambda i, a: functional.layer_norm(i[0], i[0].shape[-1:], i[1], i[2], a["epsilon"]),
    "MatMul": lambda i, a: i[0] @ i[1],
    "MaxPool": lambda i, a: max_pool(i[0], a),
    "Pad": lambda i, a: pad(i[0], a["pads"]),
    "Relu": lambda i, a: i[0].relu(),
    "Reshape": lambda i, a: reshape(i[0], a["shape"]),
    "Slice": lambda i, a: part(i[0], a),
    "SoftmaxCrossEntropyLoss": lambda i, a: functional.cross_entropy(i[0], i[1], reduction="sum") / len(i[0]),
    "Transpose": lambda i, a: i[0].permute(a["perm"]),
}


def of_kind(numbers, kind):
    return numbers.to(kind) if numbers.is_floating_point() else numbers


class Model:
    def __init__(self, folder):
        self.folder = folder
        told = json.loads((folder / "model.json").read_text())
        self.values, self.nodes, self.batches = told["values"], told["nodes"], told["batches"]
        self.trained = [i for i, value in enumerate(self.values) if value["trained"]]
        self.loss, self.rate = self.nodes[told["loss"]]["outputs"][0], told["rate"]

    def array(self, name, value, rows=None):
        """A value's numbers, whole ones as they are and others in float64."""
        shape = [rows if extent < 0 else extent for extent in value["shape"]]
        numbers = torch.from_numpy(numpy.fromfile(self.folder / name, TYPES[value["type"]]).reshape(shape))
        return numbers.double() if numbers.is_floating_point() else numbers

    def arrays(self, files, kind):
        """Of values that have rows, by their numbers."""
        found = {}
        for i, name in files.items():
            value = self.values[int(i)]
            each = math.prod(extent for extent in value["shape"] if extent >= 0)
            rows = (self.folder / name).stat().st_size // (each * TYPES[value["type"]]().itemsize)
            found[int(i)] = of_kind(self.array(name, value, rows), kind)
        return found

    def loss_of(self, kept, fed, passed):
        held = {**kept, **fed}
        for node in self.nodes:
            inputs = [held.get(each) for each in node["inputs"]]
            if node["op"] == "Dropout":  # of which float32 says what it let through
                mask = passed[node["outputs"][0]] != 0
                results = inputs[0] * mask / (1 - node["attributes"]["ratio"])
            elif node["op"] == "Split":
                results = inputs[0].chunk(len(node["outputs"]), node["attributes"]["axis"])
            else:
                results = OPERATORS[node["op"]](inputs, node["attributes"])
            held.update(zip(node["outputs"], results if isinstance(results, tuple) else (results,)))
        return held[self.loss]

    def train(self, batch, kind):
        """Losses of the steps, and gradients of the first."""
        kept = {i: of_kind(self.array(value["data"], value), kind) for i, value in enumerate(self.values) if "data" in value}
        fed = self.arrays(batch["rows"], kind)
        losses, first = [], None
        for passed in batch["dropouts"]:
            for i in self.trained:
                kept[i].requires_grad_()
            loss = self.loss_of(kept, fed, self.arrays(passed, kind))
            gradients = torch.autograd.grad(loss, [kept[i] for i in self.trained])
            losses.append(loss.item())
            first = first or [gradient.double() for gradient in gradients]
            for i, gradient in zip(self.trained, gradients):
                kept[i] = kept[i].detach() - self.rate * gradient
        return losses, first

    def distances(self, batch):
        """Of each step's loss, and of the first one's gradients by their norm; the greater of Kerf's and PyTorch's."""
        losses, gradients = self.train(batch, torch.float64)
        norm = math.sqrt(sum(each.square().sum().item() for each in gradients))
        kerf = batch["losses"], [self.array(batch["gradients"][str(i)], self.values[i]) for i in self.trained]
        found = []
        for other_losses, other_gradients in (kerf, self.train(batch, torch.float32)):
            apart = sum((a - b).square().sum().item() for a, b in zip(gradients, other_gradients))
            found.append([*(abs(a - b) for a, b in zip(losses, other_losses)), math.sqrt(apart) / norm])
        return [max(each) for each in zip(*found)]


def distances_of(tool, name):
    with tempfile.TemporaryDirectory(prefix="kerf-zoo-") as folder:
        subprocess.run([tool, name, folder], check=True)
        model = Model(pathlib.Path(folder))
        found = [model.distances(batch) for batch in model.batches]
        return tuple(max(each) for each in zip(*found))


def agree(found, told):
    return len(found) == len(told) and all(a <= max(SLACK * b, least) and b <= max(SLACK * a, least)
                                           for a, b, least in zip(found, told, LEAST))


def main(tool, table, *flags):
    torch.set_num_threads(1)
    found = {name: distances_of(tool, name) for name in MODELS}
    lines = [" ".join([name, *(f"{each:.1e}" for each in distances)]) for name, distances in found.items()]
    print(f"PyTorch {torch.__version__}: model, distance of the losses of three steps, of gradients", *lines, sep="\n")
    if flags == ("--write",):
        pathlib.Path(table).write_text("\n".join(lines) + "\n")
        return 0
    told = {name: tuple(map(float, numbers)) for name, *numbers in map(str.split, pathlib.Path(table).read_text().splitlines())}
    faults = [name for name in found.keys() | told.keys() if not agree(found.get(name, ()), told.get(name, ()))]
    if faults:
        print(f"{table} has other numbers of {', '.join(sorted(faults))}: write it anew with --write")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
