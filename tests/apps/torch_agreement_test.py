"""Kerf and PyTorch, from the same initial weights over the same rows, take the same 50 steps.

Each step's loss agrees within 1e-4 relative, each final weight within 1e-4 of its norm.
"""

import gzip
import math
import pathlib
import sys
import unittest

from kerf_command import KerfTest, read_safetensors, write_safetensors

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


class Seq2Seq(torch.nn.Module):
    def __init__(self, vocabulary, width, hidden, layers):
        super().__init__()
        self.source_embedding = torch.nn.Embedding(vocabulary, width)
        self.encoder = torch.nn.LSTM(width, hidden, layers, batch_first=True)
        self.target_embedding = torch.nn.Embedding(vocabulary, width)
        self.decoder = torch.nn.LSTM(width, hidden, layers, batch_first=True)
        self.scores = torch.nn.Linear(hidden, vocabulary)

    def forward(self, source, target):
        _, states = self.encoder(self.source_embedding(source))
        return self.scores(self.decoder(self.target_embedding(target), states)[0]).transpose(1, 2)


class SequenceAgreement(KerfTest):
    def test_seq2seq_begins_with_the_weights_of_a_state_dict(self):
        torch.manual_seed(1)
        module = Seq2Seq(9, 8, 12, 2)
        given = self.folder / "given.safetensors"
        write_safetensors(given, {name: tensor.numpy() for name, tensor in module.state_dict().items()})
        draws = np.random.default_rng(2)
        source, target, label = (draws.integers(0, 9, (180, length)) for length in (6, 4, 4))
        rows = self.folder / "rows.npz"
        np.savez(rows, source=source, target=target, label=label)
        flags = ("seq2seq", "--sizes", "6-4-9-8-12-2", "--data", rows, "--batch", 18, "--workers", 2, "--no-shuffle", "--no-test",
                 "--lr", 0.5, "--momentum", MOMENTUM, "--weights", given)
        self.train(*flags, "--steps", 0, out="same")
        self.assertEqual(read_safetensors(self.folder / "same" / "weights.safetensors"), read_safetensors(given))
        ours = self.train(*flags, "--steps", 9)["losses"]
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=MOMENTUM)
        for step, mine in enumerate(ours):
            at = slice(18 * step, 18 * step + 18)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(source[at]), torch.from_numpy(target[at])),
                                                     torch.from_numpy(label[at]))
            loss.backward()
            optimizer.step()
            self.assertLessEqual(abs(mine - loss.item()), 1e-4 * loss.item(), step)
        trained = read_safetensors(self.folder / "run" / "weights.safetensors")
        for name, parameter in module.named_parameters():
            theirs = parameter.detach().numpy()
            shape, data = trained[name]
            self.assertEqual(shape, list(theirs.shape), name)
            ours = np.frombuffer(data, dtype=np.float32)
            self.assertLessEqual(np.linalg.norm(ours - theirs.ravel()), 1e-4 * np.linalg.norm(theirs), name)


@unittest.skipUnless(DATA.exists(), "apt-get install dataset-fashion-mnist")
class TorchAgreement(KerfTest):
    def load(self, module, path):
        stored = read_safetensors(path)
        self.assertEqual(sorted(stored), sorted(name for name, _ in module.named_parameters()))
        for name, parameter in module.named_parameters():
            shape, data = stored[name]
            self.assertEqual(shape, list(parameter.shape), name)
            parameter.data.copy_(torch.from_numpy(np.frombuffer(data, dtype=np.float32).reshape(shape).copy()))

    def torch_losses(self, module, optimizer, rate, clip):
        features, labels = training_rows()
        order = permutation(len(labels), SEED, 0)
        losses = []
        for step in range(STEPS):
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
            rows = order[step * BATCH:(step + 1) * BATCH]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(features[rows])),
                                                     torch.from_numpy(labels[rows]))
            loss.backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
            optimizer.step()
            losses.append(loss.item())
        return losses

    def compare(self, module, *model, optimizer=None, flags=("--lr", LR, "--momentum", MOMENTUM), rate=lambda step: LR, clip=0):
        torch.manual_seed(0)
        flags = (*model, "--data", "fashion-mnist", "--batch", BATCH, "--seed", SEED, "--workers", 2, "--no-test", *flags)
        self.train(*flags, "--steps", 0, out="initial")
        self.load(module, self.folder / "initial" / "weights.safetensors")
        ours = self.train(*flags, "--steps", STEPS)["losses"]
        optimizer = optimizer or torch.optim.SGD(module.parameters(), lr=LR, momentum=MOMENTUM)
        theirs = self.torch_losses(module, optimizer, rate, clip)
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

    def test_nesterov_with_decay_and_steps(self):
        module = Mlp([784, 64, 10])
        self.compare(module, "mlp", "--sizes", "784-64-10",
                     optimizer=torch.optim.SGD(module.parameters(), lr=LR, momentum=0.8, nesterov=True, weight_decay=0.01),
                     flags=("--lr", LR, "--momentum", 0.8, "--nesterov", "--weight-decay", 0.01, "--lr-schedule", "step:20:0.5"),
                     rate=lambda step: LR * 0.5 ** (step // 20))

    def test_adagrad(self):
        module = Mlp([784, 64, 10])
        self.compare(module, "mlp", "--sizes", "784-64-10", optimizer=torch.optim.Adagrad(module.parameters(), weight_decay=0.001),
                     flags=("--optimizer", "adagrad", "--weight-decay", 0.001), rate=lambda step: 0.01)

    def test_adam(self):
        module = Mlp([784, 64, 10])
        self.compare(module, "mlp", "--sizes", "784-64-10",
                     optimizer=torch.optim.Adam(module.parameters(), betas=(0.8, 0.99), eps=1e-6, weight_decay=0.001),
                     flags=("--optimizer", "adam", "--beta1", 0.8, "--beta2", 0.99, "--eps", 1e-6, "--weight-decay", 0.001),
                     rate=lambda step: 0.001)

    def test_adamw_by_cosine_with_warm_up_and_clipping(self):
        module = Mlp([784, 64, 10])
        biases = [p for name, p in module.named_parameters() if name.endswith(".bias")]
        weights = [p for name, p in module.named_parameters() if name.endswith(".weight")]
        groups = [{"params": weights, "weight_decay": 0.05}, {"params": biases, "weight_decay": 0.0}]
        self.compare(module, "mlp", "--sizes", "784-64-10", optimizer=torch.optim.AdamW(groups, eps=1e-6),
                     flags=("--optimizer", "adamw", "--eps", 1e-6, "--weight-decay", 0.05, "--no-decay", "*.bias", "--lr", 0.002,
                            "--lr-schedule", "cosine", "--warm-up", 10, "--clip-norm", 0.5),
                     rate=lambda step: 0.002 * (step + 1) / 10 if step < 10
                     else 0.001 * (1 + math.cos(math.pi * (step - 10) / (STEPS - 10))), clip=0.5)


if __name__ == "__main__":
    unittest.main()
