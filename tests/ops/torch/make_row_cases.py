"""Writes row_cases.txt, as make_operator_cases.py writes operator_cases.txt: what layer normalisation and softmax over a
divided axis are made of.

    python3 make_row_cases.py > row_cases.txt
"""

import torch

from make_operator_cases import Case, rounded


def normalisation():
    """Sums and squares are of whole rows, whatever X is."""
    case = Case("RowSum_of_rows", "RowSum", 3)
    x = case.input("activation", rounded(3, 4, 6), 0)
    case.finish([(x.sum(2, True), 0)])
    for centred in (False, True):
        case = Case(f"RowSquareSum_{'centred' if centred else 'of_rows'}", "RowSquareSum", 3)
        x = case.input("activation", rounded(3, 4, 6), 0)
        mean = case.input("activation", rounded(3, 4, 1), 0) / 6 if centred else 0
        case.finish([((x - mean).square().sum(2, True), 0)])
    case = Case("RowNormalization_of_planes", "RowNormalization", 3)
    case.attribute("axis", "int", 1)
    case.attribute("epsilon", "float", 0.01)
    x, scale = case.input("activation", rounded(3, 4, 5), 0), case.input("parameter", rounded(4, 5))
    squares = case.input("activation", rounded(3, 1, 1).abs() + 5, 0)
    shift, sums = case.input("parameter", rounded(4, 5)), case.input("activation", rounded(3, 1, 1), 0)
    case.finish([((x - sums / 20) / (squares / 20 + 0.01).sqrt() * scale + shift, 0)])
    case = Case("RowNormalization_by_squares", "RowNormalization", 3)
    x, scale = case.input("activation", rounded(3, 7), 0), case.input("parameter", rounded(7))
    squares = case.input("activation", rounded(3, 1).abs() + 5, 0)
    case.finish([(x / (squares / 7 + 1e-5).sqrt() * scale, 0)])


def softmax():
    for logarithm in (0, 1):
        case = Case(f"SegmentSoftmax_{logarithm}", "SegmentSoftmax", 3)
        case.attribute("axis", "int", 1)
        case.attribute("logarithm", "int", logarithm)
        x = case.input("activation", rounded(3, 5, 2), 0)
        maximum, log_sum = (case.input("activation", rounded(3, 4, 2), 0) for _ in range(2))
        below = x - (maximum + log_sum).logsumexp(1, True)
        case.finish([(below if logarithm else below.exp(), 0)])
    case = Case("SegmentLogSumExp_of_the_last_axis", "SegmentLogSumExp", 3)
    x = case.input("activation", rounded(3, 2, 7), 0)
    case.attribute("axis", "int", 2)
    case.attribute("boundaries", "ints", 0, 3, 7)
    parts = x.split((3, 4), 2)
    maximum = torch.cat([part.amax(2, True) for part in parts], 2)
    whole = torch.cat([part.logsumexp(2, True) for part in parts], 2)
    case.finish([(maximum, 0), (whole - maximum, 0)])


if __name__ == "__main__":
    normalisation()
    softmax()
