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
        asked = (self.graph, "--format", "placement", "--hosts", 0)
        self.assert_one_error(run("plan", *asked, "--memory", 300), "graph.json", "300 bytes", "--memory 400")
        self.plan(*asked, "--memory", 400)
        # A host has memory enough.
        plan = self.plan(self.graph, "--format", "placement", "--memory", 300)
        self.assertIn("host", [worker["device"] for worker in plan["workers"]])

    def test_requests_that_make_no_sense(self):
        for arguments, words in (
                (("--format", "dot"), ("dot", "placement", "pipedream", "costs")),
                (("--format", "pipedream"), ("graph.json:1",)),
                (("--format", "placement", "--batch", 8), ("--batch", "models")),
                (("--format", "placement", "--sizes", "1-2"), ("--sizes", "models")),
                (("--format", "placement", "--out", self.folder / "plan.json"), ("--out", "models")),
                (("--format", "placement", "--cut", "feature"), ("--cut", "layer")),
                (("--format", "placement", "--workers", 0), ("--workers",)),
                (("--format", "placement", "--workers", 9), ("9 workers", "--workers 3"))):
            with self.subTest(arguments=arguments):
                self.assert_one_error(run("plan", self.graph, *arguments), *words)
        costs = self.folder / "costs.json"
        self.assertEqual(run("plan", "lenet5", "--graph-out", costs).returncode, 0)
        self.assert_one_error(run("plan", costs, "--format", "costs", "--hosts", 2), "--hosts 2: lenet5 says nothing of what nodes take on", "leave the flag out")
        self.assert_one_error(run("plan", self.graph, "--format", "placement", "--hosts", 2, "--stages-per-worker", 2), "leave out --hosts")
        self.assert_one_error(run("plan", "lenet5", "--format", "placement"), "lenet5", "no such file")
        self.assert_one_error(run("plan", self.folder, "--format", "placement"), "no such file")
        self.assert_one_error(run("plan", self.graph), "graph.json", "no model")

    def test_without_a_format_it_is_told_that_it_wants_one(self):
        self.assert_one_error(run("plan", self.graph, "--workers", 2), "graph.json", "--format placement, pipedream or costs")
        self.assert_one_error(run("plan", self.folder / "none.json", "--workers", 2), "there is no model of this name")

    def test_a_plan_is_no_stages(self):
        plan = self.folder / "plan.json"
        self.assertEqual(run("plan", "lenet5", "--workers", 2, "--out", plan).returncode, 0)
        self.assert_one_error(run("plan", "lenet5", "--workers", 2, "--assign", plan), "plan.json: this is a plan", "--plan")
        told = json.loads(plan.read_text())
        del told["fingerprint"]
        plan.write_text(json.dumps(told))
        self.assert_one_error(run("plan", "lenet5", "--check", plan), '"fingerprint"')

    def test_a_malformed_graph(self):
        for change in ({"nodes": []}, {"edges": [{"sourceId": 1, "destId": 77, "cost": 0, "size": 0}]}, {"maxFPGAs": "two"},
                       {"edges": placement()["edges"] + [{"sourceId": 3, "destId": 1, "cost": 0, "size": 0}]}):
            with self.subTest(change=change):
                self.graph.write_text(json.dumps({**placement(), **change}))
                self.assert_one_error(run("plan", self.graph, "--format", "placement"), "graph.json")

    def test_several_stages_share_a_worker(self):
        plan = self.plan(self.graph, "--format", "placement", "--workers", 2, "--stages-per-worker", 2)
        self.assertTrue(plan["acyclic"])
        self.assertEqual(len(plan["workers"]), 2)
        for worker in plan["workers"]:
            self.assertAlmostEqual(worker["load"], load(set(worker["nodes"])))
            self.assertEqual({plan["assignment"][node] for node in worker["nodes"]}, set(worker["stages"]))

    def test_slack_saves_bytes_within_it(self):
        tight = self.plan("squeezenet", "--workers", 4)
        loose = self.plan("squeezenet", "--workers", 4, "--slack", 0.5)
        self.assertLess(loose["cut_bytes"], tight["cut_bytes"])
        self.assertLessEqual(loose["bottleneck"], 1.5 * tight["bottleneck"] * (1 + 1e-9))
        self.assertEqual(tight["certificate"]["kind"], "exact")
        self.assertAlmostEqual(loose["lower_bound"], tight["bottleneck"])
        self.assert_one_error(run("plan", "mlp", "--slack", -1), "--slack")
        self.assert_one_error(run("plan", "mlp", "--cut", "feature", "--slack", 0.1), "--slack", "layer")

    def test_what_one_writes_another_reads(self):
        costs, stages, plan_file = (self.folder / name for name in ("costs.json", "stages.json", "plan.json"))
        for graph, alone in ((("lenet5",), ()), ((self.graph, "--format", "placement"), ("--hosts", 0))):
            with self.subTest(graph=graph):
                plan = self.plan(*graph, *alone, "--workers", 2, "--graph-out", costs)
                again = self.plan(costs, "--format", "costs", "--workers", 2)
                self.assertAlmostEqual(again["bottleneck"], plan["bottleneck"])
                stages.write_text(json.dumps(plan))
                assigned = self.plan(*graph, "--assign", stages)
                self.assertEqual(assigned["assignment"], plan["assignment"])
                self.assertAlmostEqual(assigned["bottleneck"], plan["bottleneck"])
                self.assertAlmostEqual(assigned["lower_bound"], plan["lower_bound"])
        turned = {node: 1 - stage for node, stage in self.plan("lenet5", "--workers", 2)["assignment"].items()}
        stages.write_text(json.dumps(turned))
        plan = self.plan("lenet5", "--assign", stages, "--out", plan_file)
        self.assertEqual([stage["workers"] for stage in plan["stages"]], [[1], [0]])
        self.assertEqual(run("plan", "lenet5", "--check", plan_file).returncode, 0)
        file = self.folder / "mine.txt"
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--out", file).returncode, 0)
        for schedule in ("zbv", file):
            self.assert_one_error(run("plan", "lenet5", "--assign", stages, "--schedule", schedule),
                                  f"--schedule: {schedule} says which stages a worker has, and so does {stages} of --assign")

    def test_check_tells_sound_from_unsound_from_unreadable(self):
        file = self.folder / "checked.json"
        told = self.plan("lenet5", "--workers", 2, "--out", file)
        plan = told["assignment"]
        text = file.read_text()
        bare = {key: value for key, value in json.loads(text).items() if key != "checksum"}
        first, last = list(plan)[0], list(plan)[-1]
        graph = {node: 0 for node, *_ in NODES}
        schedule = self.folder / "three.txt"
        self.assertEqual(run("schedule", "1f1b", "--workers", 3, "--out", schedule).returncode, 0)
        for asked, content, code, words in (
                (("lenet5",), text, 0, "sound"),
                (("lenet5",), text.replace('"cut": "layer"', '"cut": "free"'), 1, "checksum"),
                (("lenet5",), json.dumps(bare), 0, "sound"),
                (("lenet5",), json.dumps(told), 0, "sound"),  # what --json printed
                (("lenet5",), json.dumps({**told, "assignment": {first: 0}}), 1, "in no stage"),
                (("lenet5",), json.dumps({**bare, "stages": bare["stages"][:1]}), 1, "unsound"),
                (("lenet5",), json.dumps({**bare, "binding": [0, 7]}), 1, "unsound"),
                (("lenet5",), json.dumps({**plan, first: plan[last], last: plan[first]}), 1, "feed each other"),
                (("lenet5",), json.dumps({first: 0}), 1, "in no stage"),
                (("lenet5",), json.dumps({**plan, "nobody": 0}), 1, "nobody"),
                (("lenet5",), "{", 2, "checked.json:1"), (("no-such-model",), text, 2, "no-such-model"),
                (("lenet5", "--threads", 0), text, 2, "--threads: "), (("lenet5", "--workers", 9), text, 2, "--workers 9 contradicts"),
                (("lenet5",), json.dumps({**bare, "kerf_plan": 2}), 2, "version 2"),
                (("lenet5",), json.dumps({**bare, "batch": "many"}), 2, "batch"),
                ((), json.dumps({**bare, "request": {**bare["request"], "source": "/nowhere/gone.onnx"}}), 2, "gone.onnx"),
                (("lenet5",), json.dumps({**bare, "layouts": {**bare["layouts"], "fc1.weight": [{"part": 0, "box": ["9-3", "all"]}]}}), 2,
                 "fc1.weight"),
                (("lenet5",), json.dumps({**bare, "schedule": "nowhere.txt"}), 2, "checked.json: the plan's schedule: there is no schedule and no file \"nowhere.txt\""),
                (("lenet5",), json.dumps({**bare, "schedule": "zbv"}), 1, "schedule zbv has 2 stages on each worker"),
                (("lenet5",), json.dumps({**bare, "cut": "zigzag"}), 2, "zigzag"),
                (("lenet5",), json.dumps({**bare, "stages": [{"parts": [0], "first": "conv2"}, {"parts": [1], "first": "pool1"}]}), 1, "the first stage begins with"),
                (("lenet5",), json.dumps({**bare, "micro_batches": [100, 27]}), 1, "the micro-batches have 127 rows, but the step has 128"),
                (("lenet5",), json.dumps({**bare, "replicas": 2, "binding": [0, 1, 2], "replica_of_micro_batch": []}), 1, "3 parts are no 2 replicas"),
                (("lenet5",), json.dumps({**bare, "request": {**bare["request"], "momentum": 0}}), 1, "contradicts"),
                (("lenet5",), json.dumps({**bare, "layouts": {**bare["layouts"], "fc9.weight": []}}), 1, "has no value of this name"),
                (("lenet5",), json.dumps({**bare, "routes": [{**bare["routes"][0], "value": "fc9"}]}), 1, 'has no value "fc9"'),
                ((), json.dumps({first: 0}), 2, "name that: kerf plan MODEL --check FILE"),
                (("--loss", "mse"), json.dumps({first: 0}), 2, "name that: kerf plan MODEL --check FILE"),
                (("lenet5",), json.dumps({key: value for key, value in {**bare, "schedule": str(schedule)}.items()
                                          if key not in ("workers", "bottleneck")}), 1, "the schedule has 3 workers, the plan 2"),
                (("lenet5", "--memory", "1K"), text, 1, "memory cap of 1024 bytes"),
                (("lenet5",), json.dumps({**bare, "request": {**bare["request"], "memory": 4096}}), 1, "memory cap of 4096 bytes"),
                (("mlp",), text, 1, "another model"),
                ((self.graph, "--format", "placement"), json.dumps(graph), 0, "sound"),
                ((self.graph, "--format", "placement"), json.dumps({**graph, "b": 1, "b'": 1}), 1, "feed each other"),
                ((self.graph, "--format", "placement"), json.dumps({**graph, "b": 1}), 1, "share a stage")):
            with self.subTest(asked=asked, words=words):
                file.write_text(content)
                answer = run("plan", *asked, "--check", file)
                self.assertEqual(answer.returncode, code, answer.stdout + answer.stderr)
                self.assertIn(words, answer.stdout if code < 2 else answer.stderr)
        self.assertEqual(run("plan", "lenet5", "--check", self.folder / "absent.json").returncode, 2)

    def test_the_front_goes_from_bottleneck_to_bytes(self):
        for graph in (("lenet5",), (self.graph, "--format", "placement")):
            with self.subTest(graph=graph):
                best = self.plan(*graph, "--workers", 2)
                front = self.plan(*graph, "--workers", 2, "--front")["front"]
                self.assertAlmostEqual(front[0]["bottleneck"], best["bottleneck"])
                self.assertEqual(front, sorted(front, key=lambda point: (point["bottleneck"], point["cut_bytes"])))
                for a in front:
                    for b in front:
                        keys = ("bottleneck", "cut_bytes", "memory")
                        no_worse = all(a[key] <= b[key] * (1 + 1e-9) for key in keys)
                        self.assertFalse(no_worse and any(a[key] * (1 + 1e-9) < b[key] for key in keys), (a, b))

    def test_the_front_keeps_within_the_cap(self):
        for graph in (("lenet5",), (self.graph, "--format", "placement", "--hosts", 0)):
            with self.subTest(graph=graph):
                whole = self.plan(*graph, "--workers", 2, "--front")["front"]
                most = max(point["memory"] for point in whole)
                least = min(point["memory"] for point in whole)
                capped = self.plan(*graph, "--workers", 2, "--front", "--memory", most - 1)["front"] if least < most else []
                self.assertTrue(all(point["memory"] < most for point in capped))
                self.assertEqual(bool(capped), least < most)
                self.assert_one_error(run("plan", *graph, "--workers", 2, "--front", "--memory", 10), "10 bytes")
        several = self.folder / "v.txt"
        several.write_text("kerf-schedule 1\nname v\nworkers 2\nmicro-batches 2\n"
                           "stage 0 on 0\nstage 1 on 1\nstage 2 on 1\nstage 3 on 0\n"
                           "row 0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0U 3U\n"
                           "row 1: 1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1U 2U\n")
        self.assert_one_error(run("plan", "lenet5", "--front", "--schedule", several), "--front: ", "one stage on each worker")

    def test_a_model_prints_them_too(self):
        plan = self.plan("mlp", "--workers", 2)
        self.assertTrue(plan["acyclic"])
        self.assertEqual(plan["lower_bound"], plan["bound"])
        self.assertEqual(set(plan["assignment"].values()), {0, 1})
        self.assertGreater(plan["plan_seconds"], 0)
        forward = sum(route["bytes"] for route in plan["routes"] if not route["gradient"])
        self.assertEqual(plan["cut_bytes"], forward)


if __name__ == "__main__":
    unittest.main()
