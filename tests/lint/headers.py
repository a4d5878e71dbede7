"""Each header compiles alone: headers.py ROOT [BUILD].

Without the build's precompiled headers, which would hide a missing include, but not 130 times from nothing: a few
headers that many others include (bases) are compiled alone and precompiled, and a header starts from one that it
includes itself. What it finds there, it would have brought along, so nothing is hidden. Ninja repeats only
what changed since the last time; flags are those of BUILD's compile_commands.json.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

from source_tree import FLOORS, files, finish, includes

# Times to read, in those of <vector>.
WEIGHT = {"CLI": 40, "boost": 10, "cereal": 10, "fmt": 10, "nlohmann": 25, "oneapi": 10, "zmq.hpp": 10}
PRECOMPILING = 3  # what it costs, in compilations of the same header
RULES = """
rule precompile
  command = {compiler} {flags} -x c++-header $in -o $out -MD -MF $out.d
  depfile = $out.d
  description = precompile $header
rule check
  command = {compiler} {flags} $base -include $in -fsyntax-only -MD -MF $out.d -MT $out -x c++ /dev/null && touch $out
  depfile = $out.d
  description = check $header
"""


def compiler_and_flags(root, build):
    """The compiler, and what of its flags decides how a header is read."""
    compiler, flags = "c++", ["-std=c++20"]
    if build:
        for entry in json.loads((build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            if "CMAKE_CUDA" in entry["command"] or not entry["file"].endswith((".cc", ".cxx")):
                continue
            compiler = next(word for word in words if word.endswith(("++", "++-12")))
            for word, following in zip(words, words[1:] + [""]):
                flag = [word, following] if word == "-isystem" else [word]
                if word.startswith(("-I", "-D", "-std=", "-isystem")) and " ".join(flag) not in flags:
                    flags.append(" ".join(flag))
    return compiler, [flag for flag in flags if '"' not in flag] + [f"-I{root}", "-Werror=invalid-pch"]


def closures(root, headers):
    """What each header includes, directly or not: paths from the root, and names of outside headers."""
    direct = {header: {name for _, _, name in includes(root, pathlib.Path(header))} for header in headers}
    result = {}
    for header in headers:
        found, waiting = set(), [header]
        while waiting:
            new = direct.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        result[header] = found
    return result


def choose_bases(closure):
    """Greedily, while one more precompiled header saves more than it costs: header -> base or None."""
    cost = {header: sum(WEIGHT.get(name.split("/")[0], 1) for name in inside if name not in closure)
            for header, inside in closure.items()}
    start = dict.fromkeys(closure)
    saved = dict.fromkeys(closure, 0)
    while True:
        def gain(base):
            return sum(max(0, cost[base] - saved[header]) for header, inside in closure.items()
                       if base in inside) - PRECOMPILING * cost[base]
        best = max(sorted(closure), key=gain, default=None)
        if best is None or gain(best) <= 0:
            return start
        for header, inside in closure.items():
            if best in inside and cost[best] > saved[header]:
                start[header], saved[header] = best, cost[best]


def write_if_new(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def check(root, build, folder):
    """The complaints, and the number of headers."""
    compiler, flags = compiler_and_flags(root, build)
    with_cuda = any("/cuda/" in flag for flag in flags)
    headers = [str(path) for path in files(root, FLOORS, {".h"}) if with_cuda or "cuda" not in path.parts]
    start = choose_bases(closures(root, headers))
    bases = set(filter(None, start.values()))
    lines = [RULES.format(compiler=compiler, flags=shlex.join(flags))]
    for header in headers:
        base = start[header] and f"{start[header]}.base.h"
        lines += [f"build {header}.ok: check {root}/{header}" + (f" | {base}.gch" if base else ""),
                  f"  header = {header}"] + ([f"  base = -include {base}"] if base else [])
        if header in bases:
            stub = f"{header}.base.h"
            write_if_new(folder / stub, f'#include "{header}"\n')
            lines += [f"build {stub}.gch: precompile {stub}", f"  header = {header}"]
    write_if_new(folder / "build.ninja", "\n".join(lines) + "\n")
    for header in headers:
        (folder / header).parent.mkdir(parents=True, exist_ok=True)
    run = subprocess.run(["ninja", "-C", folder, "-k", "0", "-j", str(os.cpu_count())], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if run.returncode == 0:
        return [], len(headers)
    faults = [line for line in run.stdout.splitlines() if "error:" in line]
    return faults or [run.stdout], len(headers)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(f"usage: {sys.argv[0]} ROOT [BUILD]")
    root = pathlib.Path(sys.argv[1]).resolve()
    if not shutil.which("ninja"):
        print("skipped: ninja is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as temporary:
        build = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) == 3 else None
        finish(*check(root, build, build / "lint_headers" if build else pathlib.Path(temporary)))


main()
