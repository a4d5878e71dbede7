"""page_blocks.py PAGE FOLDER: writes the files that a page shows to FOLDER.

A file is the indented block behind a line that ends with "as `NAME`:".
"""

import pathlib
import re
import sys

NAMED = re.compile(r"as `([\w.]+)`:$")


def blocks_of(text):
    """name -> text, in the order of the page."""
    lines = text.splitlines()
    blocks = {}
    for number, line in enumerate(lines):
        named = NAMED.search(line)
        if not named:
            continue
        block = []
        for following in lines[number + 1:]:
            if following and not following.startswith("    "):
                break
            block.append(following[4:])
        blocks[named[1]] = "\n".join(block).strip("\n") + "\n"
    return blocks


def main():
    page, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in blocks_of(page.read_text()).items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


main()
