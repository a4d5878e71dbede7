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


def main():
    FOLDER.mkdir(exist_ok=True)
    onnx.save(convolutions(), str(FOLDER / "convolutions.onnx"))
    model = shapes()
    onnx.save(model, str(FOLDER / "shapes.onnx"))
    onnx.save(model, str(FOLDER / "external.onnx"), save_as_external_data=True, location="external.bin",
              size_threshold=0)
    onnx.save(older(), str(FOLDER / "older.onnx"))
    onnx.save(made(), str(FOLDER / "made.onnx"))


main()
