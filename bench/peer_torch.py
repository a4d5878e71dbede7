"""Training steps in PyTorch, for comparison: prints {"step_seconds": [...], "torch": VERSION} as JSON.

    peer_torch.py lenet5|convnet|cnn|mlp|resnet50|vgg16|gpt [--sizes 784-4096-4096-10] [--batch 256] [--steps 20] [--threads 1]
                  [--mode eager|channels-last|compile] [--device cpu|cuda:0] [--start] [--export FILE.onnx]

A step is zero_grad, forward, cross-entropy, backward, SGD with momentum 0.9, on a batch that is ready in the device's memory, in
float32 (no TF32). resnet50 and
vgg16 are torchvision's, for images of 64 rows and columns; gpt has the sizes of `kerf train gpt`; cnn is PyTorch's own example
for handwritten digits. --export writes the model and takes no step.
"""

import argparse
import json
import os
import time

import torch

nn = torch.nn
NETWORKS = ("resnet50", "vgg16")  # torchvision's
SIZES = {"mlp": "784-4096-4096-10", "convnet": "32-64", "gpt": "4-512-8-128-96"}


def lenet5():
    return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(),
                         nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def convnet(sizes):
    layers, channels, side = [nn.Unflatten(1, (1, 28, 28))], 1, 28
    for width in sizes:
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
                   nn.MaxPool2d(2)]
        channels, side = width, side // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side * side, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def mlp(sizes):
    layers = []
    for i in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Block(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.packed, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.mlp = nn.Sequential(nn.Linear(features, 4 * features), nn.GELU(), nn.Linear(4 * features, features))

    def attend(self, x):
        n, t, d = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.packed(x).split(d, dim=2))
        if hasattr(nn.functional, "scaled_dot_product_attention"):
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) / (d // self.heads) ** 0.5
            later = torch.ones(t, t, dtype=torch.bool).triu(1)
            y = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, d))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, layers, features, heads, tokens, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, features)
        self.wpe = nn.Parameter(0.02 * torch.randn(tokens, features))
        self.blocks = nn.Sequential(*[Block(features, heads) for _ in range(layers)])
        self.head = nn.Sequential(nn.LayerNorm(features), nn.Linear(features, vocabulary))

    def forward(self, tokens):
        return self.head(self.blocks(self.wte(tokens) + self.wpe)).flatten(0, 1)


def make(name, sizes):
    if name in NETWORKS:
        import torchvision
        return getattr(torchvision.models, name)()
    return {"lenet5": lenet5, "cnn": cnn, "convnet": lambda: convnet(sizes), "mlp": lambda: mlp(sizes),
            "gpt": lambda: Gpt(*sizes)}[name]()


def rows(name, sizes, batch):
    if name in NETWORKS:
        return torch.randn(batch, 3, 64, 64), torch.randint(0, 1000, (batch,))
    if name == "gpt":
        tokens, vocabulary = sizes[3:]
        return torch.randint(0, vocabulary, (batch, tokens)), torch.randint(0, vocabulary, (batch * tokens,))
    if name == "cnn":
        return torch.randn(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    return torch.randn(batch, sizes[0] if name == "mlp" else 784), torch.randint(0, 10, (batch,))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["lenet5", "convnet", "cnn", "mlp", "resnet50", "vgg16", "gpt"])
    parser.add_argument("--sizes", default=None, help="default 784-4096-4096-10, 32-64 of convnet, 4-512-8-128-96 of gpt")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=["eager", "channels-last", "compile"], default="eager")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--start", action="store_true", help="end before the model is made, with nothing taken down")
    parser.add_argument("--export", metavar="FILE.onnx", help="write the model, and end")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    if arguments.start:
        if arguments.model in NETWORKS:
            import torchvision  # noqa: F401
        os._exit(0)  # to take an interpreter down touches more memory than to start it
    sizes = arguments.sizes or SIZES.get(arguments.model)
    sizes = [int(size) for size in sizes.split("-")] if sizes else []
    model = make(arguments.model, sizes)
    x, y = rows(arguments.model, sizes, arguments.batch)
    if arguments.export:
        torch.onnx.export(model, x, arguments.export, input_names=["x"], dynamic_axes={"x": {0: "N"}})
        return
    if arguments.mode == "channels-last":
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last) if x.dim() == 4 else x
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model, x, y = (each.to(arguments.device) for each in (model, x, y))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    run = torch.compile(model) if arguments.mode == "compile" else model
    seconds = []
    for _ in range(arguments.steps + 2):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(run(x), y).backward()
        optimizer.step()
        if arguments.device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"step_seconds": seconds[2:], "torch": torch.__version__}))


if __name__ == "__main__":
    main()
