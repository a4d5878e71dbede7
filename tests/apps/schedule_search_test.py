"""kerf schedule search: by costs alone and for a plan, under caps; what it finds is a schedule like any other."""

import json
import unittest

from kerf_command import KerfTest, run

# PipeDream's profile of ResNet-50 over eight workers (ms).
RESNET50 = ((38.429, 9.925), (24.094, 16.9425), (20.512, 18.944), (23.588, 17.343), (22.857, 17.726), (24.642, 15.8635),
            (23.108, 17.427), (24.22, 16.2945))


def report(*flags):
    answer = run("schedule", *flags, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


class Search(KerfTest):
    def costs(self, stages=RESNET50):
        file = self.folder / "costs.json"
        file.write_text(json.dumps({"kerf_costs": 1, "COMM": 0, "stages": [{"F": f, "I": i, "W": i} for f, i in stages]}))
        return file

    def test_is_near_what_no_schedule_beats(self):
        flags = ("--workers", 8, "--micro-batches", 32, "--costs", self.costs())
        found = report("search", *flags, "--seconds", 0)
        self.assertEqual(found["peak_activations"], [8, 7, 6, 5, 4, 3, 2, 1])
        self.assertLess(found["gap"], 0.03)
        self.assertAlmostEqual(found["makespan"], found["lower_bound"] * (1 + found["gap"]))
        self.assertTrue(found["verified"])
        self.assertAlmostEqual(found["makespan_1f1b"], report("1f1b", *flags)["makespan"])
        for name, keep in (("1f1b", "8,7,6,5,4,3,2,1"), ("zb-h1", 8), ("zb-h2", 15)):
            best = report("search", *flags, "--keep", keep, "--seconds", 0)
            self.assertLess(best["makespan"], report(name, *flags)["makespan"], name)

    def test_of_few_is_proved_to_be_the_best(self):
        for costs in ("1,1,1", "1,1.3,0.7,0.1", "0.4,2,0.1"):
            found = report("search", "--workers", 3, "--micro-batches", 4, "--costs", costs)
            self.assertEqual((found["best"], found["gap"]), (True, 0))

    def test_finds_a_text_to_edit_and_to_train_by(self):
        file = self.folder / "found.txt"
        answer = run("schedule", "search", "--model", "mlp", "--workers", 2, "--micro-batches", 4, "--seconds", 0, "--out", file)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("found from", answer.stdout)
        self.assertIn("proved", answer.stdout)
        text = file.read_text()
        file.write_text(text.replace("name found", "name mine"))
        again = report(file, "--model", "mlp", "--workers", 2)
        self.assertEqual((again["name"], again["verified"]), ("mine", True))
        out = self.folder / "run"
        answer = run("train", "mlp", "--data", "synthetic", "--steps", 2, "--workers", 2, "--micro-batches", 4, "--schedule", file,
                     "--out", out)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_keeps_within_a_plans_memory(self):
        flags = ("search", "--model", "lenet5", "--workers", 3, "--micro-batches", 8, "--seconds", 0)
        whole = report(*flags)
        least = report("naive", *flags[1:-2])
        most, low = max(whole["peak_bytes"]), max(least["peak_bytes"])
        for peak in (most, (most + low) // 2, (most + 3 * low) // 4, low * 21 // 20):
            found = report(*flags, "--memory", peak)
            self.assertTrue(found["verified"], found["problems"])
            self.assertLessEqual(max(found["peak_bytes"]), peak)
        self.assertLess(sum(found["peak_activations"]), sum(whole["peak_activations"]))

    def test_goes_by_the_speeds_of_devices(self):
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 3}}}))
        flags = ("search", "--model", "mlp", "--workers", 2, "--micro-batches", 4, "--seconds", 0)
        self.assertLess(report(*flags, "--devices", devices)["makespan"], report(*flags)["makespan"])

    def test_goes_by_the_stages_of_a_plan(self):
        costs = self.folder / "stages.json"
        answer = run("plan", "mlp", "--workers", 2, "--micro-batches", 4, "--stage-costs", costs, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        stages = json.loads(costs.read_text())["stages"]
        self.assertEqual(len(stages), 2)
        seconds = [worker["seconds"] for worker in json.loads(answer.stdout)["workers"]]
        for stage, whole in zip(stages, seconds):
            self.assertAlmostEqual(sum(stage[kind] for kind in "FIW") * 4 / whole, 1, delta=0.2)  # beside copies
        found = report("search", "--model", "mlp", "--workers", 2, "--micro-batches", 4, "--seconds", 0)
        again = report("search", "--costs", costs, "--workers", 2, "--micro-batches", 4, "--seconds", 0)
        self.assertAlmostEqual(found["makespan"] / again["makespan"], 1, delta=1e-6)

    def test_of_another_tools_graph(self):
        graph, costs = self.folder / "graph.txt", self.folder / "stages.json"
        node = "node{0} -- Op -- forward_compute_time={1}, backward_compute_time={2}, activation_size=8.0, parameter_size=8.000"
        graph.write_text("\n".join([node.format(1, 2.0, 5.0), node.format(2, 3.0, 4.0), "\tnode1 -- node2", ""]))
        answer = run("plan", graph, "--format", "pipedream", "--workers", 2, "--stage-costs", costs)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(costs.read_text())["stages"], [{"F": 2, "I": 2.5, "W": 2.5, "F_bytes": 8, "kept_bytes": 8},
                                                                 {"F": 3, "I": 2, "W": 2, "I_bytes": 8, "kept_bytes": 8}])

    def test_refusals_name_the_flag(self):
        self.assert_one_error(run("schedule", "1f1b", "--keep", 4), "--keep", "kerf schedule search", code=2)
        self.assert_one_error(run("schedule", "search", "--keep", "4,x"), "--keep", "'4,x' must be", code=2)
        self.assert_one_error(run("schedule", "search", "--keep", "4,4"), "--keep", "caps for 2 stages, and 4 stages", code=2)
        self.assert_one_error(run("schedule", "search", "--keep", 0), "--keep", code=2)
        self.assert_one_error(run("schedule", "search", "--chunks", 2), "--chunks", "one stage on each worker", code=2)
        for workers, micro_batches in ((65536, 65536), (65536, 1), (1024, 64)):
            self.assert_one_error(run("schedule", "search", "--workers", workers, "--micro-batches", micro_batches), "too much to search",
                                  code=2)
        self.assert_one_error(run("schedule", "search", "--costs", self.costs(), "--workers", 4), "the costs of 8 stages", code=2)


if __name__ == "__main__":
    unittest.main()
