"""PyTorch's side of pipelines_against_torch.py: steps of an MLP of 8 layers by torch.distributed.pipelining, two processes of
one thread each over gloo. Prints the median seconds of a step as JSON.

    peer_torch_pipeline.py SCHEDULE WIDTH BATCH MICRO_BATCHES STEPS      SCHEDULE: gpipe, 1f1b, interleaved or zbv
"""

import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.pipelining as pipelining
import torch.multiprocessing as multiprocessing
from torch.distributed.pipelining import schedules

LAYERS = 8
CLASSES = 10
# By rank its stages.
PLACES = {"gpipe": ((0,), (1,)), "1f1b": ((0,), (1,)), "interleaved": ((0, 2), (1, 3)), "zbv": ((0, 3), (1, 2))}
SCHEDULES = {"gpipe": schedules.ScheduleGPipe, "1f1b": schedules.Schedule1F1B,
             "interleaved": schedules.ScheduleInterleaved1F1B, "zbv": schedules.ScheduleZBVZeroBubble}


def stage_of(number, count, width):
    """Layers number * LAYERS / count and so on, with what is between them."""
    each = LAYERS // count
    layers = []
    for layer in range(number * each, (number + 1) * each):
        last = layer == LAYERS - 1
        layers.append(torch.nn.Linear(width, CLASSES if last else width))
        if not last:
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


def train(rank, name, width, batch, micro_batches, steps, port, times):
    os.sched_setaffinity(0, {rank})
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    places = PLACES[name]
    count = 2 * len(places[0])
    modules = [stage_of(number, count, width) for number in places[rank]]
    stages = [pipelining.PipelineStage(module, number, count, torch.device("cpu")) for module, number in zip(modules, places[rank])]
    loss = torch.nn.functional.cross_entropy
    schedule = SCHEDULES[name](stages if len(stages) > 1 else stages[0], micro_batches, loss_fn=loss)
    optimizer = torch.optim.SGD([each for module in modules for each in module.parameters()], lr=0.001, momentum=0.9)
    inputs = torch.randn(batch, width)
    targets = torch.randint(0, CLASSES, (batch,))
    first, last = 0 in places[rank], count - 1 in places[rank]
    seconds = []
    for _ in range(steps):
        dist.barrier()
        begin = time.perf_counter()
        schedule.step(*([inputs] if first else []), **({"target": targets, "losses": []} if last else {}))
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        times.put(statistics.median(seconds[2:]))
    dist.barrier()
    dist.destroy_process_group()


def main():
    name, numbers = sys.argv[1], [int(each) for each in sys.argv[2:6]]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    times = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(train, (name, *numbers, port, times), nprocs=2)
    print(json.dumps({"median_step_seconds": times.get()}))


if __name__ == "__main__":
    main()
