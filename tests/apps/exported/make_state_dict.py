"""Writes a model into state_dict/ as PyTorch exports it, by each of its exporters, and the weights of another of the same
class. Run by hand, with the newest PyTorch, onnxscript and safetensors installed; the tests read the files.

    python3 make_state_dict.py [--to FOLDER] [--width 8]

    MODEL.EXPORTER.onnx        encoder, stack, positions and single, of dynamo and torchscript; norms, of torchscript that
                               keeps them; folded and affines, of dynamo
    MODEL.other.safetensors    `state_dict()` of the other
    single.half.safetensors    the same of single, in float16
    MODEL.other.npz            `x`, rows to answer, and `answers` of the other to them; labels of rows

Layers of the stack are equal when it is exported, and its token is repeated for the 2 samples of the file. Of `folded` the file
is of dynamo: its convolution has a normalisation in it, and the names that it had before. Of `positions` the files have numbers
that are no weights: a slice of a buffer, one that is not persistent, and one of the program's text. Of `single` many weights are
one number. Both scales of `affines` are equal when it is exported, and both shifts, which one call reads.
"""

import argparse
import copy
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from plain_model import make_plain

HERE = pathlib.Path(__file__).parent
ROWS, LENGTH, HEADS, CLASSES = 5, 6, 2, 7
KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node",
        "pkg.torch.export.ExportedProgram.graph_signature", "pkg.onnxscript.optimizer.folded_from")


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


class Stack(nn.Module):
    """[N, LENGTH, width] to scores, behind a token."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        layer = nn.TransformerEncoderLayer(width, HEADS, 2 * width, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, LENGTH + 1, width))
        self.slopes = nn.PReLU(LENGTH + 1)
        self.scale = nn.Parameter(torch.rand(width))
        self.head = nn.Linear(width, CLASSES)
        self.register_buffer("shift", torch.rand(width))

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), self.inner(x)], 1) + self.positions
        return self.head(self.slopes(self.layers(x))[:, 0] * self.scale + self.shift)


class Folded(nn.Module):
    """[N, 3, LENGTH] to scores."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(3, width, 3)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).mean(2))


class Norms(nn.Module):
    """[N, 3, LENGTH] to scores; not trained, so that statistics are as scales and shifts are."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Conv1d(3, width, 3), nn.Conv1d(width, width, 1)
        self.norm1, self.norm2 = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.norm2(self.second(self.norm1(self.first(x)).relu())).mean(2))


class Positions(nn.Module):
    """[N, LENGTH, width] to scores."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.head = nn.Linear(width, CLASSES)
        turns = torch.arange(50)[:, None] * 100 ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("angles", torch.stack([turns.sin(), turns.cos()], 2).flatten(1)[None])
        self.register_buffer("shift", torch.rand(1, LENGTH, width), persistent=False)

    def forward(self, x):
        x = self.inner(x) + self.angles[:, :x.shape[1]]
        return self.head(x.relu() * torch.tensor([0.5, 2.0] * (x.shape[2] // 2)) + self.shift).mean(1)


class Single(nn.Module):
    """[N, 3, LENGTH] to one number."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(3, 1, 3)
        self.slope = nn.PReLU()
        self.inner = nn.Linear(LENGTH - 2, width)
        self.gain = nn.Parameter(torch.tensor(1.5))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.inner(self.slope(self.conv(x)).flatten(1)).relu() * self.gain)


class Affine(nn.Module):
    """As ResMLP has it (Touvron et al. 2021)."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, 1, width))
        self.shift = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, x):
        return torch.addcmul(self.shift, x, self.scale)


class Affines(nn.Module):
    """[N, LENGTH, width] to scores."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = Affine(width), Affine(width)
        self.inner, self.head = nn.Linear(width, width), nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.second(self.inner(self.first(x)).relu()).mean(1))


def otherwise(model):
    """With other parameters and statistics, of which none are equal."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.add_(torch.rand_like(buffer))
    return model


def write(to, name, model, other, *shape, exporters=("dynamo", "torchscript")):
    for exporter in exporters:
        path = str(to / f"{name}.{exporter}.onnx")
        mode = torch.onnx.TrainingMode.PRESERVE if exporter == "preserve" else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(model, (torch.randn(2, *shape),), path, input_names=["x"], output_names=["scores"],
                          dynamo=exporter == "dynamo", training=mode, external_data=False)
        make_plain(path, KEPT)
    save_file({key: tensor.contiguous() for key, tensor in other.state_dict().items()}, to / f"{name}.other.safetensors")
    x = torch.randn(ROWS, *shape)
    labels = torch.randint(CLASSES, (ROWS,))
    np.savez(to / f"{name}.other.npz", x=x.numpy(), answers=other(x).detach().numpy(), labels=labels.numpy())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=pathlib.Path, default=HERE / "state_dict")
    parser.add_argument("--width", type=int, default=8)
    given = parser.parse_args()
    given.to.mkdir(exist_ok=True)
    torch.manual_seed(0)
    width = given.width
    write(given.to, "encoder", Encoder(width).eval(), Encoder(width).eval(), LENGTH, width)
    write(given.to, "stack", Stack(width).eval(), otherwise(Stack(width).eval()), LENGTH, width)
    write(given.to, "folded", Folded(width).eval(), otherwise(Folded(width).eval()), 3, LENGTH, exporters=["dynamo"])
    positions = Positions(width).eval()
    norms = Norms(width).eval()
    write(given.to, "norms", norms, otherwise(copy.deepcopy(norms)), 3, LENGTH, exporters=["preserve"])
    write(given.to, "positions", positions, otherwise(copy.deepcopy(positions)), LENGTH, width)
    single, affines = Single(width).eval(), Affines(width).eval()
    other = otherwise(copy.deepcopy(single)).half().float()
    write(given.to, "single", single, other, 3, LENGTH)
    save_file({key: tensor.half() for key, tensor in other.state_dict().items()}, given.to / "single.half.safetensors")
    write(given.to, "affines", affines, otherwise(copy.deepcopy(affines)), LENGTH, width, exporters=["dynamo"])


main()
