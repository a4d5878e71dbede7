"""Writes the models beside it as PyTorch exports them, by each of its exporters, and what PyTorch makes of them. Run by
hand, with the newest PyTorch, torchvision and onnxscript installed; the tests read the files.

    python3 make_exported.py [--to FOLDER] [--narrow 32] [--image 16]

    MODEL.dynamo.onnx, MODEL.torchscript.onnx   torch.onnx.export with dynamo=True and with dynamo=False
    MODEL.npz                                   rows to train with and to answer, INPUT_train, label_train, INPUT_test,
                                                label_test; `answers` to INPUT_test; and of fine-tuning as below
                                                EXPORTER_losses of each step and EXPORTER_tuned, the answers then

MODEL is resnet18, torchvision's with every layer a 32nd as wide, and transformer. Fine-tuning is STEPS steps of SGD over
batches of BATCH rows in their order, batch normalisations as they are; dynamo folds them into the convolutions, which
are fine-tuned so.
"""

import argparse
import copy
import pathlib

import numpy as np
import torch
import torchvision
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from plain_model import make_plain

HERE = pathlib.Path(__file__).parent
ROWS, HELD_OUT = 16, 5
STEPS, BATCH, RATE, MOMENTUM = 3, 8, 0.05, 0.9
CLASSES, TOKENS, LENGTH, WIDTH, HEADS = 10, 40, 12, 32, 4


class Block(nn.Module):
    """Of a transformer that looks back only, normalised first."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(seen.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Tokens [N, LENGTH] to the scores of the token behind each, [N, LENGTH, TOKENS]."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def narrowed(module, by):
    """The same network with every layer's channels divided by `by`, but for its inputs and its classes."""
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d):
            inputs = child.in_channels if child.in_channels == 3 else child.in_channels // by
            child = nn.Conv2d(inputs, child.out_channels // by, child.kernel_size, child.stride, child.padding, bias=False)
        elif isinstance(child, nn.BatchNorm2d):
            child = nn.BatchNorm2d(child.num_features // by)
        elif isinstance(child, nn.Linear):
            child = nn.Linear(child.in_features // by, child.out_features)
        else:
            narrowed(child, by)
        setattr(module, name, child)
    return module


def resnet18(narrow, image):
    model = narrowed(torchvision.models.resnet18(num_classes=CLASSES), narrow)
    model(torch.randn(32, 3, image, image))  # statistics of something
    return model.eval()


def told_apart(model):
    """As if it had been trained: exporters make one of all parameters that are equal, as those of fresh norms are."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) * 0.05
    return model


def folded(model):
    """Batch normalisations within the convolutions before them."""
    convolution = None
    for name, child in model.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(model, convolution, fuse_conv_bn_eval(getattr(model, convolution), child))
            setattr(model, name, nn.Identity())
        else:
            folded(child)
        convolution = name
    return model


def rows_of(name, image):
    """Few different numbers, so that they take little room."""
    if name == "transformer":
        text = torch.randint(TOKENS, (ROWS + HELD_OUT, LENGTH + 1))
        return text[:, :-1], text[:, 1:]
    pictures = torch.randint(-4, 5, (ROWS + HELD_OUT, 3, image, image)) / 4
    return pictures, torch.randint(CLASSES, (ROWS + HELD_OUT,))


def fine_tuned(model, rows, labels):
    """The loss of each step; the model is changed."""
    model.requires_grad_()  # biases that come of folding too
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    losses = []
    for step in range(STEPS):
        at = slice(step * BATCH % ROWS, step * BATCH % ROWS + BATCH)
        optimizer.zero_grad()
        scores = model(rows[at])
        loss = functional.cross_entropy(scores.flatten(0, -2), labels[at].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def write(folder, name, model, of_input, image):
    rows, labels = rows_of(name, image)
    held_out = rows[ROWS:]
    arrays = {f"{key}_{split}": numbers[at].numpy() for key, numbers in ((of_input, rows), ("label", labels))
              for split, at in (("train", slice(ROWS)), ("test", slice(ROWS, None)))}
    with torch.no_grad():
        arrays["answers"] = model(held_out).numpy()
    for exporter, arguments in (("dynamo", {"dynamo": True, "external_data": False}),
                                ("torchscript", {"dynamo": False, "training": torch.onnx.TrainingMode.PRESERVE})):
        path = folder / f"{name}.{exporter}.onnx"
        torch.onnx.export(model, (rows[:2],), str(path), input_names=[of_input], output_names=["scores"], **arguments)
        make_plain(path)
        tuned = copy.deepcopy(model)
        arrays[f"{exporter}_losses"] = np.array(fine_tuned(folded(tuned) if exporter == "dynamo" else tuned, rows, labels))
        with torch.no_grad():
            arrays[f"{exporter}_tuned"] = tuned(held_out).numpy()
    np.savez_compressed(folder / f"{name}.npz", **arrays)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=pathlib.Path, default=HERE)
    parser.add_argument("--narrow", type=int, default=32)
    parser.add_argument("--image", type=int, default=16)
    flags = parser.parse_args()
    torch.manual_seed(7)
    write(flags.to, "resnet18", told_apart(resnet18(flags.narrow, flags.image)), "image", flags.image)
    write(flags.to, "transformer", told_apart(Transformer().eval()), "tokens", flags.image)


main()
