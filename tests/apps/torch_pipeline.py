"""PyTorch's side of peer_schedules_test.py, run by an interpreter that has PyTorch.

    torch_pipeline.py dump FOLDER          its own schedules, of 4 ranks with 2 stages each: NAME.csv computes alone,
                                           NAME.comms.csv communicates too
    torch_pipeline.py train CSV PLACES M   trains a step by the file, with a process for each rank over gloo; PLACES are
                                           the ranks of the stages, "0,1,1,0"; prints how far the gradients are from
                                           those of the whole model, relative to their norms
"""

import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed.pipelining as pipelining
import torch.multiprocessing as multiprocessing
from kerf_command import free_port
from torch.distributed.pipelining import schedules

FEATURES = 16
ROWS = 4  # of a micro-batch


def loss_of(outputs, targets):
    return torch.nn.functional.mse_loss(outputs, targets, reduction="sum")


def stages_of(count):
    torch.manual_seed(1)
    return [torch.nn.Sequential(torch.nn.Linear(FEATURES, FEATURES), torch.nn.ReLU()) for _ in range(count)]


def pipeline_stages(modules, numbers, count):
    return [pipelining.PipelineStage(modules[number], number, count, torch.device("cpu")) for number in numbers]


def dump(folder):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    modules = stages_of(8)
    for name, numbers in (("ScheduleInterleaved1F1B", (0, 4)), ("ScheduleLoopedBFS", (0, 4)),
                          ("ScheduleInterleavedZeroBubble", (0, 4)), ("ScheduleZBVZeroBubble", (0, 7)),
                          ("ScheduleDualPipeV", (0, 7))):
        file = folder / f"{name}.csv"
        made = getattr(schedules, name)(pipeline_stages(modules, numbers, 8), 8, loss_fn=loss_of)
        schedules.PipelineScheduleMulti._dump_csv(made, file)
        lowered = schedules._PipelineScheduleRuntime(pipeline_stages(modules, numbers, 8), 8, loss_fn=loss_of)
        lowered._load_csv(file)
        lowered._dump_csv(folder / f"{name}.comms.csv")


def train_rank(rank, csv, places, micro_batches, port, farthest):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=max(places) + 1)
    modules, whole = stages_of(len(places)), stages_of(len(places))
    mine = [stage for stage, place in enumerate(places) if place == rank]
    runtime = schedules._PipelineScheduleRuntime(pipeline_stages(modules, mine, len(places)), micro_batches,
                                                 loss_fn=loss_of, scale_grads=False)
    runtime._load_csv(csv)
    torch.manual_seed(2)
    inputs = torch.randn(ROWS * micro_batches, FEATURES)
    targets = torch.randn(ROWS * micro_batches, FEATURES)
    runtime.step(*([inputs] if 0 in mine else []), target=targets if len(places) - 1 in mine else None, losses=[])
    loss_of(torch.nn.Sequential(*whole)(inputs), targets).backward()
    farthest.put(max(((a.grad - b.grad).norm() / b.grad.norm()).item()
                     for stage in mine for a, b in zip(modules[stage].parameters(), whole[stage].parameters())))
    dist.barrier()
    dist.destroy_process_group()


def train(csv, places, micro_batches):
    port = free_port()
    farthest = multiprocessing.get_context("spawn").SimpleQueue()
    ranks = max(places) + 1
    multiprocessing.spawn(train_rank, (csv, places, micro_batches, port, farthest), nprocs=ranks)
    print(max(farthest.get() for _ in range(ranks)))


if __name__ == "__main__":
    if sys.argv[1] == "dump":
        dump(pathlib.Path(sys.argv[2]))
    else:
        train(sys.argv[2], [int(place) for place in sys.argv[3].split(",")], int(sys.argv[4]))
