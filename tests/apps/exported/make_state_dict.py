"""Writes a model into state_dict/ as PyTorch exports it, by each of its exporters, and the weights of another of the same
class. Run by hand, with the newest PyTorch, onnxscript and safetensors installed; the tests read the files.

    python3 make_state_dict.py [--to FOLDER] [--width 8]

    encoder.EXPORTER.onnx   of dynamo and torchscript
    other.safetensors       `state_dict()` of the other
    other.npz               `x`, rows to answer, and `answers` of the other to them; labels of rows
"""

import argparse
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from plain_model import make_plain

HERE = pathlib.Path(__file__).parent
ROWS, LENGTH, HEADS, CLASSES = 5, 6, 2, 7
KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")


class Encoder(nn.Module):
    """[N, LENGTH, width] to scores; one of its layers has a bias and one has none."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width, bias=False)
        self.layer = nn.TransformerEncoderLayer(width, HEADS, 2 * width, batch_first=True)
        self.head = nn.Linear(width, CLASSES)
        with torch.no_grad():
            for parameter in self.parameters():  # of which none are equal
                parameter.add_(torch.randn_like(parameter) * 0.2)

    def forward(self, x):
        return self.head(self.layer(self.inner(x)).mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=pathlib.Path, default=HERE / "state_dict")
    parser.add_argument("--width", type=int, default=8)
    given = parser.parse_args()
    given.to.mkdir(exist_ok=True)
    torch.manual_seed(0)
    model, other = Encoder(given.width).eval(), Encoder(given.width).eval()
    for exporter in ("dynamo", "torchscript"):
        path = str(given.to / f"encoder.{exporter}.onnx")
        torch.onnx.export(model, (torch.randn(2, LENGTH, given.width),), path, input_names=["x"], output_names=["scores"],
                          dynamo=exporter == "dynamo", external_data=False)
        make_plain(path, KEPT)
    save_file({name: tensor.contiguous() for name, tensor in other.state_dict().items()}, given.to / "other.safetensors")
    x = torch.randn(ROWS, LENGTH, given.width)
    np.savez(given.to / "other.npz", x=x.numpy(), answers=other(x).detach().numpy(), labels=torch.randint(CLASSES, (ROWS,)).numpy())


main()
