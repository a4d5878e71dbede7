"""Writes models into fixed_batch/ as PyTorch exports them for a batch of BATCH samples and no other, by each of its
exporters. Run by hand, with the newest PyTorch and onnxscript installed; the tests read the files.

    python3 make_fixed_batch.py [--to FOLDER] [--width 8]

    MODEL.EXPORTER.BATCH.onnx   of dynamo and torchscript
    MODEL.npz                   `x`, rows to answer, and `answers` to them; labels: for each row, or each of its positions
"""

import argparse
import pathlib

import numpy as np
import torch
from torch import nn

from plain_model import make_plain

HERE = pathlib.Path(__file__).parent
ROWS, LENGTH, WORDS, HEADS = 5, 6, 7, 2
BATCHES = (1, 2)


def encoder(width, first):
    layer = nn.TransformerEncoderLayer(width, HEADS, 2 * width, batch_first=first, norm_first=first)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


class Vit(nn.Module):
    """Images [N, 3, 8, 8], a class token before their patches."""

    def __init__(self, width):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 5, width))
        self.encoder = encoder(width, True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, x):
        patches = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.token.expand(len(x), -1, -1), patches], 1) + self.positions
        return self.head(self.encoder(rows)[:, 0])


class Lstm(nn.Module):
    """Scores of the word behind each."""

    def __init__(self, width):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, x):
        return self.head(self.lstm(self.words(x))[0])


class Encoder(nn.Module):
    """The same by a transformer that has positions first."""

    def __init__(self, width):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.positions = nn.Parameter(torch.randn(LENGTH, 1, width))
        self.encoder = encoder(width, False)
        self.head = nn.Linear(width, WORDS)

    def forward(self, x):
        return self.head(self.encoder(self.words(x).transpose(0, 1) + self.positions).transpose(0, 1))


class Attention(nn.Module):
    """[N, LENGTH, 3], whose attention gives its weights, too: that is exported otherwise."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(3, width)
        self.attention = nn.MultiheadAttention(width, HEADS, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, x):
        inner = self.inner(x)
        return self.head(self.attention(inner, inner, inner)[0].mean(1))


def words(rows):
    return torch.randint(WORDS, (rows, LENGTH))


MODELS = {"vit": (Vit, lambda rows: torch.randn(rows, 3, 8, 8)), "lstm": (Lstm, words), "encoder": (Encoder, words),
          "attention": (Attention, lambda rows: torch.randn(rows, LENGTH, 3))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=pathlib.Path, default=HERE / "fixed_batch")
    parser.add_argument("--width", type=int, default=8)
    given = parser.parse_args()
    given.to.mkdir(exist_ok=True)
    torch.manual_seed(0)
    for name, (make, inputs) in MODELS.items():
        model = make(given.width).eval()
        x = inputs(ROWS)
        answers = model(x).detach()
        labels = torch.randint(WORDS, answers.shape[:-1])
        np.savez(given.to / f"{name}.npz", x=x.numpy(), answers=answers.numpy(), labels=labels.numpy())
        for exporter in ("dynamo", "torchscript"):
            for batch in BATCHES:
                path = str(given.to / f"{name}.{exporter}.{batch}.onnx")
                torch.onnx.export(model, (inputs(batch),), path, input_names=["x"], output_names=["scores"],
                                  dynamo=exporter == "dynamo", external_data=False)
                make_plain(path, ("pkg.torch.onnx.name_scopes",))


main()
