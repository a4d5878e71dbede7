"""clang-tidy over every file, by the groups in which a build compiles them.

    tidy.py BUILD [--jobs N] [FILE ...]      tidy.py build/release partitioner/plan.cc

A group's headers are read once, which takes a quarter of the time that file by file takes. With files: of the groups that
have them, what concerns them alone. The build must be there, for what it generates. That a file lacks an include which another
of its group has is not seen.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = "/(runtime|ops|partitioner|schedmp|apps|tests|bench)/[^/]+.*\\.(h|cc)$"
COMPLAINT = re.compile(r"^(/[^:]+):\d+:\d+: (error|warning): ", re.MULTILINE)


def as_clang_takes_it(entry, folder):
    """A command of GCC's without its wrapper and its precompiled header, which clang cannot read; None: of none of ours."""
    words = shlex.split(entry["command"])
    compiler = next((i for i, word in enumerate(words) if word.endswith("c++")), None)
    if compiler is None or entry["file"].endswith("cmake_pch.hxx.cxx"):
        return None
    words = [word for word in words[compiler:] if word != "-Winvalid-pch"]
    for i, word in enumerate(words):
        if word.endswith("cmake_pch.hxx"):
            copy = folder / f"{pathlib.Path(word).parent.name}.hxx"
            copy.write_text(pathlib.Path(word).read_text())
            words[i] = str(copy)
    return {"directory": entry["directory"], "file": entry["file"], "command": shlex.join(words)}


def files_of(group):
    """The files of a group, which is a file that includes them; or the file itself."""
    if "/Unity/" not in group:
        return [group]
    return re.findall(r'#include "([^"]+)"', pathlib.Path(group).read_text())


def complaints_of(group, database):
    told = subprocess.run(
        ["clang-tidy", "-p", str(database), "--quiet", "--checks=-bugprone-suspicious-include", f"--header-filter={OURS}",
         "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-unknown-attributes", "--extra-arg=-include", f"--extra-arg={ROOT}/tests/lint/clang14.h",
         group],
        capture_output=True, text=True, cwd=ROOT)
    ends = [found.start() for found in COMPLAINT.finditer(told.stdout)] + [len(told.stdout)]
    found = [told.stdout[a:b].rstrip() for a, b in zip(ends, ends[1:])]
    if told.returncode != 0 and not found:
        found = [f"{group}: {told.stdout}{told.stderr[-2000:]}"]
    return found


def check_configuration(file):
    """clang-tidy shrugs at a .clang-tidy that it cannot read, and then looks for next to nothing."""
    told = subprocess.run(["clang-tidy", "--dump-config", file, "--"], capture_output=True, text=True, cwd=ROOT)
    if told.returncode != 0 or told.stderr:
        sys.exit(f"tidy.py: error: clang-tidy cannot read .clang-tidy: {told.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    wanted = {str((ROOT / file).resolve()) for file in options.files}
    commands = options.build / "compile_commands.json"
    if not commands.is_file():
        sys.exit(f"tidy.py: error: there is no {commands}; ./setup.sh --tests builds it")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        entries = [as_clang_takes_it(entry, folder) for entry in json.loads(commands.read_text())]
        entries = [entry for entry in entries if entry]
        (folder / "compile_commands.json").write_text(json.dumps(entries))
        groups = {entry["file"]: files_of(entry["file"]) for entry in entries}
        known = {file for files in groups.values() for file in files}
        if wanted - known:
            sys.exit(f"tidy.py: error: {options.build} does not compile {', '.join(sorted(wanted - known))}")
        if wanted:
            groups = {group: files for group, files in groups.items() if wanted & set(files)}
        check_configuration(next(iter(groups)))
        longest_first = sorted(groups, key=lambda group: -len(groups[group]))
        told = set()
        with ThreadPoolExecutor(options.jobs) as pool:
            for found in pool.map(lambda group: complaints_of(group, folder), longest_first):
                for complaint in found:
                    file = complaint.split(":")[0]
                    if file.startswith(f"{options.build.resolve()}/") and "/Unity/" not in file:
                        continue  # which was generated
                    if complaint not in told and (not wanted or file in wanted):
                        print(complaint, flush=True)
                        told.add(complaint)
    if told:
        sys.exit(f"tidy.py: error: clang-tidy has {len(told)} complaints")
    print(f"clang-tidy: {len(wanted or known)} files are clean")


if __name__ == "__main__":
    main()
