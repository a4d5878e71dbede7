"""ONNX Runtime's side of against_onnxruntime.py; each command prints JSON.

    peer_onnxruntime.py draw MODEL.onnx FOLDER [--rows 2]     drawn.onnx, the same with random weights, and rows.npy
    peer_onnxruntime.py time MODEL.onnx ROWS.npy              {"row_seconds": [...], "onnxruntime": VERSION}
    peer_onnxruntime.py compare MODEL.onnx ROWS.npy FOLDER    {"difference": ...} from FOLDER's NAME.npy, of the largest number

Rows are answered one by one, with one thread, and every optimisation of graphs that ONNX Runtime has. Of drawn.onnx what a
Softmax reads is an output too: answers of random weights may be all 0 but one.
"""

import argparse
import json
import pathlib
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

WARM_UP = 3
ROWS = "rows.npy"
DRAWN = "drawn.onnx"


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def answers(session, rows):
    """The outputs of each row, and how long each took."""
    name = session.get_inputs()[0].name
    results, seconds = [], []
    for row in rows:
        start = time.perf_counter()
        results.append(session.run(None, {name: row[None]}))
        seconds.append(time.perf_counter() - start)
    return results, seconds


def drawn(shape, random):
    """Weights that keep the size of what they are applied to, and all else about 1."""
    if len(shape) > 1 and numpy.prod(shape[1:]) > 1:
        return random.standard_normal(shape) * numpy.sqrt(2 / numpy.prod(shape[1:]))
    return random.uniform(0.5, 1.5, shape)


def draw(arguments):
    model = onnx.load(arguments.model)
    graph, random = model.graph, numpy.random.default_rng(5)
    stored = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    shapes = {name: value.shape for name, value in stored.items() if value.dtype == numpy.float32}
    for node in [each for each in graph.node if each.op_type == "ConstantOfShape"]:
        shapes[node.output[0]] = tuple(stored[node.input[0]])
        graph.node.remove(node)
    kept = [each for each in graph.initializer if each.name not in shapes]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    for name, shape in shapes.items():
        graph.initializer.append(numpy_helper.from_array(drawn(shape, random).astype(numpy.float32), name))
    for node in graph.node:
        if node.op_type == "Softmax":
            graph.output.append(helper.make_tensor_value_info(node.input[0], TensorProto.FLOAT, None))
    onnx.save(model, str(arguments.folder / DRAWN))
    data = next(each for each in graph.input if each.name not in shapes and each.name not in stored)
    extents = [each.dim_value for each in data.type.tensor_type.shape.dim][1:]
    numpy.save(arguments.folder / ROWS, random.standard_normal((arguments.rows, *extents)).astype(numpy.float32))
    return {"input": data.name}


def measure(arguments):
    rows = numpy.load(arguments.rows)
    session = session_of(arguments.model)
    answers(session, rows[:WARM_UP])
    return {"row_seconds": answers(session, rows)[1], "onnxruntime": onnxruntime.__version__}


def compare(arguments):
    session = session_of(arguments.model)
    results, _ = answers(session, numpy.load(arguments.rows))
    difference = 0.0
    for i, output in enumerate(session.get_outputs()):
        theirs = numpy.concatenate([each[i] for each in results])
        ours = numpy.load(arguments.folder / (output.name.replace("/", "_") + ".npy"))
        assert ours.shape == theirs.shape and numpy.isfinite(theirs).all(), output.name
        difference = max(difference, float(abs(ours - theirs).max() / abs(theirs).max()))
    return {"difference": difference}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for act, name in ((draw, "draw"), (measure, "time"), (compare, "compare")):
        command = commands.add_parser(name)
        command.set_defaults(act=act)
        command.add_argument("model", type=pathlib.Path)
        if act is not draw:
            command.add_argument("rows", type=pathlib.Path)
        if act is not measure:
            command.add_argument("folder", type=pathlib.Path)
        if act is draw:
            command.add_argument("--rows", type=int, default=2)
    arguments = parser.parse_args()
    print(json.dumps(arguments.act(arguments)))


main()
