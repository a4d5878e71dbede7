"""kerf schedule over links, what workers keep over time, a cap of what is in flight, and kerf schedule sweep."""

import csv
import io
import json
import re
import unittest

from kerf_command import KerfTest, run


def report(*flags):
    answer = run("schedule", *flags, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


class Links(KerfTest):
    FLAGS = ("gpipe", "--workers", 3, "--micro-batches", 5)

    def write(self, name, content):
        (self.folder / name).write_text(json.dumps(content))
        return self.folder / name

    def test_take_what_the_formula_says(self):
        # 7 steps of 3 units, and each ramp's two ways of 10 / 20 + 0.25.
        answer = report(*self.FLAGS, "--link", "0.25,20", "--message-bytes", 10)
        self.assertAlmostEqual(answer["makespan"], 21 + 4 * 0.75)
        self.assertGreater(answer["idle"]["communication"], 0)
        # Without a bandwidth nothing needs to be said of bytes; COMM is of no link.
        self.assertAlmostEqual(report(*self.FLAGS, "--link", 0.25, "--costs", "1,1,1,9")["makespan"], 22)

    def test_of_a_file_of_devices_go_before_the_others(self):
        devices = self.write("devices.json", {"kerf_devices": 1, "workers": {str(i): {"speed": 1} for i in range(3)},
                                              "links": [{"between": [1, 2], "seconds": 2}]})
        self.assertAlmostEqual(report(*self.FLAGS, "--devices", devices)["makespan"], 21 + 2 * 2)
        self.assertAlmostEqual(report(*self.FLAGS, "--devices", devices, "--link", 0.25)["makespan"], 21 + 2 * 2.25)

    def test_wait_for_each_other_as_contention_says(self):
        flags = ("gpipe", "--workers", 2, "--micro-batches", 4, "--link", "0,1", "--message-bytes", 5)
        both_ways = 2 + 4 + 2 * 4 * 5
        self.assertAlmostEqual(report(*flags)["makespan"], both_ways)
        self.assertAlmostEqual(report(*flags, "--contention", "port")["makespan"], both_ways)
        self.assertAlmostEqual(report(*flags, "--contention", "none")["makespan"], 3 * 5 + 2 * 5)

    def test_of_a_step_are_told_without_what_sums_round(self):
        answer = run("schedule", "1f1b", "--workers", 4, "--micro-batches", 8, "--costs", "1,1.3,0.7,0.1")
        self.assertIn("a step takes 34.6 units;", answer.stdout)

    def test_have_the_bytes_of_a_file_of_costs(self):
        stage = {"F": 1, "I": 1, "W": 1}
        costs = self.write("costs.json", {"kerf_costs": 1, "stages": [stage | {"F_bytes": 10}, stage | {"F_bytes": 10, "I_bytes": 20},
                                                                      stage | {"I_bytes": 20}]})
        self.assertAlmostEqual(report(*self.FLAGS, "--link", "0,20", "--costs", costs)["makespan"], 21 + 2 * 0.5 + 2 * 1)

    def test_are_refused_by_name(self):
        for flags, flag, words in ((("--link", "0,10"), "--message-bytes", "nothing says how many bytes"),
                                   (("--link", "0,0"), "--link", "bandwidth"), (("--link", "-1"), "--link", "latency"),
                                   (("--link", "1,1,1"), "--link", "LATENCY"), (("--link", "nan"), "--link", "latency"),
                                   (("--link", "1,1", "--message-bytes", "x"), "--message-bytes", "numbers of bytes"),
                                   (("--contention", "host"), "--contention", "port"), (("--costs", "plan"), "--costs", "--model")):
            self.assert_one_error(run("schedule", *self.FLAGS, *flags), flag, words, code=2)

    def test_of_a_plan_are_those_that_it_was_made_for(self):
        flags = ("1f1b", "--model", "lenet5", "--workers", 3, "--micro-batches", 4, "--costs", "plan")
        answer = report(*flags)
        self.assertTrue(answer["verified"])
        self.assertLess(answer["makespan"], 1, "seconds")
        self.assertGreater(report(*flags, "--link", "0.1,1e9")["makespan"], answer["makespan"] + 0.3)
        costs = self.folder / "costs.json"
        made = run("plan", "lenet5", *flags[3:-2], "--stage-costs", costs)
        self.assertEqual(made.returncode, 0, made.stderr)
        stages = json.loads(costs.read_text())["stages"]
        self.assertGreater(stages[0]["F_bytes"], 0)
        self.assertNotIn("F_bytes", stages[2])
        for stage in stages:
            self.assertGreater(stage["kept_bytes"], 0)


class Kept(KerfTest):
    def test_is_told_over_time(self):
        answer = report("1f1b", "--workers", 2, "--micro-batches", 3)
        # worker 0  0F0 0F1     0B0     0F2 0B1 ...; worker 1 F and B in turn
        self.assertEqual(answer["kept"][1]["times"], [2, 4, 5, 7, 8, 10])
        self.assertEqual(answer["kept"][1]["micro_batches"], [1, 0, 1, 0, 1, 0])
        self.assertEqual([peak["micro_batches"] for peak in answer["kept_peaks"]], answer["peak_activations"])
        self.assertEqual(answer["kept_peaks"][0]["time"], 2)
        self.assertNotIn("bytes", answer["kept"][0])
        self.assertIn("micro-batches, first at 2 2", run("schedule", "1f1b", "--workers", 2, "--micro-batches", 3).stdout)

    def test_is_in_bytes_with_a_plan(self):
        flags = ("1f1b", "--model", "lenet5", "--workers", 2, "--micro-batches", 4)
        answer = report(*flags)
        for worker, peak in enumerate(answer["kept_peaks"]):
            self.assertGreater(peak["bytes"], 0)
            self.assertLess(peak["bytes"], answer["peak_bytes"][worker])
            self.assertEqual(max(answer["kept"][worker]["bytes"]), peak["bytes"])
        self.assertIn("of activations, by worker", run("schedule", *flags).stdout)

    def test_is_drawn(self):
        picture = self.folder / "step.svg"
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--micro-batches", 3, "--svg", picture).returncode, 0)
        text = picture.read_text()
        self.assertIn("keeps 3 micro-batches: 3 to ", text)
        self.assertIn("kept, 3 micro-batches at most", text)
        self.assertEqual(run("schedule", "forward-only", "--svg", picture).returncode, 0)
        self.assertNotIn("kept", picture.read_text())


class InFlight(KerfTest):
    def test_is_a_cap_of_a_named_schedule(self):
        flags = ("zb-h2", "--workers", 4, "--micro-batches", 12)
        spans = {}
        for cap in (4, 5, 6, 7):
            answer = report(*flags, "--in-flight", cap)
            self.assertTrue(answer["verified"], answer["problems"])
            self.assertLessEqual(max(answer["peak_activations"]), cap)
            spans[cap] = answer["bubble_span"]
        self.assertEqual(sorted(spans.values(), reverse=True), list(spans.values()), "more memory, less time")
        self.assertEqual((spans[4], spans[7]), (report("zb-h1", *flags[1:])["bubble_span"], 0))

    def test_that_leaves_a_schedule_no_place_is_refused(self):
        self.assert_one_error(run("schedule", "zbv", "--in-flight", 1), "--in-flight", "wait for ever", "by itself it has 8", code=2)
        self.assert_one_error(run("schedule", "pipedream", "--in-flight", 1), "--in-flight", "for ever", code=2)
        self.assert_one_error(run("schedule", "search", "--in-flight", 1), "--in-flight", "--keep", code=2)
        self.assert_one_error(run("schedule", "1f1b", "--in-flight", 0), "--in-flight", code=2)

    def test_gives_a_text_that_trains(self):
        file = self.folder / "mine.txt"
        made = run("schedule", "gpipe", "--model", "mlp", "--workers", 2, "--micro-batches", 4, "--in-flight", 2, "--out", file)
        self.assertEqual(made.returncode, 0, made.stderr)
        done = run("train", "mlp", "--data", "synthetic", "--steps", 2, "--workers", 2, "--micro-batches", 4, "--schedule", file, "--out",
                   self.folder / "run")
        self.assertEqual(done.returncode, 0, done.stderr)


class Recompute(KerfTest):
    def test_makes_each_forward_again_for_less_memory(self):
        flags = ("gpipe", "--workers", 3, "--micro-batches", 4)
        kept, again = report(*flags), report(*flags, "--recompute")
        self.assertTrue(again["verified"], again["problems"])
        self.assertEqual((max(kept["peak_activations"]), max(again["peak_activations"])), (4, 1))
        self.assertGreater(again["makespan"], kept["makespan"])

    def test_is_a_schedule_that_trains(self):
        file = self.folder / "again.txt"
        made = run("schedule", "1f1b", "--workers", 2, "--micro-batches", 4, "--recompute", "--out", file)
        self.assertEqual(made.returncode, 0, made.stderr)
        weights = []
        for schedule in ("1f1b", file):
            folder = self.folder / f"run{len(weights)}"
            done = run("train", "mlp", "--data", "synthetic", "--steps", 2, "--workers", 2, "--micro-batches", 4, "--schedule", schedule, "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            weights.append((folder / "weights.safetensors").read_bytes())
        self.assertEqual(weights[0], weights[1], "bit for bit")

    def test_of_a_file_is_refused(self):
        file = self.folder / "mine.txt"
        run("schedule", "gpipe", "--out", file)
        self.assert_one_error(run("schedule", file, "--recompute"), "--recompute", "by RECOMPUTE", code=2)
        self.assert_one_error(run("schedule", "search", "--recompute"), "--recompute", code=2)


class PyTorchsOrder(KerfTest):
    def test_of_gradients_trains_and_says_that_its_bits_are_its_own(self):
        file = self.folder / "last-first.csv"
        file.write_text("0F0,0F1,,,0B1,0B0\n,1F0,1F1,1B1,1B0,\n")
        looked = report(file)
        self.assertTrue(looked["verified"])
        self.assertFalse(looked["same_bits"])
        self.assert_one_error(run("schedule", file, "--out", self.folder / "mine.txt"), "--out", "do not go up", code=2)
        losses = []
        for schedule in ("gpipe", file):
            done = run("train", "mlp", "--data", "synthetic", "--steps", 3, "--workers", 2, "--micro-batches", 2, "--schedule", schedule, "--json",
                       "--out", self.folder / f"run{len(losses)}")
            self.assertEqual(done.returncode, 0, done.stderr)
            record = json.loads(done.stdout)
            self.assertEqual(record["same_bits"], schedule == "gpipe")
            losses.append(record["losses"])
        for one, other in zip(*losses, strict=True):
            self.assertAlmostEqual(one, other, 5)


ENDLESS = """kerf-schedule 1
name mine
workers 2
micro-batches 2
stage 0 on 0
stage 1 on 1
prologue 0: 0F0
steady 0: 0F1 0B0 0U0 0F2 0B1 0U1
prologue 1:
steady 1: 1F0 1B0 1U0 1F1 1B1 1U1
"""


class Asynchronous(KerfTest):
    def test_a_file_of_periods_trains_by_steps_of_them(self):
        file = self.folder / "mine.txt"
        file.write_text(ENDLESS)
        common = ("mlp", "--data", "synthetic:70x784x10", "--batch", 32, "--micro-batches", 6, "--epochs", 2, "--workers", 2, "--seed", 3)
        mine = self.train(*common, "--schedule", file, out="mine")
        self.assertEqual((mine["same_bits"], mine["staleness"]), (False, [1, 0]))
        self.assertEqual(mine["predicted"], mine["counted"])
        self.assertEqual(mine["losses"], self.train(*common, "--schedule", "pipedream", out="named")["losses"])
        plan = self.folder / "plan.json"
        planned = run("plan", "mlp", "--batch", 32, "--micro-batches", 6, "--workers", 2, "--schedule", file, "--out", plan)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        again = self.train("--plan", plan, "--data", "synthetic:70x784x10", "--epochs", 2, "--seed", 3, out="planned")
        self.assertEqual(again["losses"], mine["losses"])
        answer = run("eval", "--plan", plan, "--weights", self.folder / "mine/weights.safetensors", "--data", "synthetic:70x784x10", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(answer.stdout)["correct"], mine["evaluations"][-1]["correct"])

    def test_why_steps_drain_is_told_before_a_run_and_kept(self):
        why = "a stage is 2 micro-batches ahead, and a step has 1"
        common = ("mlp", "--data", "synthetic:70x784x10", "--batch", 32, "--steps", 3, "--workers", 3, "--schedule", "pipedream")
        for command in ("train", *common, "--micro-batches", 1, "--out", self.folder / "short"), ("plan", "mlp", "--workers", 3, "--schedule", "pipedream", "--micro-batches", 1):
            answer = run(*command)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn(f"note: the pipeline drains at the end of each step: {why}", answer.stderr)
        self.assertEqual(json.loads((self.folder / "short/run.json").read_text())["drains"], why)
        self.assertIsNone(self.train(*common, "--micro-batches", 4, out="long")["drains"])

    def test_steps_that_periods_do_not_make_are_refused(self):
        file = self.folder / "mine.txt"
        file.write_text(ENDLESS)
        for command in (("train", "mlp", "--data", "synthetic"), ("plan", "mlp")):
            answer = run(*command, "--schedule", file, "--micro-batches", 7)
            self.assert_one_error(answer, "--micro-batches", "periods have 2 micro-batches, which make no step of 7", code=2)
        self.assert_one_error(run("schedule", file, "--micro-batches", 6), "--micro-batches", "--model", code=2)
        answer = run("plan", "mlp", "--schedule", "pipedream-2bw", "--workers", 4, "--micro-batches", 7)
        self.assert_one_error(answer, "had one update at its end", "use 6 or a multiple", code=2)

    def test_what_several_workers_would_have_to_wait_for_is_refused(self):
        common = ("train", "lenet5", "--data", "synthetic", "--workers", 2, "--schedule", "pipedream")
        self.assert_one_error(run(*common, "--cut", "batch"), "is shared by parts 0 and 1", "choose a cut", code=2)
        self.assert_one_error(run(*common, "--cut", "auto"), "--cut", "give --cut layer", code=2)
        self.assert_one_error(run(*common, "--clip-norm", 1), "--clip-norm", code=2)

    def test_versions_are_told_of_a_text_with_and_without_a_model(self):
        file = self.folder / "mine.txt"
        file.write_text(ENDLESS)
        self.assertEqual(report(file)["staleness"], [1, 0])
        looked = report(file, "--model", "mlp", "--batch", 32, "--micro-batches", 4)
        self.assertEqual((looked["staleness"], looked["versions"], looked["verified"]), ([1, 0], [2, 1], True))
        within = self.folder / "within.txt"
        within.write_text("kerf-schedule 1\nname w\nworkers 1\nmicro-batches 2\nstage 0 on 0\nrow 0: 0F0 0F1 0B0 0U0 0B1 0U1\n")
        self.assertEqual((report(within)["staleness"], report(within)["versions"]), ([1], [2]))


class Replicas(KerfTest):
    def test_train_both_ways(self):
        folder = self.folder / "run"
        done = run("train", "mlp", "--data", "synthetic", "--steps", 3, "--workers", 2, "--micro-batches", 4, "--schedule", "chimera", "--out", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("equal", done.stdout)
        plan = folder / "plan.json"
        self.assertEqual(json.loads(plan.read_text())["replica_of_micro_batch"], [0, 1, 0, 1])
        again = run("train", "--plan", plan, "--data", "synthetic", "--steps", 3, "--out", self.folder / "again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual((folder / "weights.safetensors").read_bytes(), (self.folder / "again" / "weights.safetensors").read_bytes())
        tested = run("eval", "--plan", plan, "--data", "synthetic", "--weights", folder / "weights.safetensors", "--json")
        self.assertEqual(tested.returncode, 0, tested.stderr)
        self.assertEqual(json.loads(tested.stdout)["accuracy"], json.loads((folder / "run.json").read_text())["accuracy"])

    def test_that_a_plan_or_a_model_has_no_place_for_are_refused(self):
        plan = self.folder / "plan.json"
        run("plan", "mlp", "--workers", 2, "--schedule", "chimera", "--out", plan)
        self.assert_one_error(run("schedule", "1f1b", "--plan", plan), "1 replica of each stage, and there are 2", code=2)
        self.assert_one_error(run("plan", "lenet5-bn", "--workers", 2, "--schedule", "chimera"), "node ", "without replicas", code=2)
        flags = ("plan", "mlp", "--workers", 2, "--schedule", "dualpipe")
        self.assert_one_error(run(*flags, "--cut", "auto"), "--cut", "one replica", code=2)
        for flag in ("--why", "--front"):
            self.assert_one_error(run(*flags, flag), flag, "one replica", code=2)
        peak = max(worker["peak_bytes"] for worker in json.loads(run(*flags, "--json").stdout)["workers"])
        self.assert_one_error(run(*flags, "--memory", peak - 1), "needs 1 byte more than the memory cap", f"--memory {peak}", code=2)
        self.assertEqual(run(*flags, "--memory", peak).returncode, 0)

    def test_answer_as_one_does(self):
        import numpy
        model, rows = self.folder / "mlp.onnx", self.folder / "rows.npy"
        trained = self.folder / "trained"
        self.assertEqual(run("train", "mlp", "--sizes", "6-5-4", "--data", "synthetic:64x6x4", "--steps", 1, "--out", trained).returncode, 0)
        self.assertEqual(run("export", trained, "--out", model).returncode, 0)
        numpy.save(rows, numpy.random.default_rng(1).normal(size=(23, 6)).astype(numpy.float32))
        answers = []
        for schedule in ("gpipe", "chimera"):
            folder = self.folder / schedule
            done = run("infer", model, "--workers", 2, "--micro-batches", 4, "--batch", 9, "--schedule", schedule, "--input", f"image={rows}", "--output", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            answers.append({file.name: file.read_bytes() for file in folder.iterdir() if file.suffix == ".npy"})
        self.assertTrue(answers[0])
        self.assertEqual(answers[0], answers[1])


class Sweep(KerfTest):
    def swept(self, *flags):
        answer = run("schedule", "sweep", *flags, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)["points"]

    def test_has_every_combination(self):
        points = self.swept("1f1b,zbv", "--workers", "2,4", "--micro-batches", "4:16:*2", "--costs", "1,1,1", "--costs", "1,2,0.5,0.1")
        self.assertEqual(len(points), 2 * 2 * 3 * 2)
        for point in points:
            alone = report(point["name"], "--workers", point["workers"], "--micro-batches", point["micro_batches"], "--costs", point["costs"])
            for key in ("makespan", "bubble_step", "bubble_span"):
                self.assertEqual(point[key], alone[key], point)
            self.assertEqual(point["peak_activations"], max(alone["peak_activations"]))

    def test_goes_over_links(self):
        flags = ("gpipe", "--workers", 3, "--micro-batches", 5, "--message-bytes", 10)
        points = self.swept(*flags, "--link", "0,1e9", "--link", "0.25,20")
        self.assertEqual([point["link"] for point in points], ["0,1e9", "0.25,20"])
        self.assertAlmostEqual(points[0]["makespan"], 21, places=6)
        self.assertAlmostEqual(points[1]["makespan"], 24)
        self.assert_one_error(run("schedule", "sweep", "gpipe", "--link", "0,1e9"), "--message-bytes", code=2)

    def test_shows_what_a_schedule_refuses(self):
        points = self.swept("chimera,1f1b", "--workers", "3,4", "--micro-batches", 4)
        self.assertIn("even number of stages", points[0]["refused"])
        self.assertNotIn("makespan", points[0])
        self.assertEqual([point["refused"] for point in points[1:]], [None] * 3)
        text = run("schedule", "sweep", "chimera,1f1b", "--workers", "3,4", "--micro-batches", 4).stdout
        self.assertRegex(text, r"chimera +3 +4 +refused")
        self.assertIn("refused, of 4 micro-batches: chimera of 3 workers: ", text)

    def test_writes_csv_and_a_plot(self):
        table, plot = self.folder / "s.csv", self.folder / "s.svg"
        flags = ("1f1b,chimera", "--workers", "3", "--micro-batches", "2:6:2")
        answer = run("schedule", "sweep", *flags, "--csv", table, "--svg", plot)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        rows = list(csv.DictReader(io.StringIO(table.read_text())))
        self.assertEqual([int(row["micro_batches"]) for row in rows], [2, 4, 6] * 2)
        for row in rows[:3]:
            self.assertAlmostEqual(float(row["bubble_step"]), 2 / (int(row["micro_batches"]) + 2))
        self.assertIn("even number", rows[3]["refused"])
        self.assertEqual(rows[3]["makespan"], "")
        text = plot.read_text()
        self.assertIn("1f1b, 3 workers, 4: 0.333333", text)
        self.assertEqual(len(re.findall("<polyline class=\"bridge\"", text)), 1, "chimera has no point")
        run("schedule", "sweep", "1f1b", "--workers", "2:4", "--micro-batches", 4, "--svg", plot, "--plot", "makespan")
        self.assertIn("by workers", plot.read_text())
        self.assertIn("1f1b, 4: 21", plot.read_text())

    def test_refuses_what_is_hostile(self):
        for flags, flag, words in (((), "--micro-batches", "not within"), (("1f1b", "--micro-batches", "0"), "--micro-batches", "'0'"),
                                   (("1f1b", "--micro-batches", "4:2"), "--micro-batches", "'4:2'"),
                                   (("1f1b", "--micro-batches", "1:60000"), "--micro-batches", "more than 10000"),
                                   (("1f1b", "--micro-batches", "1:9:*1"), "--micro-batches", "TIMES"),
                                   (("1f1b", "--micro-batches", "1:9:0"), "--micro-batches", "STEP"),
                                   (("1f1b", "--micro-batches", "1,,2"), "--micro-batches", "''"),
                                   (("1f1b", "--workers", "60000", "--micro-batches", "60000"), "sweep", "actions"),
                                   (("1f1b", "--workers", "1:200", "--micro-batches", "1:200"), "sweep", "40000 combinations"),
                                   (("zigzag",), "NAMES", "zigzag"), (("1f1b,1f1b",), "NAMES", "twice"),
                                   (("1f1b", "--costs", "1,2"), "--costs", "I and W"), (("1f1b", "--plot", "area"), "--plot", "bubble")):
            flags = flags or ("1f1b", "--micro-batches", "1:2000000000:*2")
            with self.subTest(flags=flags):
                self.assert_one_error(run("schedule", "sweep", *flags), flag, words, code=2)


if __name__ == "__main__":
    unittest.main()
