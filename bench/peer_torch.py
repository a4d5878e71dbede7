"""Training steps in PyTorch, for comparison: prints {"step_seconds": [...]} as JSON.

    peer_torch.py lenet5|mlp [--sizes 784-4096-4096-10] [--batch 256] [--steps 20] [--threads 1]

A step is zero_grad, forward, cross-entropy, backward, SGD with momentum 0.9, on a batch that is ready in memory.
"""

import argparse
import json
import time

import torch


def lenet5():
    nn = torch.nn
    return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(),
                         nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def mlp(sizes):
    layers = []
    for i in range(len(sizes) - 1):
        layers += [torch.nn.Linear(sizes[i], sizes[i + 1]), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["lenet5", "mlp"])
    parser.add_argument("--sizes", default="784-4096-4096-10")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = lenet5() if arguments.model == "lenet5" else mlp([int(size) for size in arguments.sizes.split("-")])
    x = torch.randn(arguments.batch, 784)
    y = torch.randint(0, 10, (arguments.batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    seconds = []
    for _ in range(arguments.steps + 2):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"step_seconds": seconds[2:]}))


main()
