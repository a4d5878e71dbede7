"""Includes point down, never up; siblings do not include each other in both directions."""

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
            if target not in HEIGHT:
                continue
            if HEIGHT[target] > HEIGHT[floor]:
                faults.append(f"{path}:{line}: {floor} is below {target}, but this includes {name}")
            edge = (folder_of(str(path)), folder_of(name))
            if target == floor and edge[0] != edge[1]:
                edges.setdefault(edge, f"{path}:{line}")
    for (a, b), place in edges.items():
        # A floor's own folder holds interfaces and their makers; only its sub-folders are siblings.
        if "/" in a and "/" in b and (b, a) in edges and a < b:
            faults.append(f"{place}: {a} and {b} include each other ({edges[(b, a)]})")
    finish(faults, checked)


main()
