"""What ONNX Runtime answers: answer_with_onnxruntime.py MODEL.onnx INPUT=ROWS.npy ... ANSWERS.npy. The model is checked too;
the answers are its first output's."""

import sys

import numpy
import onnx
import onnxruntime

model, *given, answers = sys.argv[1:]
onnx.checker.check_model(onnx.load(model), full_check=True)
rows = {name: numpy.load(file) for name, file in (each.split("=") for each in given)}
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
numpy.save(answers, session.run(None, rows)[0])
