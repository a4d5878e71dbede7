"""Files stay small: none above 600 lines, the median of each floor at most 150; and so do comments: 100 columns, as
clang-format keeps code."""

import statistics

from source_tree import CODE, FLOORS, files, finish, root_from_arguments

HARD_STOP = 600
MEDIAN = 150
COLUMNS = 100


def main():
    root = root_from_arguments()
    faults, checked = [], 0
    for floor in FLOORS:
        lengths = []
        for path in files(root, [floor], CODE):
            checked += 1
            lengths.append(len((root / path).read_text().splitlines()))
            if lengths[-1] > HARD_STOP:
                faults.append(f"{path}: {lengths[-1]} lines, more than {HARD_STOP}")
        if lengths and statistics.median(lengths) > MEDIAN:
            faults.append(f"{floor}: the median file has {statistics.median(lengths)} lines, more than {MEDIAN}")
    for path in files(root, FLOORS + ["bench", "tests"], CODE):
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            if len(line) > COLUMNS and line.lstrip().startswith("//"):
                faults.append(f"{path}:{number}: a comment of {len(line)} columns, more than {COLUMNS}")
    finish(faults, checked)


main()
