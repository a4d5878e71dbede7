"""Writes optimizer_cases.txt: five steps of PyTorch's optimizers on six numbers, in double precision. Run by hand, with PyTorch
installed, when a case is added; the tests read the file.

    python3 make_optimizer_cases.py > optimizer_cases.txt

One line each: `case NAME OPTIMIZER LR MOMENTUM NESTEROV BETA1 BETA2 EPSILON DECAY CLIP`, `start VALUES`, and for each step
`step LR GRADIENT`, `weights VALUES`. The learning rate changes at each step, as a schedule would change it.
"""

import torch

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
COUNT, STEPS = 6, 5


def text(tensor):
    return " ".join(f"{x:.9g}" for x in tensor.tolist())


def case(name, kind, lr=0.1, momentum=0.0, nesterov=False, betas=(0.9, 0.999), eps=1e-8, decay=0.0, clip=0.0):
    start = torch.randn(COUNT).float().double()
    weight = torch.nn.Parameter(start.clone())
    if kind == "sgd":
        optimizer = torch.optim.SGD([weight], lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=decay)
    elif kind == "adagrad":
        optimizer = torch.optim.Adagrad([weight], lr=lr, eps=eps, weight_decay=decay)
    else:
        classes = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        optimizer = classes[kind]([weight], lr=lr, betas=betas, eps=eps, weight_decay=decay)
    print(f"case {name} {kind} {lr} {momentum} {int(nesterov)} {betas[0]} {betas[1]} {eps} {decay} {clip}")
    print("start", text(start))
    for step in range(STEPS):
        rate = lr * (1 - step / 8)
        for group in optimizer.param_groups:
            group["lr"] = rate
        gradient = torch.randn(COUNT).float().double()
        weight.grad = gradient.clone()
        if clip:
            torch.nn.utils.clip_grad_norm_([weight], clip)
        optimizer.step()
        print(f"step {rate:.9g} {text(gradient)}")
        print("weights", text(weight.detach()))


case("plain", "sgd")
case("plain_decay", "sgd", decay=0.05)
case("momentum", "sgd", momentum=0.9)
case("nesterov", "sgd", momentum=0.9, nesterov=True)
case("nesterov_decay_clip", "sgd", momentum=0.8, nesterov=True, decay=0.1, clip=1.0)
case("adam", "adam", lr=0.01)
case("adam_decay", "adam", lr=0.01, betas=(0.8, 0.95), eps=1e-4, decay=0.1)
case("adamw", "adamw", lr=0.01, decay=0.01)
case("adamw_clip", "adamw", lr=0.05, decay=0.2, clip=0.5)
case("adagrad", "adagrad", lr=0.1, eps=1e-10)
case("adagrad_decay_clip", "adagrad", lr=0.2, eps=1e-2, decay=0.1, clip=0.5)
