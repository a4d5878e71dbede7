"""A lint that cannot fail proves nothing: each must find the fault that is planted for it, and only that."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOUND = {
    "runtime/a.h": "#pragma once\n",
    "runtime/x/b.h": '#pragma once\n#include "runtime/a.h"\n',
    "runtime/y/c.h": '#pragma once\n#include "runtime/x/b.h"\n',
    "ops/d.cc": '#include "runtime/a.h"\n',
    "apps/e.cc": '#include "ops/f.h"\n',
    "ops/f.h": "#pragma once\n",
    "tests/x/g.h": '#pragma once\n#include "tests/f.h"\n',
    "tests/f.h": "#pragma once\n",
    # Enough headers for one to be precompiled for the others.
    "runtime/text.h": "#pragma once\n#include <functional>\n#include <map>\n#include <string>\n",
    **{f"ops/says{number}.h": '#pragma once\n#include "runtime/text.h"\ninline std::string said;\n'
       for number in range(6)},
}
# lint, file, its text, what the complaint must contain
PLANTED = [
    ("layering", "runtime/up.cc", '#include "ops/f.h"\n', "runtime is below ops"),
    ("layering", "ops/test.cc", '#include "tests/f.h"\n', "nothing includes tests/"),
    ("layering", "apps/near.cc", '#include "e.h"\n', "not a path from the root"),
    ("layering", "runtime/x/b.h", '#include "runtime/y/c.h"\n', "runtime/x and runtime/y include each other"),
    ("layering", "runtime/a.h", '#include "runtime/x/b.h"\n', "runtime and runtime/x include each other"),
    ("layering", "tests/f.h", '#include "tests/x/g.h"\n', "tests and tests/x include each other"),
    ("libraries", "ops/z.cc", "#include <zmq.hpp>\n", "belongs in runtime/zmq"),
    ("libraries", "schedmp/g.cc", "#include <boost/graph/adjacency_list.hpp>\n", "belongs in partitioner"),
    ("libraries", "schedmp/c.h", "#include <cereal/cereal.hpp>\n", "belongs in runtime/wire"),
    ("libraries", "ops/gpu.cc", "#ifdef KERF_CUDA\n#endif\n", "no #if of CUDA"),
    ("words", "ops/todo.cc", "// TO" "DO: later\n", "unfinished work"),
    ("words", "docs/path.md", "see /ho" "me/me/file\n", "a path of one machine"),
    ("words", "ops/utils.cc", "\n", "a name without content"),
    ("sizes", "ops/long.cc", "\n" * 601, "more than 600"),
    ("sizes", "ops/wide.cc", "// " + "word " * 20 + "\n", "more than 100"),
    ("headers", "ops/alone.h", "#pragma once\ninline std::string said;\n", "ops/alone.h"),
    ("headers", "ops/says3.h", '#pragma once\n#include "runtime/text.h"\ninline std::deque<int> v;\n', "ops/says3.h"),
    ("headers", "runtime/text.h", "#pragma once\n#include <map>\ninline std::vector<int> v;\n", "runtime/text.h"),
    ("format", "ops/ugly.cc", "int  x( ){return 1 ;}\n", "ops/ugly.cc"),
]


def run(lint, root):
    return subprocess.run([sys.executable, HERE / f"{lint}.py", root], text=True, capture_output=True, check=False)


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def main():
    failures = 0
    for lint, path, text, complaint in PLANTED:
        if not shutil.which({"format": "clang-format", "headers": "ninja"}.get(lint, "python3")):
            continue
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shutil.copy(HERE.parents[1] / ".clang-format", root)
            for name, sound in SOUND.items():
                write(root, name, sound)
            before = run(lint, root)
            write(root, path, text)
            after = run(lint, root)
        if before.returncode != 0:
            print(f"{lint}: a sound tree is refused:\n{before.stdout}{before.stderr}")
            failures += 1
        if after.returncode != 1 or complaint not in after.stdout:
            print(f"{lint}: {path} is accepted, or not for '{complaint}':\n{after.stdout}{after.stderr}")
            failures += 1
    print(f"{len(PLANTED)} planted faults, {failures} failures")
    sys.exit(1 if failures else 0)


main()
