"""`kerf profile`, and plans made by what was measured."""

import json
import unittest

from kerf_command import KerfTest, run

BRIEFLY = ("--steps", 2, "--no-test", "--transport", "inproc")
SYNTHETIC = ("--data", "synthetic:256x784x10")


class Profile(KerfTest):
    NET = ("mlp", "--sizes", "784-256-256-10")

    def profile(self, name="p.json"):
        file = self.folder / name
        answer = run("profile", *self.NET, "--rows", 32, "--steps", 4, "--out", file, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(file.read_text()), json.loads(answer.stdout))
        return file, json.loads(answer.stdout)

    def plan(self, *arguments):
        answer = run("plan", *self.NET, "--workers", 2, "--micro-batches", 4, "--json", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def test_a_plan_takes_as_long_as_was_measured(self):
        file, told = self.profile()
        self.assertEqual(set(told["seconds"]), {"fc1", "relu1", "fc2", "relu2", "fc3", "loss"})
        for seconds in told["seconds"].values():
            self.assertGreater(seconds["measured"]["forward"], 0)
        self.assertEqual(told["seconds"]["fc1"]["measured"]["input_gradient"], 0)
        measured = sum(sum(each["measured"].values()) for each in told["seconds"].values())
        plan = self.plan("--batch", 128, "--profile", file)
        seconds = sum(worker["seconds"] for worker in plan["workers"])
        self.assertAlmostEqual(seconds, 4 * measured, delta=1e-6 * seconds)  # of 32 rows each
        cut_by_hand = {**told, "profile": {"operators": {"fc3": [1e6, 1, 1]}}}
        file.write_text(json.dumps(cut_by_hand))
        self.assertEqual(self.plan("--profile", file)["stages"][1]["nodes"], ["fc3", "loss"])

    def test_a_plan_keeps_the_profile_that_it_was_made_by(self):
        file, _ = self.profile()
        out = self.folder / "plan.json"
        plan = self.plan("--profile", file, "--out", out)
        file.unlink()
        report = self.train("--plan", out, *SYNTHETIC, "--steps", 2)
        self.assertEqual([worker["predicted_step_seconds"] for worker in report["workers"]],
                         [worker["seconds"] for worker in plan["workers"]])

    def test_a_run_is_planned_anew_by_what_it_measured(self):
        self.train(*self.NET, *SYNTHETIC, "--workers", 2, "--micro-batches", 4, "--steps", 4)
        folder = self.folder / "run"
        profile = json.loads((folder / "profile.json").read_text())
        profile["profile"] = {"operators": {"fc3": [1e6, 1e6, 1e6]}}
        (folder / "profile.json").write_text(json.dumps(profile))
        before = json.loads((folder / "plan.json").read_text())
        answer = run("plan", *self.NET, "--from-run", folder, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        anew = json.loads(answer.stdout)
        self.assertEqual((anew["batch"], anew["micro_batches"], len(anew["workers"])),
                         (before["batch"], 4, 2))
        self.assertEqual(anew["stages"][1]["nodes"], ["fc3", "loss"])
        self.assertLessEqual(max(worker["seconds"] for worker in anew["workers"]),
                             max(worker["seconds"] for worker in anew["from_run"]["before"]))
        had = [name for name in before["stages"][1]["nodes"] if name.startswith("fc") and name != "fc3"]
        moved = anew["from_run"]["moved"]
        self.assertEqual([(each["name"], each["to"]) for each in moved],
                         [(f"{name}.{part}", 0) for name in had for part in ("weight", "bias")])
        self.assertEqual([each["bytes"] for each in moved if each["name"] == "fc2.weight"], [256 * 256 * 4])
        text = run("plan", "--from-run", folder).stdout  # whose model is the run's
        self.assertIn("of weights would move", text)
        self.assertEqual(run("plan", *self.NET, "--from-run", folder).stdout, text)

    def test_a_run_is_planned_anew_as_it_was_asked(self):
        again, run_folder = self.folder / "again.json", self.folder / "run"
        asked = ("--workers", 2, "--batch", 64, "--micro-batches", 4, "--objective", "forward-flops", "--slots", 8, "--threads", 2,
                 "--momentum", 0, "--memory", "64M", "--transport", "ipc", "--together", "conv1,conv2", "--slack", 0.25)
        made = run("plan", "lenet5", *asked, "--out", self.folder / "plan.json")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.train("--plan", self.folder / "plan.json", *SYNTHETIC, "--transport", "ipc", "--steps", 2, "--no-test")
        kept = json.loads((run_folder / "plan.json").read_text())

        def request(*flags):
            done = run("plan", "--from-run", run_folder, *flags, "--out", again, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            plan = json.loads(again.read_text())
            plan["request"].pop("profile")
            return plan
        plan = request()
        self.assertEqual(plan["request"], kept["request"])
        for key in ("cut", "batch", "micro_batches", "schedule", "binding"):
            self.assertEqual(plan[key], kept[key])
        # A flag goes before what the run was asked, and leaves the rest of it.
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 2}}}))
        steering = kept["request"]["steering"]
        self.assertEqual(request("--devices", devices)["request"]["steering"], steering)
        self.assertEqual(request("--apart", "conv1,fc2")["request"]["steering"], {"together": steering["together"], "apart": [["conv1", "fc2"]],
                                                                                    "slack": 0.25})
        self.assertEqual(request("--together", "fc1,fc2", "--slots", 3)["request"]["slots"], 3)
        self.assertNotIn("steering", request("--cut", "feature")["request"])
        self.assertIn("--together conv1,conv2 --slack 0.25\n", run("report", run_folder).stdout)
        self.assertEqual(json.loads(run("report", run_folder, "--json", "--plan").stdout)["asked"], steering)
        self.assertEqual(json.loads((run_folder / "run.json").read_text())["asked"], steering)
        self.assertIn(f"by what {run_folder} measured", run("plan", "--from-run", run_folder).stdout)

    def test_a_run_by_a_schedule_of_its_own_is_planned_for_that(self):
        file, out = self.folder / "mine.txt", self.folder / "out.json"
        file.write_text("kerf-schedule 1\nname v\nworkers 2\nmicro-batches 2\n"
                        "stage 0 on 0\nstage 1 on 1\nstage 2 on 1\nstage 3 on 0\n"
                        "row 0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0U 3U\n"
                        "row 1: 1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1U 2U\n")
        self.train("lenet5", *SYNTHETIC, *BRIEFLY, "--schedule", file)
        folder = self.folder / "run"
        done = run("plan", "--from-run", folder, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual([stage["workers"] for stage in plan["stages"]], [[0], [1], [1], [0]])
        self.assertEqual(plan["schedule"], str(folder / "schedule.txt"))
        for flags in (("--workers", 3), ("--micro-batches", 4), ("--cut", "feature"), ("--stages-per-worker", 2)):
            self.assert_one_error(run("plan", "--from-run", folder, *flags, "--out", out), "--from-run: ", "--schedule")
        self.assertFalse(out.exists())
        done = run("plan", "--from-run", folder, "--workers", 3, "--schedule", "gpipe", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_free_cuts_are_planned_anew_by_what_made_them(self):
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 2}}}))
        for name, flags in (("ways", ("--way", "fc1=batch", "--way", "fc2=feature")), ("pattern", ("--cut", "free", "--pattern", "even")),
                            ("devices", ("--cut", "free", "--devices", devices)), ("others", ("--cut", "batch", "--way", "fc2=feature"))):
            with self.subTest(name):
                self.train(*self.NET, *SYNTHETIC, *flags, "--workers", 2, "--steps", 2, "--no-test", out=name)
                kept = json.loads((self.folder / name / "plan.json").read_text())
                done = run("plan", "--from-run", self.folder / name, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                anew = json.loads(done.stdout)
                self.assertEqual(anew["cut"], "free")
                asked = {**kept["request"].get("steering", {}), **{key: value for key, value in kept["request"].items() if key == "devices"}}
                self.assertEqual(anew["asked"], asked)
        done = run("plan", "--from-run", self.folder / "ways", "--way", "fc*=feature", "--json")
        self.assertEqual(json.loads(done.stdout)["asked"]["ways"], [{"nodes": "fc*", "way": "feature"}])

    def test_the_median_is_of_as_many_steps_as_it_says(self):
        for steps, told in ((4, "the median of 3 steps"), (1, "the median of 1 step\n")):
            done = run("profile", *self.NET, "--rows", 8, "--steps", steps, "--out", self.folder / "p.json")
            self.assertIn(told, done.stdout)

    def test_a_run_that_shares_cut_leaves_nothing_to_plan_anew(self):
        shares = self.folder / "shares.json"
        shares.write_text(json.dumps({"kerf_shares": 1, "shares": {"fc1": {"0": "all"}, "fc2": {"1": "all"}}}))
        self.train(*self.NET, *SYNTHETIC, "--cut", "free", "--shares", shares, "--workers", 2, "--steps", 2)
        folder = self.folder / "run"
        self.assert_one_error(run("plan", "--from-run", folder), "--from-run", "--cut", "--shares")
        self.assertEqual(run("plan", "--from-run", folder, "--cut", "layer").returncode, 0)
        self.assertEqual(run("plan", "--from-run", folder, "--way", "fc*=feature").returncode, 0)

    def test_where_it_cannot_go_is_told_before_anything_is_measured(self):
        self.assert_one_error(run("profile", "lenet5", "--out", self.folder / "none" / "x.json"), "--out: there is no folder for ", "none/x.json")

    def test_what_is_no_profile_of_the_model_is_named(self):
        file, told = self.profile()
        other = run("plan", "mlp", "--profile", file)
        self.assertEqual(other.returncode, 2)
        self.assertIn("this profile is of another model", other.stderr)
        for wrong, complaint in (({"kerf_profile": 2}, "version"), ({"more": 1}, "more"),
                                 ({"profile": {"operators": {"fc1": [1, 0, 1]}}}, "profile.operators.fc1: 0"),
                                 ({"profile": {"operators": {"fc1": [1, 1]}}}, "three numbers"),
                                 ({"profile": {"operators": {"fc99": [1, 1, 1]}}}, 'mlp has no operator "fc99"'),
                                 ({"profile": {"operators": {"fc99.sums": [1, 1, 1]}}}, 'mlp has no operator "fc99.sums"'),
                                 ({"rows": -1}, '"rows" is -1'), ({"micro_batches": "zig"}, "micro_batches"),
                                 ({"profile": {"operators": []}}, "operators"),
                                 ({"profile": {}}, "operators")):
            with self.subTest(wrong=wrong):
                file.write_text(json.dumps({**told, **wrong}))
                answer = run("plan", *self.NET, "--profile", file)
                self.assertEqual(answer.returncode, 2, answer.stderr)
                self.assertIn(str(file), answer.stderr)
                self.assertIn(complaint, answer.stderr)


if __name__ == "__main__":
    unittest.main()
