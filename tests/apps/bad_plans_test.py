"""Plans that cannot be read, or do not fit, get one clear error line, exit code 2, and no stack trace."""

import json
import re
import unittest

from kerf_command import KerfTest, run

QUICK = ("--workers", 2, "--steps", 2, "--no-test", "--transport", "inproc")


class PlanFiles(KerfTest):
    def setUp(self):
        super().setUp()
        self.plan = self.folder / "plan.json"
        made = run("plan", "lenet5", "--workers", 2, "--out", self.plan)
        self.assertEqual(made.returncode, 0, made.stderr)

    def refused(self, *parts, model=("lenet5",), more=()):
        answer = run("train", *model, "--data", "synthetic:64x784x10", "--plan", self.plan, "--steps", 1, "--no-test",
                     *more, "--out", self.folder / "out")
        self.assert_one_error(answer, *parts)

    def test_a_missing_plan(self):
        self.plan.unlink()
        self.refused("plan.json")

    def test_a_plan_truncated_anywhere(self):
        text = self.plan.read_text()
        for keep in (0, 1, len(text) // 3, len(text) // 2, len(text) - 3):
            with self.subTest(keep=keep):
                self.plan.write_text(text[:keep])
                self.refused("plan.json")

    def test_a_corrupt_plan(self):
        plan = json.loads(self.plan.read_text())
        for key in [key for key in plan if key != "checksum"]:
            if key not in ("request", "layouts", "routes", "workers", "bottleneck", "bound"):
                with self.subTest(missing=key):
                    self.plan.write_text(json.dumps({k: v for k, v in plan.items() if k != key}))
                    self.refused("plan.json", key)
            with self.subTest(wrong=key):
                self.plan.write_text(json.dumps({**plan, key: {"nonsense": [1]}}))
                self.refused("plan.json")

    def test_a_boundary_that_is_none(self):
        made = run("plan", "lenet5", "--workers", 3, "--short", "--out", self.plan)
        self.assertEqual(made.returncode, 0, made.stderr)
        plan = json.loads(self.plan.read_text())
        for stage, first, part in ((1, "fc9", "stages[1].first"), (0, "relu1", "begins with image.channels_last"),
                                   (2, "conv1", "later in the model")):
            with self.subTest(stage=stage, first=first):
                stages = [dict(one) for one in plan["stages"]]
                stages[stage]["first"] = first
                self.plan.write_text(json.dumps({**plan, "stages": stages}))
                self.refused("plan.json", part)

    def test_a_request_that_nobody_made(self):
        plan = json.loads(self.plan.read_text())
        del plan["checksum"], plan["workers"]
        for key, value in (("slots", 0), ("slots", 4096), ("threads", -1), ("memory", 0), ("objective", "beauty"),
                           ("mirrored", 1), ("optimizer_states", 10**9), ("optimizer_states", 3), ("momentum", 1), ("momentum", -0.5), ("momentum", 0), ("optimizer", "adamant"), ("optimizer", "adam"), ("colour", "red"), ("source", "resnet")):
            with self.subTest(key=key):
                self.plan.write_text(json.dumps({**plan, "request": {**plan["request"], key: value}}))
                answer = run("train", "--data", "synthetic:64x784x10", "--plan", self.plan, *QUICK[2:], "--out",
                             self.folder / "out")
                self.assert_one_error(answer, "plan.json", str(value) if key == "source" else key)

    def test_a_schedule_that_the_plan_names_and_nobody_has(self):
        file = self.folder / "mine.txt"
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--out", file).returncode, 0)
        self.assertEqual(run("plan", "lenet5", "--schedule", file, "--out", self.plan).returncode, 0)
        file.unlink()
        self.refused("the plan's schedule", "mine.txt")

    def test_a_plan_for_another_model(self):
        self.refused("plan.json", model=("mlp",))

    def test_flags_that_contradict_the_plan(self):
        self.refused("--workers 3", more=("--workers", 3))
        self.refused("--cut feature", more=("--cut", "feature"))
        self.refused("--micro-batches 5", more=("--micro-batches", 5))
        self.refused("--stages 7", more=("--stages", 7))
        self.refused("--objective", more=("--objective", "time"))
        self.refused("--pairs", more=("--pairs", "off"))

    def test_a_memory_cap_that_the_transport_breaks(self):
        """The plan's own peak is for shared memory; tcp needs slots on both sides."""
        cap = max(worker["peak_bytes"] for worker in json.loads(self.plan.read_text())["workers"])
        self.refused("worker", f"memory cap of {cap} bytes", more=("--memory", cap, "--transport", "tcp", "--slots", 20))

    def test_a_transport_that_a_pair_cannot_have(self):
        answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--plan", self.plan, "--steps", 1, "--no-test",
                     "--transport", "cuda", "--out", self.folder / "out")
        self.assertEqual(answer.returncode, 2)
        for part in ("worker 0", "worker 1", "over cuda", "one GPU", "leave out --transport"):
            self.assertIn(part, answer.stderr)

    def test_a_memory_cap_that_the_plan_does_not_meet(self):
        self.refused("worker 0", "memory cap of 1000 bytes", more=("--memory", 1000))

    def test_the_memory_cap_that_is_advised_would_do(self):
        train = ("train", "lenet5", "--data", "synthetic:64x784x10", "--plan", self.plan, "--steps", 1, "--no-test",
                 "--transport", "inproc", "--out", self.folder / "out")
        answer = run(*train, "--memory", 1000)
        cap = int(re.search(r"--memory (\d+) would do", answer.stderr).group(1))
        self.assert_one_error(run(*train, "--memory", cap - 1), f"1 bytes more than the memory cap of {cap - 1} bytes")
        self.assertEqual(run(*train, "--memory", cap).returncode, 0)

    def test_a_schedule_that_a_plan_has_no_memory_for_is_refuted(self):
        """1f1b keeps fewer micro-batches than gpipe."""
        def peaks(*more):
            return json.loads(run("schedule", "--plan", self.plan, *more, "--json").stdout)["peak_bytes"]
        cap = max(peaks("1f1b"))
        over = next(worker for worker, bytes in enumerate(peaks("gpipe")) if bytes > cap)
        plan = json.loads(self.plan.read_text())
        del plan["checksum"]
        plan["request"]["memory"] = cap
        self.plan.write_text(json.dumps(plan))
        self.assertEqual(run("schedule", "1f1b", "--plan", self.plan).returncode, 0)
        answer = run("schedule", "gpipe", "--plan", self.plan)
        self.assert_one_error(answer, "refuted", f"worker {over} ", f"memory cap of {cap} bytes", code=1)
        self.assertNotIn("proved", answer.stdout)
        self.assertFalse(json.loads(run("schedule", "gpipe", "--plan", self.plan, "--json").stdout)["verified"])


class PlansByHand(KerfTest):
    """A plan in which somebody changed one thing: what is wrong is named, `kerf plan --check` says so, and no run begins."""

    def setUp(self):
        super().setUp()
        self.file = self.folder / "plan.json"
        self.plans = {}
        for cut, model in (("feature", ("mlp", "--sizes", "12-16-16-12")), ("layer", ("lenet5",))):
            made = run("plan", *model, "--cut", cut, "--workers", 2, "--out", self.file)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.plans[cut] = json.loads(self.file.read_text())
            del self.plans[cut]["checksum"]

    def refused(self, cut, path, value, code, *parts):
        """`code`: of --check, 1 where the file says what a plan says, and it is unsound."""
        plan = json.loads(json.dumps(self.plans[cut]))
        *path, last = path
        inner = plan
        for key in path:
            inner = inner[key]
        inner[last] = value
        self.file.write_text(json.dumps(plan))
        with self.subTest(path=path, last=last, value=value):
            checked = run("plan", "--check", self.file)
            self.assertEqual(checked.returncode, code, checked.stdout + checked.stderr)
            for part in parts:
                self.assertIn(part, checked.stdout + checked.stderr)
            rows = "synthetic:64x12x12" if cut == "feature" else "synthetic:64x784x10"
            out = self.folder / "out"
            self.assert_one_error(run("train", "--plan", self.file, "--data", rows, *QUICK[2:], "--out", out), "plan.json", *parts)
            self.assertEqual(list(out.iterdir()) if out.exists() else [], [])

    def test_neurons(self):
        def layout(part):
            return ("layouts", "fc1.output", part, "box")
        self.refused("feature", layout(0), ["all", "0-6"], 1, "fc1.output", "no part holds 7 of axis 1")
        self.refused("feature", layout(0), ["all", "0-8"], 1, "fc1.output", "parts 0 and 1 overlap in [all, 8]")
        self.refused("feature", layout(1), ["all", "8-16"], 1, "fc1.output", "8-16 of axis 1, whose indices end at 15")
        self.refused("feature", layout(1), ["all", "8-15,9"], 2, "fc1.output", "index 9 is there twice")
        self.refused("feature", ("divisions", "fc2", 0, "box"), ["all", "all", "0-6"], 1, "fc2", "no part holds 7 of axis 2")
        self.refused("feature", ("divisions", "fc2", 0, "box"), ["all", "all", "0-8"], 1, "fc2", "overlap in [all, all, 8]")
        self.refused("feature", ("divisions", "fc2", 1, "box"), ["all", "all", "8-16"], 1, "fc2", "whose indices end at 15")
        self.refused("feature", ("routes",), self.plans["feature"]["routes"][1:], 1, "route of fc2.output from part 1 to part 0 is missing")

    def test_operators_and_workers(self):
        first, second = (stage["nodes"] for stage in self.plans["layer"]["stages"])
        self.refused("layer", ("stages", 0, "nodes"), first[:-1], 1, f"node {first[-1]} is in no stage")
        self.refused("layer", ("stages", 0, "nodes"), [*first, second[0]], 1, f"node {second[0]} is in stages 0 and 1, must be in one")
        self.refused("layer", ("stages", 0, "nodes"), [*first, "fc9"], 1, 'no node "fc9"')
        self.refused("layer", ("stages",), self.plans["layer"]["stages"][::-1], 1, "of stage 1 feeds", "of stage 0")
        self.refused("feature", ("divisions", "fc9"), [{"part": 0, "box": "all"}], 1, 'no node "fc9"')
        self.refused("feature", ("binding",), [0, 9], 1, "bound to worker 9, but none to worker 1")
        self.refused("feature", ("binding",), [0, -1], 2, "-1 is no number of a part or worker")
        self.refused("feature", ("layouts", "fc1.output", 0, "part"), 7, 1, "fc1.output", "part 7")
        self.refused("feature", ("model",), "m\0lp", 1, r"another model: m\x00lp with fingerprint")

    def test_names_of_megabytes_are_told_by_their_ends(self):
        self.file.write_text(json.dumps({**self.plans["layer"], "model": "a" * 5_000_000}))
        for answer in (run("plan", "--check", self.file), run("plan", "--check", self.file, "--json"), run("train", "--plan", self.file)):
            self.assertLess(len(answer.stdout + answer.stderr), 20_000)
            self.assertIn("characters left out", answer.stdout + answer.stderr)
            self.assertIn("--out FILE", answer.stdout + answer.stderr)
        places = self.folder / "places.txt"
        places.write_text("c" * 5_000_000 + " 0\n")
        answer = run("plan", "lenet5", "--workers", 2, "--place", places)
        self.assert_one_error(answer, "--place", "places.txt:1: no operator of lenet5 fits", "the nearest names are")


if __name__ == "__main__":
    unittest.main()
