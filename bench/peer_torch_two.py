"""Training steps in PyTorch on two cores, for comparison: prints {"step_seconds": [...], "torch": VERSION} as JSON.

    peer_torch_two.py MODEL --way threads|ddp|pipeline [--sizes S] [--batch 64] [--steps 5] [--micro-batches 8] [--mode eager]

Models, their data, a step and --mode are those of peer_torch.py. threads: one process that computes with two threads. ddp: two
processes of one thread, each with half of the batch, DistributedDataParallel over gloo. pipeline: two processes of one thread
with the model's layers divided between them where the slower half is fastest (layers are timed first), micro-batches in 1F1B
order, activations and their gradients over gloo; sends do not wait.
"""

import argparse
import json
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

import peer_torch

nn = torch.nn
TIMED = 2  # layers are timed so many times, and the fastest counts


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Embedded(nn.Module):
    """A GPT's tokens with their positions."""

    def __init__(self, gpt):
        super().__init__()
        self.wte, self.wpe = gpt.wte, gpt.wpe

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe


def layers_of(name, model):
    """In the order in which they run, each of one tensor."""
    if name == "gpt":
        return [Embedded(model), *model.blocks, model.head, Lambda(lambda x: x.flatten(0, 1))]
    if name == "resnet50":
        stem = [model.conv1, model.bn1, model.relu, model.maxpool]
        blocks = [block for stage in (model.layer1, model.layer2, model.layer3, model.layer4) for block in stage]
        return [*stem, *blocks, nn.Sequential(model.avgpool, nn.Flatten()), model.fc]
    if name == "vgg16":
        return [*model.features, nn.Sequential(model.avgpool, nn.Flatten()), *model.classifier]
    return list(model)


def keep_what_is_read(model):
    """A half begins with what was received, which wants a gradient: nothing may overwrite it."""
    for module in model.modules():
        if hasattr(module, "inplace"):
            module.inplace = False


def seconds_of(layer, x):
    least = float("inf")
    for _ in range(TIMED):
        given = x.detach().requires_grad_() if x.is_floating_point() else x
        start = time.perf_counter()
        y = layer(given)
        y.backward(torch.ones_like(y))
        least = min(least, time.perf_counter() - start)
    return least, y.detach()


def best_split(layers, x):
    """The number of layers of the first half."""
    times = []
    for layer in layers:
        if any(True for _ in layer.parameters()) or x.is_floating_point():
            seconds, x = seconds_of(layer, x)
        else:
            seconds, x = 0.0, layer(x)
        times.append(seconds)
    return min(range(1, len(layers)), key=lambda end: max(sum(times[:end]), sum(times[end:])))


class Pipeline:
    """Both halves in 1F1B order: the first runs one micro-batch ahead."""

    def __init__(self, rank, model, name, x, y, micro_batches):
        self.rank, self.count = rank, micro_batches
        self.x, self.y = x.chunk(micro_batches), y.chunk(micro_batches)
        layers = layers_of(name, model)
        keep_what_is_read(model)
        ends = [best_split(layers, self.x[0]) if rank == 0 else 0]
        dist.broadcast_object_list(ends)
        with torch.no_grad():
            self.crossing = nn.Sequential(*layers[:ends[0]])(self.x[0]).shape
        self.half = nn.Sequential(*(layers[:ends[0]] if rank == 0 else layers[ends[0]:]))
        self.half.zero_grad(set_to_none=True)

    def shape(self, m):
        return (len(self.x[m]), *self.crossing[1:])

    def step(self):
        (self.first if self.rank == 0 else self.second)()

    def first(self):
        made, sent = {}, []

        def forward(m):
            made[m] = self.half(self.x[m])
            data = made[m].detach().contiguous()
            sent.append((dist.isend(data, 1), data))

        def backward(m):
            gradient = torch.empty(self.shape(m))
            dist.recv(gradient, 1)
            made.pop(m).backward(gradient)

        forward(0)
        for m in range(self.count):
            if m + 1 < self.count:
                forward(m + 1)
            backward(m)
        for request, _ in sent:
            request.wait()

    def second(self):
        sent = []
        for m in range(self.count):
            read = torch.empty(self.shape(m))
            dist.recv(read, 0)
            read.requires_grad_()
            loss = nn.functional.cross_entropy(self.half(read), self.y[m]) / self.count
            loss.backward()
            sent.append((dist.isend(read.grad, 0), read.grad))
        for request, _ in sent:
            request.wait()


def model_of(arguments):
    torch.manual_seed(0)
    sizes = arguments.sizes or peer_torch.SIZES.get(arguments.model)
    sizes = [int(size) for size in sizes.split("-")] if sizes else []
    model = peer_torch.make(arguments.model, sizes)
    x, y = peer_torch.rows(arguments.model, sizes, arguments.batch)
    if arguments.mode == "channels-last":
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last) if x.dim() == 4 else x
    return model, x, y


def timed(arguments, parameters, work):
    optimizer = torch.optim.SGD(parameters, lr=0.001, momentum=0.9)
    seconds = []
    for _ in range(arguments.steps + 2):
        if dist.is_initialized():
            dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        work()
        optimizer.step()
        if dist.is_initialized():
            dist.barrier()
        seconds.append(time.perf_counter() - start)
    return seconds[2:]


def compiled(model, arguments):
    return torch.compile(model) if arguments.mode == "compile" else model


def one_process(arguments):
    torch.set_num_threads(2)
    model, x, y = model_of(arguments)
    run = compiled(model, arguments)
    return timed(arguments, model.parameters(), lambda: nn.functional.cross_entropy(run(x), y).backward())


def member(rank, arguments, folder):
    os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model, x, y = model_of(arguments)
    if arguments.way == "ddp":
        run = nn.parallel.DistributedDataParallel(compiled(model, arguments))
        own_x, own_y = x.chunk(2)[rank], y.chunk(2)[rank]
        seconds = timed(arguments, model.parameters(), lambda: nn.functional.cross_entropy(run(own_x), own_y).backward())
    else:
        pipeline = Pipeline(rank, model, arguments.model, x, y, arguments.micro_batches)
        pipeline.half = compiled(pipeline.half, arguments)
        seconds = timed(arguments, pipeline.half.parameters(), pipeline.step)
    if rank == 0:
        with open(os.path.join(folder, "seconds"), "w", encoding="ascii") as file:
            json.dump(seconds, file)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["lenet5", "convnet", "cnn", "mlp", "resnet50", "vgg16", "gpt"])
    parser.add_argument("--way", choices=["threads", "ddp", "pipeline"], required=True)
    parser.add_argument("--sizes", default=None)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--mode", choices=["eager", "channels-last", "compile"], default="eager")
    arguments = parser.parse_args()
    if arguments.way == "threads":
        seconds = one_process(arguments)
    else:
        with tempfile.TemporaryDirectory() as folder:
            processes.spawn(member, (arguments, folder), nprocs=2)
            with open(os.path.join(folder, "seconds"), encoding="ascii") as file:
                seconds = json.load(file)
    print(json.dumps({"step_seconds": seconds, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
