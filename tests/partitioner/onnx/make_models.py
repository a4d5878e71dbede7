"""Writes the small models in models/, of random weights: python3 make_models.py (needs python3-onnx, numpy)."""

import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent / "models"
RANDOM = numpy.random.default_rng(7)


def weight(name, *shape):
    return numpy_helper.from_array((RANDOM.standard_normal(shape) * 0.2).astype(numpy.float32), name)


def integers(name, values):
    return numpy_helper.from_array(numpy.array(values, dtype=numpy.int64), name)


def save(name, opset, nodes, inputs, outputs, initializers):
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def floats(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def convolutions():
    """A fixed batch, an older Softmax, batch normalisation, a Reshape that has the batch in it."""
    nodes = [
        helper.make_node("Conv", ["image", "conv.weight", "conv.bias"], ["c"], "conv", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["b"], "bn"),
        helper.make_node("Relu", ["b"], ["r"], "relu"),
        helper.make_node("MaxPool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "flat"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["s"], "fc", transB=1),
        helper.make_node("Softmax", ["s"], ["probabilities"], "softmax"),
    ]
    weights = [
        weight("conv.weight", 8, 1, 3, 3), weight("conv.bias", 8), weight("bn.weight", 8), weight("bn.bias", 8),
        weight("bn.mean", 8), numpy_helper.from_array(numpy.full(8, 0.5, numpy.float32), "bn.var"),
        integers("flat", [2, 128]), weight("fc.weight", 10, 128), weight("fc.bias", 10),
    ]
    return save("convolutions", 9, nodes, [floats("image", 2, 1, 8, 8)], [floats("probabilities", 2, 10)], weights)


def shapes():
    """A named batch, and integer arithmetic around its shapes, as exporters of transformers write it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], "shape"),
        helper.make_node("Gather", ["shape", "zero"], ["n"], "batch", axis=0),
        helper.make_node("Gather", ["shape", "one"], ["t"], "length", axis=0),
        helper.make_node("Mul", ["t", "four"], ["features"], "features"),
        helper.make_node("Unsqueeze", ["n", "axis0"], ["n1"], "n1"),
        helper.make_node("Unsqueeze", ["features", "axis0"], ["f1"], "f1"),
        helper.make_node("Concat", ["n1", "f1"], ["target"], "target", axis=0),
        helper.make_node("MatMul", ["x", "proj.weight"], ["m"], "proj"),
        helper.make_node("Add", ["m", "proj.bias"], ["a"], "bias"),
        helper.make_node("Reshape", ["a", "target"], ["flat"], "flat"),
        helper.make_node("Transpose", ["head.weight"], ["turned"], "turned", perm=[1, 0]),
        helper.make_node("MatMul", ["flat", "turned"], ["scores"], "head"),
    ]
    weights = [
        integers("zero", 0), integers("one", 1), integers("four", 4), integers("axis0", [0]),
        weight("proj.weight", 16, 4), weight("proj.bias", 4), weight("head.weight", 10, 24),
    ]
    return save("shapes", 17, nodes, [floats("x", "N", 6, 16)], [floats("scores", "N", 10)], weights)


def older():
    """What operators meant before: an input repeated from an axis on, equal parts, a Softmax of all axes behind one."""
    nodes = [
        helper.make_node("Add", ["x", "offset"], ["a"], "offset", axis=1, broadcast=1),
        helper.make_node("Split", ["a"], ["left", "right"], "split", axis=2),
        helper.make_node("Mul", ["left", "right"], ["m"], "gate"),
        helper.make_node("Reshape", ["m", "flat"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["s"], "fc", broadcast=1),
        helper.make_node("Softmax", ["s"], ["probabilities"], "softmax"),
    ]
    weights = [weight("offset", 4), integers("flat", [-1, 12]), weight("fc.weight", 12, 3), weight("fc.bias", 3)]
    return save("older", 6, nodes, [floats("x", "N", 4, 6)], [floats("probabilities", "N", 3)], weights)


def made():
    """Constants that the graph makes: filled in, computed, put together, cut apart, turned over and tied."""
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    two = helper.make_tensor("two", TensorProto.INT64, [1], [2])
    nodes = [
        helper.make_node("ConstantOfShape", ["square"], ["ones"], "ones", value=one),
        helper.make_node("MatMul", ["ones", "ones"], ["eights"], "eights"),
        helper.make_node("ConstantOfShape", ["pair"], ["twos"], "twos", value=two),
        helper.make_node("Concat", ["none", "twos", "none"], ["both"], "both", axis=0),
        helper.make_node("ReduceSum", ["both", "first"], ["four"], "four", keepdims=0),
        helper.make_node("Identity", ["four"], ["same"], "same"),
        helper.make_node("Shape", ["x"], ["shape"], "shape"),
        helper.make_node("Split", ["shape"], ["n", "width"], "extents", axis=0),
        helper.make_node("Mul", ["n", "eight"], ["elements"], "elements"),
        helper.make_node("Div", ["elements", "n"], ["each"], "each"),
        helper.make_node("Concat", ["minus", "each"], ["rows"], "rows", axis=0),
        helper.make_node("MatMul", ["x", "eights"], ["a"], "product"),
        helper.make_node("Reshape", ["a", "rows"], ["c"], "rows_of_a"),
        helper.make_node("MatMul", ["c", "W"], ["d"], "there"),
        helper.make_node("Transpose", ["W"], ["turned"], "turned", perm=[1, 0]),
        helper.make_node("MatMul", ["d", "turned"], ["e"], "back"),
        helper.make_node("Cast", ["same"], ["offset"], "cast", to=1),
        helper.make_node("Add", ["e", "offset"], ["y"], "offset"),
    ]
    weights = [
        integers("square", [8, 8]), integers("pair", [2]), integers("none", []), integers("first", [0]),
        integers("eight", [8]), integers("minus", [-1]), weight("W", 8, 8),
    ]
    return save("made", 13, nodes, [floats("x", "N", 8)], [floats("y", "N", 8)], weights)


def attention():
    """Attention, layer norm and GELU as an exporter of opset 16 wrote them in small pieces, and weights of half precision."""
    nodes = [
        helper.make_node("MatMul", ["x", "qkv.weight"], ["m"], "qkv"),
        helper.make_node("Add", ["qkv.bias", "m"], ["qkv"], "qkv_bias"),
        helper.make_node("Split", ["qkv", "thirds"], ["q", "k", "v"], "thirds", axis=2),
        *[helper.make_node("Reshape", [part, "heads"], [f"{part}_heads"], f"heads_of_{part}") for part in "qkv"],
        *[helper.make_node("Transpose", [f"{part}_heads"], [f"{part}_turned"], f"turned_{part}",
                           perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]) for part in "qkv"],
        helper.make_node("MatMul", ["q_turned", "k_turned"], ["products"], "products"),
        helper.make_node("Div", ["products", "root"], ["scaled"], "scaled"),
        helper.make_node("Where", ["mask", "scaled", "least"], ["masked"], "masked"),
        helper.make_node("Softmax", ["masked"], ["shares"], "shares", axis=-1),
        helper.make_node("MatMul", ["shares", "v_turned"], ["mixed"], "mixed"),
        helper.make_node("Transpose", ["mixed"], ["back"], "back", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["back", "joined"], ["flat"], "joined"),
        helper.make_node("MatMul", ["flat", "out.weight"], ["out"], "out"),
        helper.make_node("Add", ["out", "x"], ["sum"], "sum"),
        helper.make_node("ReduceMean", ["sum"], ["mean"], "mean", axes=[-1]),
        helper.make_node("Sub", ["sum", "mean"], ["centred"], "centred"),
        helper.make_node("Pow", ["centred", "two"], ["squares"], "squares"),
        helper.make_node("ReduceMean", ["squares"], ["variance"], "variance", axes=[-1]),
        helper.make_node("Add", ["variance", "epsilon"], ["more"], "more"),
        helper.make_node("Sqrt", ["more"], ["deviation"], "deviation"),
        helper.make_node("Div", ["centred", "deviation"], ["normal"], "normal"),
        helper.make_node("Mul", ["normal", "norm.weight"], ["weighted"], "weighted"),
        helper.make_node("Add", ["weighted", "norm.bias"], ["h"], "norm"),
        helper.make_node("Div", ["h", "root_of_two"], ["smaller"], "smaller"),
        helper.make_node("Erf", ["smaller"], ["erf"], "erf"),
        helper.make_node("Add", ["erf", "one"], ["erf_and_one"], "erf_and_one"),
        helper.make_node("Mul", ["h", "erf_and_one"], ["twice"], "twice"),
        helper.make_node("Mul", ["twice", "half"], ["y"], "gelu"),
    ]
    halves = numpy_helper.from_array((RANDOM.standard_normal((8, 8)) * 0.2).astype(numpy.float16), "stored.weight")
    nodes.insert(0, helper.make_node("Cast", ["stored.weight"], ["out.weight"], "widened", to=1))
    weights = [
        weight("qkv.weight", 8, 24), weight("qkv.bias", 24), integers("thirds", [8, 8, 8]),
        integers("heads", [0, 0, 2, 4]), integers("joined", [0, 0, 8]), halves,
        numpy_helper.from_array(numpy.tril(numpy.ones((5, 5), numpy.bool_)), "mask"),
        *[numpy_helper.from_array(numpy.float32(number), name) for name, number in
          [("root", 2), ("least", -1e9), ("two", 2), ("epsilon", 1e-5), ("root_of_two", 2 ** 0.5), ("one", 1),
           ("half", 0.5)]],
        weight("norm.weight", 8), weight("norm.bias", 8),
    ]
    return save("attention", 16, nodes, [floats("x", "N", 5, 8)], [floats("y", "N", 5, 8)], weights)


def recurrent():
    """Recurrences of opset 7, both ways, with lengths and peepholes, behind an embedding."""
    nodes = [
        helper.make_node("Gather", ["embedding", "tokens"], ["words"], "words"),
        helper.make_node("Transpose", ["words"], ["steps"], "steps", perm=[1, 0, 2]),
        helper.make_node("LSTM", ["steps", "lstm.W", "lstm.R", "lstm.B"], ["both", "", ""], "lstm", hidden_size=3,
                         direction="bidirectional"),
        helper.make_node("Transpose", ["both"], ["last"], "last", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["last", "rows"], ["rows_of_both"], "rows_of_both"),
        helper.make_node("GRU", ["rows_of_both", "gru.W", "gru.R", "", "", ""], ["", "g"], "gru", hidden_size=4,
                         linear_before_reset=1),
        helper.make_node("Squeeze", ["g"], ["state"], "state", axes=[0]),
        helper.make_node("RNN", ["rows_of_both", "rnn.W", "rnn.R"], ["", "r"], "rnn", hidden_size=4,
                         activations=["Relu"]),
        helper.make_node("Squeeze", ["r"], ["other"], "other", axes=[0]),
        helper.make_node("Add", ["state", "other"], ["y"], "y"),
    ]
    weights = [
        weight("embedding", 7, 5), weight("lstm.W", 2, 12, 5), weight("lstm.R", 2, 12, 3), weight("lstm.B", 2, 24),
        integers("rows", [6, -1, 6]), weight("gru.W", 1, 12, 6), weight("gru.R", 1, 12, 4), weight("rnn.W", 1, 4, 6),
        weight("rnn.R", 1, 4, 4),
    ]
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["N", 6])
    return save("recurrent", 7, nodes, [tokens], [floats("y", "N", 4)], weights)


def moved():
    """Attributes that are inputs since: what picks, pads, cuts, repeats, enlarges and orders, of opset 10."""
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    nodes = [
        helper.make_node("Constant", [], ["unit"], "unit", value=one),
        helper.make_node("Clip", ["x"], ["c"], "clip", min=-2.0, max=2.0),
        helper.make_node("Pad", ["c"], ["p"], "pad", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.5),
        helper.make_node("Conv", ["p", "conv.weight"], ["f"], "conv", group=2),
        helper.make_node("InstanceNormalization", ["f", "norm.scale", "norm.bias"], ["i"], "norm"),
        helper.make_node("Resize", ["i", "scales"], ["large"], "resize", mode="nearest"),
        helper.make_node("Slice", ["large", "starts", "ends", "axes", "steps"], ["s"], "slice"),
        helper.make_node("ConvTranspose", ["s", "turned.weight"], ["t"], "turned", strides=[2, 2]),
        helper.make_node("AveragePool", ["t"], ["a"], "pool", kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
        helper.make_node("LeakyRelu", ["a"], ["l"], "leaky", alpha=0.1),
        helper.make_node("PRelu", ["l", "slopes"], ["r"], "prelu"),
        helper.make_node("Dropout", ["r"], ["d"], "dropout", ratio=0.25),
        helper.make_node("ReduceMean", ["d"], ["means"], "means", axes=[2], keepdims=0),
        helper.make_node("Tile", ["means", "times"], ["tiled"], "tile"),
        helper.make_node("TopK", ["tiled", "k"], ["values", "places"], "top", axis=2),
        helper.make_node("Gather", ["table", "places"], ["rows"], "rows"),
        helper.make_node("ReduceSum", ["rows"], ["counts"], "counts", axes=[2], keepdims=0),
        helper.make_node("MatMul", ["values", "counts"], ["m"], "product"),
        helper.make_node("ArgMax", ["m"], ["best"], "best", axis=1),
        helper.make_node("Cast", ["best"], ["numbers"], "numbers", to=1),
        helper.make_node("Expand", ["numbers", "wide"], ["e"], "expand"),
        helper.make_node("Sub", ["e", "unit"], ["y"], "y"),
    ]
    weights = [
        weight("conv.weight", 4, 1, 3, 3), weight("norm.scale", 4), weight("norm.bias", 4),
        numpy_helper.from_array(numpy.array([1, 1, 2, 2], numpy.float32), "scales"),
        integers("starts", [1, -2]), integers("ends", [9, -100]), integers("axes", [2, 3]), integers("steps", [2, -2]),
        weight("turned.weight", 4, 3, 2, 2), weight("slopes", 3, 1, 1), integers("times", [1, 1, 2]),
        integers("k", [3]), weight("table", 24, 16), integers("wide", [1, 3, 1]),
    ]
    return save("moved", 10, nodes, [floats("x", "N", 2, 6, 6)], [floats("y", "N", 3, 16)], weights)


def quantized():
    """Quantized operators of opset 13, with scales for each channel, and weights in typed fields."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "quantize"),
        helper.make_node("QLinearConv", ["q", "scale", "zero", "conv.weight", "conv.scales", "conv.zeros", "scale", "zero",
                                         "conv.bias"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Reshape", ["c", "rows"], ["flat"], "flat"),
        helper.make_node("QLinearMatMul", ["flat", "scale", "zero", "fc.weight", "scale", "fc.zero", "scale", "zero"], ["p"],
                         "product"),
        helper.make_node("DequantizeLinear", ["p", "scale", "zero"], ["f"], "dequantize"),
        helper.make_node("MatMulInteger", ["flat", "fc.weight", "zero"], ["m"], "integers"),
        helper.make_node("Cast", ["m"], ["wide"], "wide", to=1),
        helper.make_node("Add", ["wide", "f"], ["y"], "y"),
    ]
    bytes_of = lambda name, *shape: helper.make_tensor(  # noqa: E731
        name, TensorProto.INT8, shape, RANDOM.integers(-100, 100, shape).flatten().tolist())
    weights = [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.05]), helper.make_tensor("zero", TensorProto.UINT8, [], [128]),
        bytes_of("conv.weight", 2, 1, 3, 3), helper.make_tensor("conv.scales", TensorProto.FLOAT, [2], [0.1, 0.2]),
        helper.make_tensor("conv.zeros", TensorProto.INT8, [2], [0, 0]),
        helper.make_tensor("conv.bias", TensorProto.INT32, [2], [3, -3]), bytes_of("fc.weight", 32, 4),
        helper.make_tensor("fc.zero", TensorProto.INT8, [], [1]), integers("rows", [-1, 32]),
    ]
    return save("quantized", 13, nodes, [floats("x", "N", 1, 4, 4)], [floats("y", "N", 4)], weights)

def main():
    FOLDER.mkdir(exist_ok=True)
    onnx.save(convolutions(), str(FOLDER / "convolutions.onnx"))
    model = shapes()
    (FOLDER / "external.bin").unlink(missing_ok=True)  # which would be added to
    onnx.save(model, str(FOLDER / "shapes.onnx"))
    onnx.save(model, str(FOLDER / "external.onnx"), save_as_external_data=True, location="external.bin",
              size_threshold=0)
    onnx.save(older(), str(FOLDER / "older.onnx"))
    for make in (made, attention, recurrent, moved, quantized):
        onnx.save(make(), str(FOLDER / f"{make.__name__}.onnx"))


main()
