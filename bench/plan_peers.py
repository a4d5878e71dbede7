"""Layer cuts beside general partitioners: does an acyclic answer of METIS, KaHIP or Scotch dominate a point of `kerf plan --front`?

    VENV/bin/python bench/plan_peers.py build/release/bin/kerf [MODEL.onnx ...] [--workers 2 4 8] [--json]

The Python needs `pip install onnx pymetis kahip`; Scotch takes part where Debian's `gpart` is in PATH (or $GPART). Without models, the nine
light models of the onnx package. Each peer partitions the undirected graph of `--graph-out` (weights: work; bytes of a tensor on its edges)
at several allowed imbalances and seeds; its answers, and Kerf's, are priced here, from the graph alone: the heaviest stage, the bytes of each
distinct (tensor, stage), and what the fullest stage holds. Exit code 1 if an acyclic answer is no worse in all and better in one than a point of
the front.
"""

import argparse
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import kahip
import pymetis

IMBALANCES = (0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5)
SEEDS = (0, 1, 2)
SCALE = 100_000  # weights are whole numbers


class Graph:
    def __init__(self, costs):
        self.names = [node["name"] for node in costs["nodes"]]
        self.work = [node["forward"][0] + node["backward"][0] for node in costs["nodes"]]
        self.values = [(v["producer"], v["readers"], v.get("forward_bytes", 0), v.get("enter", 0)) for v in costs["values"]]
        self.held = [(h["nodes"], h.get("fixed", 0) + h.get("per_micro_batch", 0)) for h in costs.get("held", [])]
        weights = {}
        for producer, readers, size, _ in self.values:
            for reader in readers:
                key = (min(producer, reader), max(producer, reader))
                weights[key] = weights.get(key, 0) + size
        most = max(weights.values(), default=1)
        self.rows = [[] for _ in self.names]
        for (a, b), size in sorted(weights.items()):
            weight = max(1, round(SCALE * size / most))
            self.rows[a].append((b, weight))
            self.rows[b].append((a, weight))
        total = sum(self.work)
        self.weights = [max(1, round(SCALE * work / total)) for work in self.work]
        self.starts = [0]
        for row in self.rows:
            self.starts.append(self.starts[-1] + len(row))
        self.ends = [b for row in self.rows for b, _ in row]
        self.edge_weights = [w for row in self.rows for _, w in row]

    def price(self, stage_of):
        load = {}
        for node, stage in enumerate(stage_of):
            load[stage] = load.get(stage, 0) + self.work[node]
        crossing = 0
        for producer, readers, size, enter in self.values:
            for stage in {stage_of[reader] for reader in readers} - {stage_of[producer]}:
                crossing += size
                load[stage] += enter
        memory = dict.fromkeys(load, 0)
        for nodes, size in self.held:
            for stage in {stage_of[node] for node in nodes}:
                memory[stage] += size
        return max(load.values()), crossing, max(memory.values())

    def is_acyclic(self, stage_of):
        after = {}
        for producer, readers, _, _ in self.values:
            for reader in readers:
                if stage_of[producer] != stage_of[reader]:
                    after.setdefault(stage_of[producer], set()).add(stage_of[reader])
        left = set(stage_of)
        while left:
            free = {stage for stage in left if not any(stage in after.get(other, ()) for other in left)}
            if not free:
                return False
            left -= free
        return True


def metis(graph, parts):
    for recursive in (False, True):
        for imbalance in IMBALANCES:
            for seed in SEEDS:
                options = pymetis.Options(ufactor=round(1000 * imbalance), seed=seed)
                _, answer = pymetis.part_graph(parts, xadj=graph.starts, adjncy=graph.ends, vweights=graph.weights,
                                               eweights=graph.edge_weights, recursive=recursive, options=options)
                yield "METIS " + ("recursive" if recursive else "k-way"), answer


def kahips(graph, parts):
    for imbalance in IMBALANCES:
        for seed in SEEDS:
            _, answer = kahip.kaffpa(graph.weights, graph.starts, graph.edge_weights, graph.ends, parts, imbalance, True, seed, 2)
            yield "KaHIP", answer


def scotch(graph, parts):
    gpart = os.environ.get("GPART") or shutil.which("gpart") or shutil.which("scotch_gpart")
    if not gpart:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "graph.grf"
        rows = [f"{weight} {len(row)} " + " ".join(f"{w} {b}" for b, w in row) for weight, row in zip(graph.weights, graph.rows)]
        file.write_text(f"0\n{len(rows)} {len(graph.ends)}\n0 011\n" + "\n".join(rows) + "\n")
        for imbalance in IMBALANCES:
            map_file = pathlib.Path(folder) / "answer.map"
            subprocess.run([gpart, str(parts), str(file), str(map_file), f"-b{imbalance}"], check=True, capture_output=True)
            lines = map_file.read_text().split("\n")[1:]
            answer = [0] * len(rows)
            for line in lines:
                if line.strip():
                    node, part = map(int, line.split())
                    answer[node] = part
            yield "Scotch", answer


def dominates(a, b):
    room = 1 + 1e-9
    return all(x <= y * room for x, y in zip(a, b)) and any(x * room < y for x, y in zip(a, b))


def compare(kerf, model, parts, folder):
    costs = pathlib.Path(folder) / "costs.json"
    asked = [kerf, "plan", str(model), "--workers", "2", "--batch", "32", "--objective", "forward-flops", "--graph-out", str(costs)]
    subprocess.run(asked, check=True, capture_output=True)
    graph = Graph(json.loads(costs.read_text()))
    asked = [kerf, "plan", str(costs), "--format", "costs", "--workers", str(parts), "--front", "--json"]
    answer = json.loads(subprocess.run(asked, check=True, capture_output=True).stdout)
    front = [graph.price([point["assignment"][name] for name in graph.names]) for point in answer["front"]]
    result = {"model": pathlib.Path(model).stem, "workers": parts, "front": len(front), "answers": 0, "cyclic": 0, "dominating": []}
    for peer in (metis, kahips, scotch):
        for name, stage_of in peer(graph, parts):
            result["answers"] += 1
            if not graph.is_acyclic(stage_of):
                result["cyclic"] += 1
                continue
            price = graph.price(stage_of)
            if len(set(stage_of)) == parts and any(dominates(price, point) for point in front):
                result["dominating"].append({"peer": name, "bottleneck": price[0], "bytes": price[1], "memory": price[2]})
    return result


def light_models():
    import onnx

    return sorted(glob.glob(str(pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_*.onnx")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kerf")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for model in asked.models or light_models():
            for parts in asked.workers:
                results.append(compare(asked.kerf, model, parts, folder))
                if not asked.json:
                    row = results[-1]
                    print(f"{row['model']:24} {row['workers']:2} workers: {row['front']:3} points, {row['answers']} answers of peers, "
                          f"{row['cyclic']} cyclic, {len(row['dominating'])} dominate a point", flush=True)
    if asked.json:
        print(json.dumps(results, indent=1))
    return 1 if any(row["dominating"] for row in results) else 0


if __name__ == "__main__":
    sys.exit(main())
