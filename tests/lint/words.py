"""No marks of unfinished work, no paths of one machine, no commented-out blocks, no vague file names."""

import re

from source_tree import CODE, FLOORS, TEXT, files, finish, root_from_arguments

# Written in two halves, so that this file does not accuse itself.
FORBIDDEN = [
    (r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b", "unfinished work is an issue, not a comment"),
    (r"(?<![\w.$])/(ho" r"me|wo" r"rk|ro" r"ot|Us" r"ers)/", "a path of one machine"),
]
FORBIDDEN_IN_CODE = [
    (r"^\s*#\s*if\s+0\b", "code that is switched off"),
    (r"\bassert\(\s*(0|false)\s*\)", "use KERF_CHECK or throw kerf::Error"),
]
VAGUE = re.compile(r"(util|utils|common|manager|context|helper|helpers|misc)")
FOLDERS = FLOORS + ["bench", "tests", "docs"]
TOP = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CMakeLists.txt", "CMakePresets.json", "setup.sh", "demo.sh",
       "test.sh"]


def main():
    root = root_from_arguments()
    faults, checked = [], 0
    paths = [root / name for name in TOP if (root / name).exists()]
    for path in [p.relative_to(root) for p in paths] + list(files(root, FOLDERS, TEXT)):
        checked += 1
        if VAGUE.fullmatch(path.stem) or any(VAGUE.fullmatch(part) for part in path.parts[:-1]):
            faults.append(f"{path}: a name without content")
        patterns = FORBIDDEN + (FORBIDDEN_IN_CODE if path.suffix in CODE else [])
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            for pattern, reason in patterns:
                if re.search(pattern, line):
                    faults.append(f"{path}:{number}: {reason}: {line.strip()[:80]}")
    finish(faults, checked)


main()
