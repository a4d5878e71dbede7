"""Files stay small: none above 600 lines, the median of each floor at most 150."""

import statistics

from source_tree import CODE, FLOORS, files, finish, root_from_arguments

HARD_STOP = 600
MEDIAN = 150


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
    finish(faults, checked)


main()
