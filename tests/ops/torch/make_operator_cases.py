"""Writes operator_cases.txt: small inputs of operators, with the outputs and gradients that PyTorch computes for them in
double precision. Run by hand, with PyTorch installed, when a case is added; the tests read every .txt of this folder.

    python3 make_operator_cases.py > operator_cases.txt

One line each: `case NAME OPERATOR SAMPLES`, `attribute NAME TYPE VALUES`, `input ROLE TYPE SHAPE VALUES` (or `input absent`),
`output SHAPE VALUES`, `upstream SHAPE VALUES` (or `upstream absent`), `gradient INPUT VALUES`. In shapes N is the batch.
"""

import torch

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)


def text(tensor):
    return " ".join(f"{x:.9g}" if tensor.is_floating_point() else str(x) for x in tensor.flatten().tolist())


def shape_text(tensor, batch_axis):
    return ",".join("N" if axis == batch_axis else str(extent) for axis, extent in enumerate(tensor.shape)) or "scalar"


def rounded(*shape):
    return torch.randn(shape).float().double()


class Case:
    """Inputs are added in order; finish() runs `forward` on them and writes everything."""

    def __init__(self, name, op, samples=3):
        self.lines, self.inputs = [f"case {name} {op} {samples}"], []

    def attribute(self, name, kind, *values):
        self.lines.append(f"attribute {name} {kind} {' '.join(str(v) for v in values)}")

    def input(self, role, tensor, batch_axis=None):
        kind = "float32" if tensor.is_floating_point() else "int64"
        self.lines.append(f"input {role} {kind} {shape_text(tensor, batch_axis)} {text(tensor)}")
        if role in ("activation", "parameter"):
            tensor.requires_grad_(True)
        self.inputs.append(tensor)
        return tensor

    def absent(self):
        self.lines.append("input absent")
        self.inputs.append(None)

    def finish(self, outputs, unread=()):
        """`outputs`: (tensor, batch axis); those at `unread` have no reader, hence no gradient."""
        total = 0
        for number, (output, batch_axis) in enumerate(outputs):
            self.lines.append(f"output {shape_text(output, batch_axis)} {text(output.detach())}")
            if number in unread:
                self.lines.append("upstream absent")
                continue
            upstream = rounded(*output.shape)
            self.lines.append(f"upstream {shape_text(output, batch_axis)} {text(upstream)}")
            total = total + (output * upstream).sum()
        wanted = [(i, t) for i, t in enumerate(self.inputs) if t is not None and t.requires_grad]
        gradients = torch.autograd.grad(total, [t for _, t in wanted])
        for (number, _), gradient in zip(wanted, gradients):
            self.lines.append(f"gradient {number} {text(gradient)}")
        print("\n".join(self.lines))


def batch_normalization(name, shape, training, unread):
    case = Case(name, "BatchNormalization", shape[0])
    channels = shape[1]
    x = case.input("activation", (rounded(*shape) * 2 + 5).float().double(), 0)
    scale, bias = case.input("parameter", rounded(channels)), case.input("parameter", rounded(channels))
    mean, variance = case.input("state", rounded(channels)), case.input("state", rounded(channels).abs() + 0.5)
    case.attribute("training_mode", "int", int(training))
    case.attribute("epsilon", "float", 1e-3)
    y = torch.nn.functional.batch_norm(x, mean.clone(), variance.clone(), scale, bias, training, 0.1, 1e-3)
    axes = [0] + list(range(2, x.dim()))
    statistics = [(x.mean(axes), None), (x.var(axes, unbiased=False), None)] if training else []
    case.finish([(y, 0)] + statistics, unread)


def layer_normalization(name, axis, bias, unread):
    case = Case(name, "LayerNormalization", 4)
    x = case.input("activation", rounded(4, 3, 5), 0)
    row = x.shape[axis:]
    scale = case.input("parameter", rounded(*row))
    b = case.input("parameter", rounded(*row)) if bias else None
    case.attribute("axis", "int", axis)
    y = torch.nn.functional.layer_norm(x, row, scale, b, 1e-5)
    axes = list(range(axis % 3, 3))
    inverse = (x.var(axes, unbiased=False, keepdim=True) + 1e-5).rsqrt()
    case.finish([(y, 0), (x.mean(axes, keepdim=True), 0), (inverse, 0)], unread)


def lstm(name, direction, layout, bias, initial, unread, steps=5, samples=3):
    features, hidden = 4, 6
    case = Case(name, "LSTM", samples)
    count = 2 if direction == "bidirectional" else 1
    first = layout == 1
    state_shape = (samples, count, hidden) if first else (count, samples, hidden)
    state_batch = 0 if first else 1
    x = case.input("activation", rounded(*((samples, steps, features) if first else (steps, samples, features))), int(not first))
    w = case.input("parameter", (rounded(count, 4 * hidden, features) / 2).float().double())
    r = case.input("parameter", (rounded(count, 4 * hidden, hidden) / 2).float().double())
    b = case.input("parameter", rounded(count, 8 * hidden)) if bias else case.absent()
    case.absent()
    h0 = case.input("activation", rounded(*state_shape), state_batch) if initial else case.absent()
    c0 = case.input("activation", rounded(*state_shape), state_batch) if initial else case.absent()
    case.attribute("hidden_size", "int", hidden)
    case.attribute("direction", "string", direction)
    case.attribute("layout", "int", layout)
    # PyTorch's gates are i f g o, ONNX's i o f c; a reverse direction is the forward one of the reversed sequence.
    order = torch.cat([torch.arange(k * hidden, (k + 1) * hidden) for k in (0, 2, 3, 1)])
    torch_x = x if not first else x.transpose(0, 1)
    ys, hs, cs = [], [], []
    for d in range(count):
        back = direction == "reverse" or d == 1
        seq = torch_x.flip(0) if back else torch_x
        bias_of = lambda half: b[d, half * 4 * hidden:(half + 1) * 4 * hidden][order] if bias else torch.zeros(4 * hidden)
        state = [torch.zeros(1, samples, hidden) if s is None else (s[:, d] if first else s[d]).unsqueeze(0) for s in (h0, c0)]
        y, h, c = torch._VF.lstm(seq, state, [w[d][order], r[d][order], bias_of(0), bias_of(1)], True, 1, 0.0, True, False, False)
        ys.append(y.flip(0) if back else y)
        hs.append(h[0])
        cs.append(c[0])
    y = torch.stack(ys, 1)
    y = y.permute(2, 0, 1, 3) if first else y
    h, c = (torch.stack(s, 1 if first else 0) for s in (hs, cs))
    case.finish([(y, 0 if first else 2), (h, state_batch), (c, state_batch)], unread)


def gather(name, table_shape, axis, indices_shape):
    case = Case(name, "Gather", indices_shape[0])
    table = case.input("parameter", rounded(*table_shape))
    indices = case.input("label", torch.randint(-table_shape[axis], table_shape[axis], indices_shape), 0)
    case.attribute("axis", "int", axis)
    wrapped = torch.where(indices < 0, indices + table_shape[axis], indices)
    picked = table.index_select(axis, wrapped.flatten())
    y = picked.reshape(*table_shape[:axis], *indices_shape, *table_shape[axis + 1:])
    case.finish([(y, axis)])


def transpose():
    case = Case("Transpose_of_four_axes", "Transpose", 3)
    x = case.input("activation", rounded(3, 2, 5, 4), 0)
    case.attribute("perm", "ints", 2, 0, 3, 1)
    case.finish([(x.permute(2, 0, 3, 1), 1)])


def split():
    case = Case("Split_into_three_one_unread", "Split", 2)
    x = case.input("activation", rounded(2, 7, 3), 0)
    case.attribute("axis", "int", 1)
    case.attribute("split", "ints", 1, 4, 2)
    case.finish([(part, 0) for part in x.split([1, 4, 2], 1)], unread=(1,))


def concat():
    case = Case("Concat_of_three", "Concat", 2)
    parts = [case.input("activation", rounded(2, 3, extent), 0) for extent in (2, 1, 4)]
    case.attribute("axis", "int", -1)
    case.finish([(torch.cat(parts, 2), 0)])


def of_one(op, function, positive=False, **attributes):
    suffix = "".join(f"_{value}".replace(".", "_").replace("-", "minus_") for value in attributes.values())
    case = Case(f"{op}{suffix}", op)
    x = case.input("activation", rounded(3, 4, 5).abs() + 0.25 if positive else rounded(3, 4, 5) * 2, 0)
    for name, value in attributes.items():
        case.attribute(name, "string" if isinstance(value, str) else "float", value)
    case.finish([(function(x), 0)])


def of_two(op, function, a_shape, b_shape, positive=(False, False)):
    case = Case(f"{op}_of_{'x'.join(map(str, a_shape))}_and_{'x'.join(map(str, b_shape))}", op)
    drawn = [rounded(*shape).abs() + 0.25 if up else rounded(*shape) for shape, up in zip((a_shape, b_shape), positive)]
    # What is as long as there are samples, and on the first axis, has them.
    a, b = (case.input("activation", x, 0 if x.dim() == 3 and x.shape[0] == 3 else None) for x in drawn)
    case.finish([(function(a, b), 0)])


def of_many(op, function, *shapes):
    case = Case(f"{op}_of_{len(shapes)}", op)
    inputs = [case.input("activation", rounded(*shape), 0 if len(shape) == 3 and shape[0] == 3 else None) for shape in shapes]
    case.finish([(function(*inputs), 0)])


def where():
    case = Case("Where_repeating_all", "Where")
    holds = torch.randint(0, 2, (3, 4, 1)).bool()
    case.lines.append(f"input label bool N,4,1 {text(holds.long())}")
    case.inputs.append(None)
    x, y = case.input("activation", rounded(3, 4, 5), 0), case.input("activation", rounded(5))
    case.finish([(torch.where(holds, x, y), 0)])


def label_loss(op, reduction, weighted, ignored=None):
    case = Case(f"{op}_{reduction}{'_weighted' * weighted}{'_ignoring' * (ignored is not None)}", op)
    scores = case.input("activation", rounded(3, 5, 4), 0)
    labels = case.input("label", torch.randint(0, 5, (3, 4)), 0)
    weights = (rounded(5).abs() + 0.25).float().double() if weighted else None
    if weighted:
        case.input("label", weights)
    case.attribute("reduction", "string", reduction)
    if ignored is not None:
        case.attribute("ignore_index", "int", ignored)
    function = torch.nn.functional.cross_entropy if op == "SoftmaxCrossEntropyLoss" else torch.nn.functional.nll_loss
    loss = function(scores, labels, weights, reduction=reduction, ignore_index=-100 if ignored is None else ignored)
    case.finish([(loss, 0 if reduction == "none" else None)])


def pointwise():
    torch.manual_seed(11)
    F = torch.nn.functional
    for op, function in {"Relu": F.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp, "Erf": torch.erf, "Abs": torch.abs,
                         "HardSwish": F.hardswish, "Selu": F.selu, "Softplus": F.softplus, "Softsign": F.softsign, "Mish": F.mish,
                         "Swish": F.silu, "Gelu": F.gelu, "Sin": torch.sin, "Cos": torch.cos, "Atan": torch.atan, "Sinh": torch.sinh,
                         "Cosh": torch.cosh, "Asinh": torch.asinh, "Floor": torch.floor, "Round": torch.round, "Sign": torch.sign}.items():
        of_one(op, function)
    for op, function in {"Log": torch.log, "Sqrt": torch.sqrt, "Reciprocal": torch.reciprocal}.items():
        of_one(op, function, positive=True)
    of_one("Gelu", lambda x: F.gelu(x, approximate="tanh"), approximate="tanh")
    of_one("Elu", lambda x: F.elu(x, 0.7), alpha=0.7)
    of_one("Celu", lambda x: F.celu(x, 0.7), alpha=0.7)
    of_one("LeakyRelu", lambda x: F.leaky_relu(x, 0.2), alpha=0.2)
    of_one("Clip", lambda x: torch.clamp(x, -0.5, 1.0), min=-0.5, max=1.0)
    of_one("ThresholdedRelu", lambda x: F.threshold(x, 0.5, 0.0), alpha=0.5)
    for op, function in {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul}.items():
        of_two(op, function, (3, 4, 5), (4, 1))
        of_two(op, function, (4, 1), (3, 1, 5))
    of_two("Div", torch.div, (3, 4, 5), (3, 1, 5), (False, True))
    of_two("Pow", torch.pow, (3, 4, 5), (5,), (True, False))
    of_two("Pow", torch.pow, (4, 1), (3, 1, 5), (True, False))
    case = Case("PRelu_of_rows", "PRelu")
    x, slope = case.input("activation", rounded(3, 4, 5), 0), case.input("parameter", rounded(4, 1))
    case.finish([(torch.where(x < 0, x * slope, x), 0)])
    of_many("Sum", lambda a, b, c: a + b + c, (3, 4, 5), (4, 1), (3, 1, 5))
    of_many("Mean", lambda a, b, c: (a + b + c) / 3, (3, 4, 5), (4, 1), (3, 1, 5))
    of_many("Max", torch.maximum, (3, 4, 5), (4, 1))
    of_many("Min", torch.minimum, (3, 4, 5), (5,))
    where()
    for axis in (1, 2):
        case = Case(f"LogSoftmax_of_axis_{axis}", "LogSoftmax")
        x = case.input("activation", rounded(3, 4, 5), 0)
        case.attribute("axis", "int", axis)
        case.finish([(F.log_softmax(x, axis), 0)])
    for op in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
        label_loss(op, "none", True)
        label_loss(op, "sum", True, 2)
        label_loss(op, "mean", True, 2)
        label_loss(op, "mean", True)


def main():
    batch_normalization("BatchNormalization_of_images", (3, 2, 4, 5), True, unread=(1, 2))
    batch_normalization("BatchNormalization_of_rows", (6, 5), True, unread=())
    batch_normalization("BatchNormalization_by_its_states", (3, 2, 20), False, unread=())
    layer_normalization("LayerNormalization_of_the_last_axis", -1, True, unread=(1, 2))
    layer_normalization("LayerNormalization_of_two_axes", 1, False, unread=())
    lstm("LSTM_forward", "forward", 0, True, False, unread=(1, 2))
    lstm("LSTM_reverse_with_initial_states", "reverse", 0, True, True, unread=())
    lstm("LSTM_both_ways", "bidirectional", 0, True, True, unread=())
    lstm("LSTM_both_ways_samples_first", "bidirectional", 1, False, True, unread=(0,))
    gather("Gather_of_an_embedding", (7, 4), 0, (3, 5))
    gather("Gather_along_a_later_axis", (3, 6, 2), 1, (4,))
    transpose()
    split()
    concat()
    pointwise()


if __name__ == "__main__":
    main()
