"""What the lints share: which files there are, and what they include.

Every lint takes the root of a source tree as its one argument, prints a line per fault and exits with 1 if there
is any.
"""

import pathlib
import re
import sys

FLOORS = ["runtime", "ops", "partitioner", "schedmp", "apps"]  # from the bottom up
CODE = {".h", ".cc", ".cu", ".cuh"}
TEXT = CODE | {".md", ".txt", ".cmake", ".in", ".py", ".sh", ".json", ".svg", ""}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def root_from_arguments():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} ROOT")
    return pathlib.Path(sys.argv[1]).resolve()


def files(root, folders, suffixes):
    """Paths relative to the root, in order."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts:
                yield path.relative_to(root)


def includes(root, path):
    """(line number, '<' or '"', name) of every include."""
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def finish(faults, checked):
    for fault in faults:
        print(fault)
    if not checked:
        faults.append("nothing was checked")
        print(faults[-1])
    print(f"{checked} files, {len(faults)} faults")
    sys.exit(1 if faults else 0)
