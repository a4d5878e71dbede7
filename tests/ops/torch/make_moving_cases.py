"""Writes moving_cases.txt, as make_operator_cases.py does: what moves, picks, repeats and reduces, and products of other shapes.

    python3 make_moving_cases.py > moving_cases.txt
"""

import torch
import torch.nn.functional as F

from make_operator_cases import Case, rounded

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)


def one(name, op, x, y_of, role="activation", batch=0, out_batch=None, **attributes):
    """An operator of one input."""
    case = Case(name, op, x.shape[batch] if batch is not None else 3)
    x = case.input(role, x, batch)
    for key, value in attributes.items():
        if isinstance(value, (list, tuple)):
            case.attribute(key, "ints", *value)
        elif isinstance(value, str):
            case.attribute(key, "string", value)
        else:
            case.attribute(key, "float" if isinstance(value, float) else "int", value)
    case.finish([(y_of(x), batch if out_batch is None else out_batch)])


def moved():
    one("Slice_of_two_axes", "Slice", rounded(3, 7, 5), lambda x: x[:, 1:6, -4:-1], starts=[1, -4], ends=[6, -1], axes=[1, 2])
    one("Slice_backwards", "Slice", rounded(3, 7, 5), lambda x: x.flip(1)[:, ::2], starts=[-1], ends=[-100], axes=[1], steps=[-2])
    one("Pad_with_a_value", "Pad", rounded(2, 3, 4, 5), lambda x: F.pad(x, (2, 1, 0, 3), value=1.5), pads=[0, 0, 0, 2, 0, 0, 3, 1], value=1.5)
    for mode, torch_mode in (("reflect", "reflect"), ("edge", "replicate"), ("wrap", "circular")):
        one(f"Pad_by_{mode}", "Pad", rounded(2, 3, 4, 5), lambda x, m=torch_mode: F.pad(x, (2, 1, 1, 3), mode=m), pads=[1, 2, 3, 1],
            axes=[2, 3], mode=mode)
    one("Expand_of_two_axes", "Expand", rounded(3, 1, 4, 1), lambda x: x.expand(3, 2, 4, 5), shape=[1, 2, 1, 5])
    one("Expand_to_the_batch", "Expand", rounded(1, 2, 5), lambda x: x.expand(3, 2, 5), "parameter", None, 0, shape=[-1, 2, 5])
    one("Tile_of_two_axes", "Tile", rounded(3, 2, 4), lambda x: x.repeat(1, 3, 2), repeats=[1, 3, 2])
    one("DepthToSpace_as_pixel_shuffle", "DepthToSpace", rounded(2, 12, 2, 3), lambda x: F.pixel_shuffle(x, 2), blocksize=2, mode="CRD")
    one("SpaceToDepth_as_pixel_unshuffle", "SpaceToDepth", rounded(2, 3, 4, 6), lambda x: F.pixel_unshuffle(x, 2), blocksize=2, mode="CRD")
    one("Trilu_upper", "Trilu", rounded(2, 4, 5), lambda x: x.triu(1), k=1)
    one("Trilu_lower", "Trilu", rounded(2, 4, 5), lambda x: x.tril(-1), upper=0, k=-1)
    one("CumSum_of_rows", "CumSum", rounded(3, 5, 2), lambda x: x.cumsum(1), axis=1)
    one("CumSum_reverse", "CumSum", rounded(3, 5), lambda x: x.flip(1).cumsum(1).flip(1), axis=1, reverse=1)
    one("Squeeze_of_an_axis", "Squeeze", rounded(3, 1, 4), lambda x: x.squeeze(1), axes=[1])
    one("Compress_of_columns", "Compress", rounded(3, 5), lambda x: x[:, [1, 2, 4]], axis=1, condition=[0, 1, 1, 0, 1])


def split_with_a_smaller_end():
    case = Case("Split_with_a_smaller_end", "Split", 2)
    x = case.input("activation", rounded(2, 7, 3), 0)
    case.attribute("axis", "int", 1)
    case.attribute("num_outputs", "int", 3)
    case.finish([(part, 0) for part in x.split(3, 1)])


def gathered():
    case = Case("GatherElements_of_rows", "GatherElements", 3)
    x = case.input("activation", rounded(3, 6, 4), 0)
    indices = case.input("label", torch.randint(-6, 6, (3, 5, 2)), 0)
    case.attribute("axis", "int", 1)
    case.finish([(x.gather(1, indices % 6), 0)])
    case = Case("GatherND_of_tuples", "GatherND", 3)
    x = case.input("parameter", rounded(4, 5, 2))
    indices = case.input("label", torch.randint(-4, 4, (3, 6, 2)), 0)
    case.finish([(x[indices[..., 0] % 4, indices[..., 1] % 5], 0)])
    case = Case("GatherND_by_sample", "GatherND", 3)
    x = case.input("activation", rounded(3, 5, 2), 0)
    indices = case.input("label", torch.randint(0, 5, (3, 4, 1)), 0)
    case.attribute("batch_dims", "int", 1)
    case.finish([(x.gather(1, indices.expand(3, 4, 2)), 0)])


def scattered():
    for reduction in ("none", "add"):
        case = Case(f"ScatterElements_{reduction}", "ScatterElements", 3)
        x = case.input("activation", rounded(3, 6, 4), 0)
        # Without repetition: PyTorch gives every one of several updates of a place its gradient.
        order = torch.stack([torch.randperm(6)[:5] for _ in range(6)]).reshape(3, 2, 5).transpose(1, 2).contiguous()
        indices = case.input("label", order if reduction == "none" else torch.randint(0, 6, (3, 5, 2)), 0)
        updates = case.input("activation", rounded(3, 5, 2), 0)
        case.attribute("axis", "int", 1)
        case.attribute("reduction", "string", reduction)
        y = x.scatter(1, indices, updates) if reduction == "none" else x.scatter_add(1, indices, updates)
        case.finish([(y, 0)])
        case = Case(f"ScatterND_{reduction}", "ScatterND", 3)
        x = case.input("parameter", rounded(5, 4, 2))
        rows = torch.randperm(5)[:3] if reduction == "none" else torch.randint(0, 5, (3,))
        case.input("label", torch.stack([rows, torch.randint(0, 4, (3,))], 1))
        indices = case.inputs[-1]
        updates = case.input("parameter", rounded(3, 2))
        case.attribute("reduction", "string", reduction)
        case.finish([(x.index_put((indices[:, 0], indices[:, 1]), updates, accumulate=reduction == "add"), None)])


def reductions():
    reduce = {
        "ReduceSum": lambda x, a, k: x.sum(a, k),
        "ReduceMean": lambda x, a, k: x.mean(a, k),
        "ReduceMax": lambda x, a, k: x.amax(a, k),
        "ReduceMin": lambda x, a, k: x.amin(a, k),
        "ReduceL1": lambda x, a, k: x.abs().sum(a, k),
        "ReduceL2": lambda x, a, k: x.square().sum(a, k).sqrt(),
        "ReduceLogSum": lambda x, a, k: x.sum(a, k).log(),
        "ReduceLogSumExp": lambda x, a, k: x.logsumexp(a, k),
        "ReduceSumSquare": lambda x, a, k: x.square().sum(a, k),
    }
    for op, function in reduce.items():
        for how, axes, keep in (("of_space", (2, 3), 1), ("of_rows", (1,), 0)):
            x = rounded(3, 4, 2, 5)
            one(f"{op}_{how}", op, x.abs() + 0.5 if op == "ReduceLogSum" else x, lambda x: function(x, axes, bool(keep)), axes=axes,
                keepdims=keep)
    # Ties share what comes back.
    one("ReduceMax_of_equals", "ReduceMax", torch.tensor([[1.0, 2, 2, 0], [3, 3, 3, 3], [0, 1, -1, 1]]), lambda x: x.amax(1), axes=[1],
        keepdims=0)
    x = rounded(4, 5)
    x[1, 2] = 0
    x[2, 0] = x[2, 3] = 0
    one("ReduceProd_with_zeros", "ReduceProd", x, lambda x: x.prod(1), axes=[1], keepdims=0)


def top_k(largest, unread):
    case = Case("TopK_largest" if largest else "TopK_smallest", "TopK", 3)
    x = case.input("activation", rounded(3, 7, 2), 0)
    case.attribute("k", "int", 4)
    case.attribute("axis", "int", 1)
    case.attribute("largest", "int", int(largest))
    values, indices = x.topk(4, 1, largest)
    case.finish([(values, 0), (indices, 0)], unread)


def products():
    for name, a_shape, b_shape, trans_a, trans_b, c_shape in (
        ("Gemm_of_columns", (5, 3), (5, 4), 1, 0, (4,)),
        ("Gemm_of_columns_by_rows", (5, 3), (4, 5), 1, 1, (3, 1)),
        ("Gemm_adding_a_matrix", (3, 5), (5, 4), 0, 0, (3, 4)),
        ("Gemm_adding_a_number", (3, 5), (4, 5), 0, 1, ()),
    ):
        case = Case(name, "Gemm", 3)
        a = case.input("activation", rounded(*a_shape), 1 if trans_a else 0)
        b = case.input("parameter", rounded(*b_shape))
        c = case.input("parameter", rounded(*c_shape)) if len(c_shape) < 2 else case.input("activation", rounded(*c_shape), 0)
        for key, value in (("alpha", 0.5), ("beta", -1.5)):
            case.attribute(key, "float", value)
        case.attribute("transA", "int", trans_a)
        case.attribute("transB", "int", trans_b)
        case.finish([(0.5 * (a.t() if trans_a else a) @ (b.t() if trans_b else b) - 1.5 * c, 0)])
    for name, a_shape, a_batch, b_shape, b_batch, y_batch in (
        ("MatMul_of_vectors", (5,), None, (5,), None, None),
        ("MatMul_by_a_vector", (3, 2, 5), 0, (5,), None, 0),
        ("MatMul_of_a_vector", (4,), None, (3, 4, 2), 0, 0),
        ("MatMul_repeating_both", (3, 1, 2, 4), 0, (5, 4, 2), None, 0),
    ):
        case = Case(name, "MatMul", 3)
        a = case.input("parameter" if a_batch is None else "activation", rounded(*a_shape), a_batch)
        b = case.input("parameter" if b_batch is None else "activation", rounded(*b_shape), b_batch)
        case.finish([(a @ b, y_batch)])


def einsums():
    for name, equation, shapes, batches, y_batch in (
        ("Einsum_of_heads", "bqhd,bkhd->bhqk", ((3, 4, 2, 5), (3, 6, 2, 5)), (0, 0), 0),
        ("Einsum_of_sums_beside", "bij,kj->b", ((3, 4, 5), (2, 5)), (0, None), 0),
        ("Einsum_of_further_axes", "...ij,jk->...ik", ((3, 2, 4), (4, 5)), (0, None), 0),
    ):
        case = Case(name, "Einsum", 3)
        operands = [case.input("parameter" if b is None else "activation", rounded(*s), b) for s, b in zip(shapes, batches)]
        case.attribute("equation", "string", equation)
        case.finish([(torch.einsum(equation, *operands), y_batch)])


def main():
    moved()
    split_with_a_smaller_end()
    gathered()
    scattered()
    reductions()
    top_k(True, unread=(1,))
    top_k(False, unread=(1,))
    products()
    einsums()


if __name__ == "__main__":
    main()
