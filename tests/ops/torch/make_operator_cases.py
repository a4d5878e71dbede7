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


if __name__ == "__main__":
    main()
