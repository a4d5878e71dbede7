"""kerf plan GRAPH --format FORMAT: graphs of other tools, planned, priced and checked; bad requests refused."""

import json
import unittest

from kerf_command import KerfTest, run

NODES = [("a", 1, 2.0, 0, 1), ("b", 2, 3.0, 0, 2), ("c", 3, 4.0, 0, 3), ("c'", 4, 4.0, 1, 3), ("b'", 5, 3.0, 1, 2),
         ("a'", 6, 2.0, 1, 1)]
EDGES = [(1, 2, 0.5, 100), (1, 3, 0.5, 100), (2, 3, 0.25, 50), (4, 5, 0.25, 50), (5, 6, 0.5, 100)]
PROFILE = """node1 -- Input -- forward_compute_time=0.5, backward_compute_time=1, activation_size=8, parameter_size=0
node2 -- Linear(4, 4) -- forward_compute_time=2, backward_compute_time=3, activation_size=[16.0; 4.0], parameter_size=64
node3 -- Loss -- forward_compute_time=1, backward_compute_time=1, activation_size=4, parameter_size=0
\tnode1 -- node2
\tnode2 -- node3
"""


def placement():
    return {"maxSizePerFPGA": 1000.0, "maxFPGAs": 2, "maxCPUs": 1,
            "nodes": [{"name": name, "id": number, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": time,
                       "isBackwardNode": backward, "colorClass": colour, "size": 100}
                      for name, number, time, backward, colour in NODES],
            "edges": [{"sourceId": a, "destId": b, "cost": cost, "size": size} for a, b, cost, size in EDGES]}


def load(nodes):
    """Of a device: latencies, and each distinct tensor that leaves or enters it."""
    total = sum(time for name, _, time, _, _ in NODES if name in nodes)
    numbers = {number for name, number, _, _, _ in NODES if name in nodes}
    crossing = {(a, cost) for a, b, cost, _ in EDGES if (a in numbers) != (b in numbers)}
    return total + sum(cost for _, cost in crossing)


class PlanGraph(KerfTest):
    def setUp(self):
        super().setUp()
        self.graph = self.folder / "graph.json"
        self.graph.write_text(json.dumps(placement()))
        self.profile = self.folder / "profile.txt"
        self.profile.write_text(PROFILE)

    def plan(self, *arguments):
        answer = run("plan", *arguments, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def test_a_placement_graph(self):
        plan = self.plan(self.graph, "--format", "placement", "--cut", "layer", "--workers", 2)
        stages = [{name for name, stage in plan["assignment"].items() if stage == s} for s in (0, 1)]
        self.assertEqual([set(worker["nodes"]) for worker in plan["workers"]], stages)
        for worker, nodes in zip(plan["workers"], stages, strict=True):
            self.assertAlmostEqual(worker["load"], load(nodes))
        # Colours stay together, so there are three units and two ways to part them.
        best = min(max(load({"a", "a'"}), load({"b", "b'", "c", "c'"})), max(load({"a", "b", "a'", "b'"}), load({"c", "c'"})))
        self.assertAlmostEqual(plan["bottleneck"], best)
        self.assertTrue(plan["acyclic"])
        self.assertEqual(plan["cut_bytes"], 100 + 50)
        self.assertLessEqual(plan["lower_bound"], plan["bottleneck"])
        self.assertIn(plan["certificate"]["kind"], ("exact", "bound"))

    def test_a_pipedream_profile(self):
        plan = self.plan(self.profile, "--format", "pipedream", "--workers", 2)
        self.assertEqual(plan["assignment"], {"node1": 0, "node2": 0, "node3": 1} if plan["cut_bytes"] == 20 else
                         {"node1": 0, "node2": 1, "node3": 1})
        self.assertEqual(plan["bottleneck"], 6.5)
        self.assertEqual(plan["unit"], "ms")

    def test_the_table_for_people(self):
        answer = run("plan", self.graph, "--format", "placement")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for word in ("2 workers", "load ms", "stage 1 on 1", "bottleneck", "acyclic"):
            self.assertIn(word, answer.stdout)

    def test_a_cap_that_cannot_be_met_says_what_would(self):
        answer = run("plan", self.graph, "--format", "placement", "--memory", 300)
        self.assert_one_error(answer, "graph.json", "300 bytes", "--memory 400")
        self.plan(self.graph, "--format", "placement", "--memory", 400)

    def test_requests_that_make_no_sense(self):
        for arguments, words in (
                (("--format", "dot"), ("dot", "placement", "pipedream")),
                (("--format", "pipedream"), ("graph.json:1",)),
                (("--format", "placement", "--batch", 8), ("--batch", "models")),
                (("--format", "placement", "--sizes", "1-2"), ("--sizes", "models")),
                (("--format", "placement", "--out", self.folder / "plan.json"), ("--out", "models")),
                (("--format", "placement", "--cut", "feature"), ("--cut", "layer")),
                (("--format", "placement", "--workers", 0), ("--workers",)),
                (("--format", "placement", "--workers", 9), ("9 workers", "--workers 3"))):
            with self.subTest(arguments=arguments):
                self.assert_one_error(run("plan", self.graph, *arguments), *words)
        self.assert_one_error(run("plan", "lenet5", "--format", "placement"), "lenet5", "no such file")
        self.assert_one_error(run("plan", self.folder, "--format", "placement"), "no such file")
        self.assert_one_error(run("plan", self.graph), "graph.json", "no model")

    def test_a_malformed_graph(self):
        for change in ({"nodes": []}, {"edges": [{"sourceId": 1, "destId": 77, "cost": 0, "size": 0}]}, {"maxFPGAs": "two"},
                       {"edges": placement()["edges"] + [{"sourceId": 3, "destId": 1, "cost": 0, "size": 0}]}):
            with self.subTest(change=change):
                self.graph.write_text(json.dumps({**placement(), **change}))
                self.assert_one_error(run("plan", self.graph, "--format", "placement"), "graph.json")

    def test_a_model_prints_them_too(self):
        plan = self.plan("mlp", "--workers", 2)
        self.assertTrue(plan["acyclic"])
        forward = sum(route["bytes"] for route in plan["routes"] if not route["gradient"])
        self.assertEqual(plan["cut_bytes"], forward)


if __name__ == "__main__":
    unittest.main()
