"""Plans that are edited by hand, and `kerf compare`, which lays several side by side."""

import json
import unittest

from kerf_command import KerfTest, run

BRIEFLY = ("--steps", 2, "--no-test", "--transport", "inproc")
SYNTHETIC = ("--data", "synthetic:256x784x10")


class PlansByHand(KerfTest):
    """A plan's text holds what was decided; what follows from it may be left out."""

    FOLLOWS = ("layouts", "routes", "workers", "bottleneck", "bound", "checksum")

    def setUp(self):
        super().setUp()
        self.plan = self.folder / "plan.json"
        self.common = ("lenet5", *SYNTHETIC, *BRIEFLY, "--plan", self.plan)

    def test_without_routes_and_predictions(self):
        self.assertEqual(run("plan", "lenet5", "--workers", 3, "--out", self.plan).returncode, 0)
        whole = json.loads(self.plan.read_text())
        expected = self.train(*self.common, out="whole")
        for absent in (("routes",), ("workers", "checksum"), ("routes", "workers", "bottleneck", "bound"), self.FOLLOWS,
                       (*self.FOLLOWS, "request")):
            with self.subTest(absent=absent):
                self.plan.write_text(json.dumps({key: value for key, value in whole.items() if key not in absent}))
                report = self.train(*self.common, out="part")
                self.assertEqual(report["losses"], expected["losses"])
                for key in ("workers", "routes", "stages"):
                    self.assertEqual(report["plan"][key], expected["plan"][key], key)
                kept = json.loads((self.folder / "part" / "plan.json").read_text())
                untold = {"request", *({"bound"} & set(absent))}  # a bound follows from nothing
                self.assertEqual(set(kept) - untold, set(whole) - untold)
                self.assertEqual("bound" in kept, "bound" not in absent)
                self.assertEqual(report["plan"]["gap"] is None, "bound" in absent)

    def test_a_boundary_is_moved_by_editing_one_line(self):
        self.assertEqual(run("plan", "lenet5", "--workers", 2, "--short", "--out", self.plan).returncode, 0)
        before = self.train(*self.common, out="before")
        lines = self.plan.read_text().splitlines(True)
        (at,) = [number for number, line in enumerate(lines) if '"parts": [1]' in line]
        nodes = [node for stage in before["plan"]["stages"] for node in stage["nodes"]]
        first = before["plan"]["stages"][1]["nodes"][0]
        moved = nodes[nodes.index(first) - 1]
        lines[at] = lines[at].replace(f'"{first}"', f'"{moved}"')
        self.plan.write_text("".join(lines))
        after = self.train(*self.common, out="after")
        self.assertEqual(after["losses"], before["losses"], "bit for bit")
        self.assertTrue(after["equal"])
        self.assertEqual(after["plan"]["stages"][1]["nodes"], [moved, *before["plan"]["stages"][1]["nodes"]])

    def test_short_plans_of_groups_say_no_more_than_needed(self):
        for cut in ("feature", "batch", "hybrid"):
            with self.subTest(cut=cut):
                made = run("plan", "mlp", "--cut", cut, "--workers", 4, "--short", "--out", self.plan, "--json")
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertFalse(set(self.FOLLOWS) & set(json.loads(self.plan.read_text())))
                report = self.train("mlp", *SYNTHETIC, *BRIEFLY, "--plan", self.plan)
                for key in ("workers", "routes", "stages"):
                    self.assertEqual(report["plan"][key], json.loads(made.stdout)[key])
        self.assert_one_error(run("plan", "mlp", "--short"), "--short", "--out")


class Compare(KerfTest):
    """Plans side by side say what each says by itself."""

    def plan(self, name, *flags):
        path = self.folder / name
        told = run("plan", *flags, "--out", path, "--json")
        self.assertEqual(told.returncode, 0, told.stderr)
        return path, json.loads(told.stdout)

    def test_each_line_is_what_the_plan_said(self):
        plans = [self.plan("layers.json", "lenet5", "--workers", 3),
                 self.plan("features.json", "lenet5", "--cut", "feature", "--workers", 2)]
        done = run("compare", *[path for path, _ in plans], "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        for told, (path, plan) in zip(json.loads(done.stdout)["plans"], plans, strict=True):
            self.assertEqual((told["file"], told["cut"], told["workers"]), (str(path), plan["cut"], len(plan["workers"])))
            for name in ("seconds", "forward_flops", "weight_bytes"):
                self.assertEqual(told[name], max(worker[name] for worker in plan["workers"]), name)
            self.assertEqual(told["peak_bytes"], max(plan["proved_bytes"]))
            self.assertEqual(told["messages"], sum(worker["messages"] for worker in plan["workers"]))
            self.assertEqual(told["bytes"], sum(worker["bytes_out"] for worker in plan["workers"]))
            self.assertEqual(told["cut_bytes"], plan["cut_bytes"])
            self.assertEqual(told["step_seconds"], plan["step_seconds"])
            for worker, idle, copies in zip(plan["workers"], plan["idle"], plan["copy_seconds"], strict=True):
                self.assertAlmostEqual(worker["seconds"] + copies, (1 - idle) * plan["step_seconds"])
        for_people = run("compare", *[path for path, _ in plans])
        self.assertEqual(for_people.returncode, 0, for_people.stderr)
        for path, plan in plans:
            self.assertRegex(for_people.stdout, rf"(?m)^{path} +{plan['cut']} ")
        self.assertNotIn("models", for_people.stdout)

    def test_what_cannot_be_compared_is_told(self):
        lenet, _ = self.plan("a.json", "lenet5", "--batch", 64)
        mlp, _ = self.plan("b.json", "mlp")
        done = run("compare", lenet, mlp)
        self.assertIn("they are of 2 models: lenet5, mlp", done.stdout)
        self.assertIn("of different batches: 64, 128 rows", done.stdout)
        # Of one name, but not of one size.
        small, _ = self.plan("c.json", "mlp", "--sizes", "784-10-10")
        done = run("compare", small, mlp)
        self.assertIn("they are of 2 models: mlp", done.stdout)
        self.assertIn("mlp 784-10-10", done.stdout)
        self.assertNotIn("they are of", run("compare", mlp, mlp).stdout)

    def test_a_schedule_that_nobody_has_is_missed(self):
        path, _ = self.plan("a.json", "lenet5", "--workers", 2)
        plan = json.loads(path.read_text())
        del plan["checksum"]
        path.write_text(json.dumps({**plan, "schedule": "nosuch"}))
        for command in (("compare", path), ("plan", "--check", path), ("train", *SYNTHETIC, *BRIEFLY, "--plan", path, "--out", self.folder / "out"),
                        ("train", *SYNTHETIC, *BRIEFLY, "--plan", path, "--slots", 5, "--out", self.folder / "out")):
            with self.subTest(command=command[0]):
                self.assert_one_error(run(*command), "a.json: the plan's schedule: ", '"nosuch"', "1f1b")
        # Of no matter to who names another.
        self.assertEqual(run("schedule", "gpipe", "--plan", path).returncode, 0)

    def test_what_is_no_plan_is_named(self):
        plan, _ = self.plan("a.json", "lenet5")
        self.assert_one_error(run("compare", plan, self.folder / "none.json"), "none.json")
        (self.folder / "bad.json").write_text("{")
        self.assert_one_error(run("compare", plan, self.folder / "bad.json"), "bad.json:1:")


if __name__ == "__main__":
    unittest.main()
