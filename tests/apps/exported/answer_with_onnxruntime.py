"""What ONNX Runtime answers: answer_with_onnxruntime.py MODEL.onnx INPUT=ROWS.npy ANSWERS.npy. The model is checked too."""

import sys

import numpy
import onnx
import onnxruntime

model, given, answers = sys.argv[1:]
onnx.checker.check_model(onnx.load(model), full_check=True)
name, rows = given.split("=")
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
numpy.save(answers, session.run(None, {name: numpy.load(rows)})[0])
