"""Every C++ file is as clang-format leaves it."""

import shutil
import subprocess
import sys

from source_tree import CODE, FLOORS, files, finish, root_from_arguments


def main():
    root = root_from_arguments()
    if not shutil.which("clang-format"):
        print("skipped: clang-format is not installed")
        sys.exit(77)
    paths = [str(path) for path in files(root, FLOORS + ["bench", "tests"], CODE)]
    run = subprocess.run(["clang-format", "--dry-run", "--Werror", *paths], cwd=root, stderr=subprocess.PIPE, text=True,
                         check=False)
    faults = sorted({line.split(": error:")[0] for line in run.stderr.splitlines() if ": error:" in line})
    if run.returncode and not faults:
        faults = [run.stderr.strip()]
    finish(faults, len(paths))


main()
