"""Writes further_cases.txt, as make_operator_cases.py does: functions with poles or bounds, what gives its input another shape or order, and
the operators that are Kerf's own.

    python3 make_further_cases.py > further_cases.txt
"""

import torch
import torch.nn.functional as F

from make_moving_cases import one
from make_operator_cases import Case, of_many, rounded

torch.manual_seed(13)
torch.set_default_dtype(torch.float64)


def functions():
    inner = lambda: (torch.rand(3, 4, 5) * 1.6 - 0.8).float().double()
    for op, function in {"Acos": torch.acos, "Asin": torch.asin, "Atanh": torch.atanh, "Tan": torch.tan, "Ceil": torch.ceil, "Neg": torch.neg,
                         "Identity": torch.clone}.items():
        one(op, op, inner(), function)
    one("Acosh", "Acosh", inner() + 2.5, torch.acosh)
    one("HardSigmoid_of_PyTorch", "HardSigmoid", rounded(3, 4, 5) * 4, F.hardsigmoid, alpha=1 / 6, beta=0.5)
    one("Shrink_hard", "Shrink", rounded(3, 4, 5), lambda x: F.hardshrink(x, 0.5), lambd=0.5)
    one("Shrink_soft", "Shrink", rounded(3, 4, 5), lambda x: F.softshrink(x, 0.5), lambd=0.5, bias=0.5)
    one("Cast_to_itself", "Cast", inner(), torch.clone, to=1)
    for op, function in {"Max": torch.maximum, "Min": torch.minimum}.items():
        of_many(op, lambda a, b, c: function(function(a, b), c), (3, 4, 5), (4, 1), (3, 1, 5))
    for axis in (1, 2):
        one(f"Softmax_of_axis_{axis}", "Softmax", rounded(3, 4, 5) * 3, lambda x: F.softmax(x, axis), axis=axis)


def shapes():
    one("Flatten_of_images", "Flatten", rounded(3, 2, 4, 5), lambda x: x.flatten(1))
    one("Reshape_of_channels", "Reshape", rounded(3, 4, 6), lambda x: x.reshape(3, 2, 3, 4), shape=[0, 2, 3, -1])
    one("Unsqueeze_of_two_axes", "Unsqueeze", rounded(3, 4), lambda x: x[:, None, :, None], axes=[1, -1])


def reverse_sequence():
    case = Case("ReverseSequence_of_three", "ReverseSequence", 3)
    x = case.input("activation", rounded(5, 3, 2), 1)
    lengths = case.input("label", torch.tensor([3, 1, 5]), 0)
    ends = [torch.cat((x[:n, i].flip(0), x[n:, i])) for i, n in enumerate(lengths.tolist())]
    case.finish([(torch.stack(ends, 1), 1)])


def max_unpool():
    """PyTorch counts the places within a channel, ONNX within everything."""
    case = Case("MaxUnpool_of_MaxPool", "MaxUnpool", 2)
    _, places = F.max_pool2d(rounded(2, 3, 6, 8), 2, return_indices=True)
    x = case.input("activation", rounded(2, 3, 3, 4), 0)
    images = torch.arange(6).reshape(2, 3, 1, 1) * 48
    case.input("label", places + images, 0)
    case.attribute("kernel_shape", "ints", 2, 2)
    case.attribute("strides", "ints", 2, 2)
    case.finish([(F.max_unpool2d(x, places, 2), 0)])


def statistics():
    """Of a batch normalisation in pieces: totals are sums and how many numbers they are of."""
    count = lambda x: torch.full((4,), float(x.numel() // 4))
    one("ChannelSum_of_images", "ChannelSum", rounded(3, 4, 2, 5), lambda x: torch.stack((x.sum((0, 2, 3)), count(x))), out_batch=-1)
    case = Case("CenteredSquareSum_of_images", "CenteredSquareSum", 3)
    x = case.input("activation", rounded(3, 4, 2, 5), 0)
    totals = case.input("activation", torch.stack((rounded(4), rounded(4).abs() + 1)))
    mean = (totals[0] / totals[1]).reshape(1, 4, 1, 1)
    case.finish([((x - mean).square().sum((0, 2, 3)), None)])
    case = Case("ChannelStatistics", "ChannelStatistics", 3)
    totals = case.input("activation", torch.stack((rounded(4), rounded(4).abs() + 1)))
    squares = case.input("activation", rounded(4).abs() + 0.5)
    case.finish([(totals[0] / totals[1], None), (squares / totals[1], None)])


def losses():
    """Of a cross-entropy in pieces."""
    case = Case("SegmentLogSumExp_of_three", "SegmentLogSumExp", 3)
    x = case.input("activation", rounded(3, 9, 2), 0)
    case.attribute("boundaries", "ints", 0, 3, 4, 9)
    parts = x.split((3, 1, 5), 1)
    maximum = torch.cat([part.amax(1, True) for part in parts], 1)
    whole = torch.cat([part.logsumexp(1, True) for part in parts], 1)
    case.finish([(maximum, 0), (whole - maximum, 0)])
    case = Case("PickLabel_of_positions", "PickLabel", 3)
    x = case.input("activation", rounded(3, 7, 2), 0)
    labels = case.input("label", torch.randint(0, 7, (3, 2)), 0)
    case.finish([(x.gather(1, labels[:, None]).squeeze(1), 0)])
    case = Case("LogLoss_of_segments", "LogLoss", 3)
    maximum, log_sum = (case.input("activation", rounded(3, 4, 2), 0) for _ in range(2))
    picked = case.input("activation", rounded(3, 2), 0)
    case.finish([(((maximum + log_sum).logsumexp(1) - picked).sum(), None)])
    case = Case("SumLoss_weighted", "SumLoss", 3)
    x, weights = case.input("activation", rounded(3, 4, 5), 0), case.input("label", rounded(3, 1, 5), 0)
    case.finish([((x * weights).sum(), None)])


def cell(name, op, first, bias=True, state="cell"):
    """A step: PyTorch's cell of which W is the identity. Its gates are i f g o and r z n, ONNX's i o f c and z r n."""
    hidden, samples = 4, 3
    blocks = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}[op]
    rows = len(blocks) * hidden
    order = torch.cat([torch.arange(k * hidden, (k + 1) * hidden) for k in blocks])
    case = Case(name, "RecurrentCell", samples)
    gates = case.input("activation", rounded(*((samples, 1) if first else (1, samples)), 1, rows), 0 if first else 1)
    r = case.input("parameter", (rounded(1, rows, hidden) / 2).float().double())
    b = case.input("parameter", rounded(1, 2 * rows)) if bias else case.absent()
    of_cell = (samples, 1, 1, hidden) if first else (1, 1, samples, hidden)
    of_sequence = (samples, 1, hidden) if first else (1, samples, hidden)
    shape = of_cell if state == "cell" else of_sequence
    count = 2 if op == "LSTM" else 1
    before = [case.input("activation", rounded(*shape), shape.index(samples)).reshape(samples, hidden) for _ in range(count if state else 0)]
    before = before or [torch.zeros(samples, hidden)] * count
    case.attribute("cell", "string", op)
    case.attribute("layout", "int", int(first))
    halves = [b[0, half * rows:(half + 1) * rows][order] if bias else torch.zeros(rows) for half in (0, 1)]
    function = {"LSTM": torch._VF.lstm_cell, "GRU": torch._VF.gru_cell, "RNN": torch._VF.rnn_tanh_cell}[op]
    x = gates.reshape(samples, rows)[:, order]
    after = function(x, before if op == "LSTM" else before[0], torch.eye(rows), r[0][order], *halves)
    case.finish([(one.reshape(of_cell), of_cell.index(samples)) for one in (after if op == "LSTM" else [after])])


def cells():
    cell("RecurrentCell_LSTM", "LSTM", False)
    cell("RecurrentCell_LSTM_of_a_decoder", "LSTM", True, state="sequence")
    cell("RecurrentCell_LSTM_from_zeros", "LSTM", True, state=None)
    cell("RecurrentCell_GRU", "GRU", True)
    cell("RecurrentCell_GRU_of_a_decoder", "GRU", False, bias=False, state="sequence")
    cell("RecurrentCell_RNN", "RNN", False)
    case = Case("RecurrentInputs_of_four_steps", "RecurrentInputs", 3)
    x, w = case.input("activation", rounded(3, 4, 5), 0), case.input("parameter", rounded(1, 6, 5))
    case.attribute("gates", "int", 3)
    case.attribute("layout", "int", 1)
    case.finish([(F.linear(x[:, t:t + 1], w[0]).unsqueeze(2), 0) for t in range(4)])


def main():
    functions()
    shapes()
    reverse_sequence()
    max_unpool()
    statistics()
    losses()
    cells()


if __name__ == "__main__":
    main()
