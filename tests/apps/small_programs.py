"""Data for the shipped programs that takes them moments, and the commands that read it."""

import random


def write_small_data(folder):
    """The same at every call."""
    chance = random.Random(7)
    rows, columns = 60, 40
    x = [[chance.gauss(0, 1) if chance.random() < 0.3 else 0 for _ in range(columns)] for _ in range(rows)]
    y = [3 * row[1] - 2 * row[7] + row[30] + chance.gauss(0, 0.5) for row in x]
    (folder / "x.csv").write_text("".join(",".join(map(repr, row)) + "\n" for row in x))
    (folder / "y.csv").write_text("".join(f"{value!r}\n" for value in y))
    (folder / "x.libsvm").write_text("".join(
        f"{1 if label > 0 else -1} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row) if value) + "\n"
        for label, row in zip(y, x, strict=True)))
    places = [(u, i) for u in range(1, 31) for i in range(1, 21) if chance.random() < 0.5]
    (folder / "r.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n30 20 {len(places)}\n"
                                  + "".join(f"{u} {i} {chance.gauss(3, 1)!r}\n" for u, i in places))
    (folder / "corpus.txt").write_text("".join(
        " ".join(f"{word}:{chance.randrange(1, 4)}" for word in sorted(chance.sample(range(30), 12))) + "\n" for _ in range(40)))


def lasso(folder, *more):
    return ("lasso", "--x", folder / "x.csv", "--y", folder / "y.csv", "--lambda", 1, *more)


def factorisation(folder, iterations, *more):
    return ("mf", "--ratings", folder / "r.mtx", "--test", folder / "r.mtx", "--rank", 3, "--iterations", iterations, "--tol", 0, *more)


def topics(folder, iterations, *more):
    return ("lda", "--corpus", folder / "corpus.txt", "--topics", 5, "--iterations", iterations, *more)
