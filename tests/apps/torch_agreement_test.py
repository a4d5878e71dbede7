"""Kerf and PyTorch, from the same initial weights over the same rows, take the same 50 steps.

Each step's loss agrees within 1e-4 relative, each final weight within 1e-4 of its norm.
"""

import gzip
import pathlib
import sys
import unittest

from kerf_command import KerfTest, read_safetensors

try:
    import numpy as np
    import torch

    from philox import permutation
except ImportError as missing:
    print(f"skipped: {missing} (apt-get install python3-torch)")
    sys.exit(77)

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
BATCH, STEPS, SEED, LR, MOMENTUM = 128, 50, 3, 0.02, 0.9


def training_rows():
    with gzip.open(DATA / "train-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(DATA / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), dtype=np.uint8, offset=8)
    return ((pixels / 255.0 - 0.2860) / 0.3530).astype(np.float32), labels.astype(np.int64)


class LeNet5(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.fc1 = torch.nn.Linear(400, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, 10)

    def forward(self, x):
        pool, relu = torch.nn.functional.max_pool2d, torch.relu
        x = pool(relu(self.conv1(x.reshape(-1, 1, 28, 28))), 2)
        x = pool(relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(relu(self.fc2(relu(self.fc1(x)))))


class Mlp(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.count = len(sizes) - 1
        for i in range(self.count):
            setattr(self, f"fc{i + 1}", torch.nn.Linear(sizes[i], sizes[i + 1]))

    def forward(self, x):
        for i in range(1, self.count):
            x = torch.relu(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.count}")(x)


@unittest.skipUnless(DATA.exists(), "apt-get install dataset-fashion-mnist")
class TorchAgreement(KerfTest):
    def load(self, module, path):
        stored = read_safetensors(path)
        self.assertEqual(sorted(stored), sorted(name for name, _ in module.named_parameters()))
        for name, parameter in module.named_parameters():
            shape, data = stored[name]
            self.assertEqual(shape, list(parameter.shape), name)
            parameter.data.copy_(torch.from_numpy(np.frombuffer(data, dtype=np.float32).reshape(shape).copy()))

    def torch_losses(self, module):
        features, labels = training_rows()
        order = permutation(len(labels), SEED, 0)
        optimizer = torch.optim.SGD(module.parameters(), lr=LR, momentum=MOMENTUM)
        losses = []
        for step in range(STEPS):
            rows = order[step * BATCH:(step + 1) * BATCH]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(features[rows])),
                                                     torch.from_numpy(labels[rows]))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def compare(self, module, *model):
        torch.manual_seed(0)
        flags = (*model, "--data", "fashion-mnist", "--batch", BATCH, "--seed", SEED, "--lr", LR, "--momentum", MOMENTUM,
                 "--workers", 2, "--no-test")
        self.train(*flags, "--steps", 0, out="initial")
        self.load(module, self.folder / "initial" / "weights.safetensors")
        ours = self.train(*flags, "--steps", STEPS)["losses"]
        theirs = self.torch_losses(module)
        worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
        print(f"{model[0]}: losses differ by at most {worst:.2e} relative")
        self.assertLessEqual(worst, 1e-4)
        trained = read_safetensors(self.folder / "run" / "weights.safetensors")
        for name, parameter in module.named_parameters():
            theirs = parameter.detach().numpy().ravel()
            ours = np.frombuffer(trained[name][1], dtype=np.float32)
            self.assertLessEqual(np.linalg.norm(ours - theirs), 1e-4 * np.linalg.norm(theirs), name)

    def test_lenet5(self):
        self.compare(LeNet5(), "lenet5")

    def test_mlp(self):
        self.compare(Mlp([784, 128, 64, 10]), "mlp", "--sizes", "784-128-64-10")


if __name__ == "__main__":
    unittest.main()
