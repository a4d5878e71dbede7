"""Includes point down, never up; no two folders include each other in both directions, a folder and its own
sub-folder neither: what a folder needs of its sub-folders it declares itself, and they define it."""

from source_tree import CODE, FLOORS, files, finish, includes, root_from_arguments

# partitioner and ops are not one above the other by chance: a floor may include itself and any lower one.
HEIGHT = {floor: height for height, floor in enumerate(FLOORS)}
NOBODY_INCLUDES = {"bench", "tests"}


def folder_of(path):
    """runtime/zmq for runtime/zmq/socket.h; runtime for runtime/error.h."""
    return "/".join(path.split("/")[:-1])


def main():
    root = root_from_arguments()
    faults, edges, checked = [], {}, 0
    for path in files(root, FLOORS, CODE):
        checked += 1
        floor = path.parts[0]
        for line, kind, name in includes(root, path):
            target = name.split("/")[0]
            if target in NOBODY_INCLUDES:
                faults.append(f"{path}:{line}: nothing includes {target}/, but this includes {name}")
            if kind == '"' and not (root / name).exists():
                faults.append(f"{path}:{line}: \"{name}\" is not a path from the root")
            if target in HEIGHT and HEIGHT[target] > HEIGHT[floor]:
                faults.append(f"{path}:{line}: {floor} is below {target}, but this includes {name}")
    for path in files(root, [*FLOORS, *sorted(NOBODY_INCLUDES)], CODE):
        for line, kind, name in includes(root, path):
            if kind == '"':
                edges.setdefault((folder_of(str(path)), folder_of(name)), f"{path}:{line}")
    for (a, b), place in edges.items():
        if a < b and (b, a) in edges:
            faults.append(f"{place}: {a} and {b} include each other ({edges[(b, a)]})")
    finish(faults, checked)


main()
