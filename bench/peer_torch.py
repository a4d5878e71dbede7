"""Training steps in PyTorch, for comparison: prints {"step_seconds": [...]} as JSON.

    peer_torch.py lenet5|convnet|mlp [--sizes 784-4096-4096-10] [--batch 256] [--steps 20] [--threads 1] [--channels-last]

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


def convnet(sizes):
    nn = torch.nn
    layers, channels, side = [nn.Unflatten(1, (1, 28, 28))], 1, 28
    for width in sizes:
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
                   nn.MaxPool2d(2)]
        channels, side = width, side // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side * side, 128), nn.ReLU(), nn.Linear(128, 10))


def mlp(sizes):
    layers = []
    for i in range(len(sizes) - 1):
        layers += [torch.nn.Linear(sizes[i], sizes[i + 1]), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["lenet5", "convnet", "mlp"])
    parser.add_argument("--sizes", default=None, help="default 784-4096-4096-10, or 32-64 of convnet")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--channels-last", action="store_true", help="its weights, and so its images, as PyTorch can")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    sizes = arguments.sizes or ("32-64" if arguments.model == "convnet" else "784-4096-4096-10")
    sizes = [int(size) for size in sizes.split("-")]
    model = {"lenet5": lenet5, "convnet": lambda: convnet(sizes), "mlp": lambda: mlp(sizes)}[arguments.model]()
    if arguments.channels_last:
        model = model.to(memory_format=torch.channels_last)
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
