"""Writes layer_cases.txt: convolutions, pools, normalisations, recurrences and attention, as make_operator_cases.py does.

    python3 make_layer_cases.py > layer_cases.txt
"""

import torch
import torch.nn.functional as F

from make_operator_cases import Case, rounded

torch.manual_seed(11)


def with_attributes(case, attributes):
    for name, value in attributes.items():
        many = isinstance(value, (list, tuple))
        first = value[0] if many else value
        kind = {int: "int", float: "float", str: "string"}[type(first)] + ("s" if many else "")
        case.attribute(name, kind, *(value if many else [value]))


def convolution(name, x_shape, w_shape, transposed=False, bias=True, **options):
    case = Case(name, "ConvTranspose" if transposed else "Conv", x_shape[0])
    axes = len(x_shape) - 2
    groups = options.get("groups", 1)
    x = case.input("activation", rounded(*x_shape), 0)
    w = case.input("parameter", rounded(*w_shape))
    b = case.input("parameter", rounded(w_shape[1] * groups if transposed else w_shape[0])) if bias else None
    names = {"stride": "strides", "dilation": "dilations", "groups": "group", "output_padding": "output_padding"}
    with_attributes(case, {names[key]: value for key, value in options.items() if key in names})
    if "padding" in options:
        case.attribute("pads", "ints", *options["padding"], *options["padding"])
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{axes}d")
    case.finish([(function(x, w, b, **options), 0)])


def pool(name, op, function, x_shape, **attributes):
    case = Case(name, op, x_shape[0])
    x = case.input("activation", rounded(*x_shape), 0)
    with_attributes(case, attributes)
    case.finish([(function(x), 0)])


def mean_variance_normalization(shape):
    """Over axis 0, too, which is not the batch then."""
    case = Case("MeanVarianceNormalization", "MeanVarianceNormalization", shape[0])
    x = case.input("activation", rounded(*shape))
    axes = (0, 2, 3)
    case.finish([((x - x.mean(axes, True)) / x.var(axes, False, True).sqrt(), None)])


def group_normalization(name, x_shape, groups):
    case = Case(name, "GroupNormalization" if groups else "InstanceNormalization", x_shape[0])
    x = case.input("activation", (rounded(*x_shape) * 2 + 3).float().double(), 0)
    scale, bias = case.input("parameter", rounded(x_shape[1])), case.input("parameter", rounded(x_shape[1]))
    with_attributes(case, {"epsilon": 1e-3, **({"num_groups": groups} if groups else {})})
    case.finish([(F.group_norm(x, groups or x_shape[1], scale, bias, 1e-3), 0)])


def rms_normalization(name, axis):
    case = Case(name, "RMSNormalization", 4)
    x = case.input("activation", rounded(4, 3, 5), 0)
    scale = case.input("parameter", rounded(*x.shape[axis:]))
    with_attributes(case, {"axis": axis, "epsilon": 1e-3})
    axes = list(range(axis % 3, 3))
    case.finish([(x * ((x * x).mean(axes, keepdim=True) + 1e-3).rsqrt() * scale, 0)])


def recurrence(name, op, direction, initial, steps=4, samples=3, features=3, hidden=5):
    """PyTorch's GRU has gates r z n and is linear_before_reset; ONNX's has z r n."""
    case = Case(name, op, samples)
    count, gates = (2 if direction == "bidirectional" else 1), (3 if op == "GRU" else 1)
    x = case.input("activation", rounded(steps, samples, features), 1)
    w = case.input("parameter", (rounded(count, gates * hidden, features) / 2).float().double())
    r = case.input("parameter", (rounded(count, gates * hidden, hidden) / 2).float().double())
    b = case.input("parameter", rounded(count, 2 * gates * hidden))
    case.absent()
    h0 = case.input("activation", rounded(count, samples, hidden), 1) if initial else case.absent()
    with_attributes(case, {"hidden_size": hidden, "direction": direction})
    if op == "GRU":
        case.attribute("linear_before_reset", "int", 1)
    order = torch.cat([torch.arange(k * hidden, (k + 1) * hidden) for k in ((1, 0, 2) if op == "GRU" else (0,))])
    ys, hs = [], []
    for d in range(count):
        back = direction == "reverse" or d == 1
        state = torch.zeros(1, samples, hidden) if h0 is None else h0[d].unsqueeze(0)
        half = gates * hidden
        weights = [w[d][order], r[d][order], b[d, :half][order], b[d, half:][order]]
        function = torch._VF.gru if op == "GRU" else torch._VF.rnn_tanh
        y, h = function(x.flip(0) if back else x, state, weights, True, 1, 0.0, True, False, False)
        ys.append(y.flip(0) if back else y)
        hs.append(h[0])
    case.finish([(torch.stack(ys, 1), 2), (torch.stack(hs), 1)])


def attention(name, causal, sharing, mask_shape=None, softcap=0.0):
    samples, heads, queries, keys, width, values = 2, 2, 4, 6, 3, 5
    case = Case(name, "Attention", samples)
    q = case.input("activation", rounded(samples, heads * sharing, queries, width), 0)
    k = case.input("activation", rounded(samples, heads, keys, width), 0)
    v = case.input("activation", rounded(samples, heads, keys, values), 0)
    scores = q @ k.repeat_interleave(sharing, 1).transpose(2, 3) / width**0.5
    if softcap:
        case.attribute("softcap", "float", softcap)
        scores = softcap * torch.tanh(scores / softcap)
    if mask_shape:
        scores = scores + case.input("input", rounded(*mask_shape))
    if causal:
        case.attribute("is_causal", "int", 1)
        scores = scores.masked_fill(torch.ones(queries, keys, dtype=torch.bool).triu(1), float("-inf"))
    case.finish([(scores.softmax(-1) @ v.repeat_interleave(sharing, 1), 0)])


def resized(name, x_shape, mode, sizes, corners=None, **attributes):
    case = Case(name, "Resize", x_shape[0])
    x = case.input("activation", rounded(*x_shape), 0)
    case.attribute("mode", "string", "nearest" if mode == "nearest" else "cubic" if mode == "bicubic" else "linear")
    case.attribute("sizes", "ints", *x_shape[:2], *sizes)
    with_attributes(case, attributes)
    case.finish([(F.interpolate(x, size=sizes, mode=mode, align_corners=corners), 0)])


def rotary(name, interleaved):
    case = Case(name, "RotaryEmbedding", 2)
    x = case.input("activation", rounded(2, 3, 4, 6), 0)
    angles = rounded(2, 4, 3)
    cosines, sines = case.input("input", angles.cos().float().double(), 0), case.input("input", angles.sin().float().double(), 0)
    case.attribute("interleaved", "int", int(interleaved))
    pairs = torch.complex(x[..., 0::2], x[..., 1::2]) if interleaved else torch.complex(x[..., :3], x[..., 3:])
    y = pairs * torch.complex(cosines, sines).unsqueeze(1)
    case.finish([(torch.stack([y.real, y.imag], -1).flatten(-2) if interleaved else torch.cat([y.real, y.imag], -1), 0)])


def main():
    convolution("Conv_of_lines", (2, 3, 9), (4, 3, 3), stride=[2], padding=[1])
    convolution("Conv_in_groups", (2, 4, 6, 5), (6, 2, 3, 2), groups=2, dilation=[2, 1], padding=[1, 0])
    convolution("Conv_of_each_channel", (2, 4, 6, 5), (4, 1, 3, 3), groups=4, padding=[1, 1], bias=False)
    convolution("Conv_of_volumes", (2, 2, 4, 5, 4), (3, 2, 2, 3, 2), stride=[1, 2, 1], padding=[1, 0, 1])
    convolution("ConvTranspose_of_lines", (2, 3, 5), (3, 2, 3), True, stride=[2], padding=[1])
    convolution("ConvTranspose_in_groups", (2, 4, 4, 3), (4, 3, 3, 2), True, groups=2, stride=[2, 3], output_padding=[1, 0])
    convolution("ConvTranspose_dilated", (2, 3, 4, 3), (3, 5, 2, 3), True, False, dilation=[2, 1], padding=[1, 1])
    convolution("ConvTranspose_of_volumes", (2, 2, 3, 2, 3), (2, 3, 2, 2, 3), True, stride=[2, 1, 1])
    pool("MaxPool_of_lines", "MaxPool", lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 8), kernel_shape=[3], strides=[2], pads=[1, 1])
    pool("MaxPool_of_volumes", "MaxPool", lambda x: F.max_pool3d(x, 2, 2, ceil_mode=True), (2, 2, 5, 4, 3),
         kernel_shape=[2, 2, 2], strides=[2, 2, 2], ceil_mode=1)
    pool("AveragePool_of_volumes", "AveragePool", lambda x: F.avg_pool3d(x, (2, 3, 2), (1, 2, 1), (1, 1, 0), count_include_pad=False),
         (2, 2, 4, 5, 3), kernel_shape=[2, 3, 2], strides=[1, 2, 1], pads=[1, 1, 0, 1, 1, 0])
    pool("LpPool", "LpPool", lambda x: (F.avg_pool2d(x.abs() ** 3, (2, 3), (2, 1)) * 6) ** (1 / 3), (2, 3, 4, 5),
         kernel_shape=[2, 3], strides=[2, 1], p=3)
    pool("GlobalAveragePool", "GlobalAveragePool", lambda x: F.adaptive_avg_pool2d(x, 1), (3, 4, 5, 3))
    pool("GlobalMaxPool", "GlobalMaxPool", lambda x: F.adaptive_max_pool2d(x, 1), (3, 4, 5, 3))
    pool("GlobalLpPool", "GlobalLpPool", lambda x: (x * x).sum((2, 3), keepdim=True).sqrt(), (3, 4, 5, 3))
    pool("LRN", "LRN", lambda x: F.local_response_norm(x, 5, 0.7, 0.75, 1.5), (2, 8, 3, 4), size=5, alpha=0.7, beta=0.75, bias=1.5)
    pool("LRN_of_lines", "LRN", lambda x: F.local_response_norm(x, 3, 0.4, 0.6, 1.0), (2, 4, 5), size=3, alpha=0.4, beta=0.6)
    group_normalization("InstanceNormalization", (2, 3, 4, 5), 0)
    group_normalization("GroupNormalization", (2, 6, 4), 2)
    rms_normalization("RMSNormalization", -1)
    rms_normalization("RMSNormalization_of_two_axes", 1)
    recurrence("RNN_forward", "RNN", "forward", False)
    recurrence("RNN_both_ways", "RNN", "bidirectional", True)
    recurrence("GRU_forward", "GRU", "forward", False)
    recurrence("GRU_both_ways", "GRU", "bidirectional", True)
    attention("Attention_causal", True, 1)
    attention("Attention_of_shared_heads", False, 3)
    attention("Attention_masked", True, 2, mask_shape=(4, 1, 6))
    attention("Attention_with_a_softcap", False, 1, softcap=1.5)
    asymmetric = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    resized("Resize_nearest", (2, 3, 4, 5), "nearest", [6, 10], **asymmetric)
    resized("Resize_nearest_smaller", (2, 3, 7, 5), "nearest", [3, 4], **asymmetric)
    resized("Resize_linear", (2, 3, 4, 5), "bilinear", [7, 3], False)
    resized("Resize_linear_between_corners", (2, 3, 5), "linear", [9], True, coordinate_transformation_mode="align_corners")
    resized("Resize_cubic", (2, 2, 5, 4), "bicubic", [8, 6], False)
    rotary("RotaryEmbedding_of_halves", False)
    rotary("RotaryEmbedding_of_neighbours", True)
    pool("LpNormalization", "LpNormalization", lambda x: F.normalize(x, 2, 1), (2, 4, 3), axis=1)
    pool("LpNormalization_of_absolutes", "LpNormalization", lambda x: F.normalize(x, 1, -1), (2, 4, 3), p=1)
    mean_variance_normalization((3, 2, 4, 3))


if __name__ == "__main__":
    main()
