"""Micro-batches of varying length: --micro-batches 20,5,15,10 says the rows of each, and plans, runs and reports go by it."""

import json
import unittest

from kerf_command import KerfTest, run

SIZES = "20,5,15,10"
ROWS = [20, 5, 15, 10]
# 203 rows by 50: the last step has 3, all of them the first micro-batch's.
UNEVEN = ("--data", "synthetic:203x784x10", "--epochs", 2, "--seed", 5, "--lr", 0.05)
BRIEFLY = ("--data", "synthetic:100x784x10", "--steps", 2, "--no-test", "--transport", "inproc")
PERCEPTRON = ("mlp", "--sizes", "784-64-48-32-24-10")


class Runs(KerfTest):
    def test_any_plan_answers_as_one_worker(self):
        reference = self.train("lenet5", *UNEVEN, "--micro-batches", SIZES, "--workers", 1, "--transport", "inproc", out="reference")
        weights = (self.folder / "reference" / "weights.safetensors").read_bytes()
        self.assertEqual((reference["plan"]["batch"], reference["plan"]["micro_batches"]), (50, 4))
        self.assertEqual(reference["plan"]["micro_batch_rows"], ROWS)
        for schedule, transport in (("1f1b", "shm"), ("gpipe", "inproc")):
            with self.subTest(schedule=schedule):
                report = self.train("lenet5", *UNEVEN, "--micro-batches", SIZES, "--workers", 3, "--schedule", schedule, "--transport", transport)
                self.assertEqual(report["losses"], reference["losses"])
                self.assertTrue((self.folder / "run" / "weights.safetensors").read_bytes() == weights, "weights differ")
                self.assertTrue(report["equal"], "messages and bytes as predicted")
                for worker in report["workers"]:
                    self.assertEqual(worker["peak_bytes"], worker["proved_bytes"], worker)
        even = self.train("lenet5", *UNEVEN, "--batch", 50, "--micro-batches", 4, "--workers", 1, "--transport", "inproc", out="even")
        self.assertNotIn("micro_batch_rows", even["plan"])
        for given, loss in zip(reference["losses"], even["losses"]):
            self.assertAlmostEqual(given, loss, delta=1e-4 * loss)

    def test_messages_and_bytes_are_as_predicted_under_every_cut_and_schedule(self):
        flags = (("--cut", "feature"), ("--cut", "batch"), ("--cut", "hybrid", "--workers", 4), ("--schedule", "ampnet"), ("--schedule", "pipedream"),
                 ("--schedule", "pipedream-2bw"), ("--schedule", "chimera"), ("--schedule", "zbv"), ("--cut", "auto"))
        for cut in flags:
            with self.subTest(cut=cut):
                report = self.train(*PERCEPTRON, *BRIEFLY, "--micro-batches", SIZES, *(() if "hybrid" in cut else ("--workers", 2)), *cut)
                self.assertTrue(report["equal"])
                self.assertEqual(report["plan"]["micro_batch_rows"], ROWS)

    def test_a_plan_keeps_them(self):
        for short in ((), ("--short",)):
            with self.subTest(short=short):
                file = self.folder / "plan.json"
                made = run("plan", "lenet5", "--workers", 2, "--micro-batches", SIZES, "--batch", 50, *short, "--out", file)
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertIn("batch 50 in micro-batches of 20,5,15,10, 1f1b", made.stdout)
                plan = json.loads(file.read_text())
                self.assertEqual((plan["batch"], plan["micro_batches"]), (50, ROWS))
                report = self.train("--plan", file, *BRIEFLY, "--micro-batches", SIZES, "--batch", 50)
                self.assertEqual(report["plan"]["micro_batch_rows"], ROWS)
                self.assertEqual(json.loads((self.folder / "run" / "plan.json").read_text())["micro_batches"], ROWS)
                for wrong in ("4", "20,5,10,15", "50"):
                    answer = run("train", "--plan", file, *BRIEFLY, "--micro-batches", wrong, "--out", self.folder / "out")
                    self.assert_one_error(answer, f"--micro-batches {wrong} contradicts the plan, which says {SIZES}; ")
                self.assertEqual(run("plan", "lenet5", "--check", file).returncode, 0)

    def test_files_that_say_no_such_rows_are_refused(self):
        file = self.folder / "plan.json"
        self.assertEqual(run("plan", "lenet5", "--workers", 2, "--micro-batches", SIZES, "--short", "--out", file).returncode, 0)
        plan = json.loads(file.read_text())
        for sizes in ([], [20, 5, 15, 0], [20, 5, 35, -10], [20, 5, 15, 11], [20, 5, "15", 10], [50.0], [[50]], [1] * 70000, None, "20,5"):
            with self.subTest(sizes=sizes if sizes is None else sizes[:8]):
                file.write_text(json.dumps({**plan, "micro_batches": sizes}))
                for command in (("train", "--plan", file, *BRIEFLY, "--out", self.folder / "out"), ("compare", file)):
                    self.assert_one_error(run(*command), "plan.json", "micro_batches")

    def test_reports_say_them(self):
        self.train("lenet5", *BRIEFLY, "--workers", 2, "--micro-batches", SIZES)
        folder = self.folder / "run"
        self.assertIn("batch 50 in micro-batches of 20,5,15,10, 1f1b", (folder / "report.html").read_text())
        self.assertEqual(json.loads(run("report", folder, "--json").stdout)["plan"]["micro_batch_rows"], ROWS)
        self.assertEqual(json.loads((folder / "run.json").read_text())["plan"]["micro_batches"], 4)
        self.assertIn("50 in 20,5,15,10", run("compare", folder).stdout)
        self.assertEqual(json.loads(run("compare", folder, "--json").stdout)["plans"][0]["micro_batch_rows"], ROWS)
        self.assertIn("batch 50 in micro-batches of 20,5,15,10, schedule 1f1b", (folder / "plan.svg").read_text())

    def test_a_run_is_planned_anew_with_them(self):
        self.train("lenet5", *BRIEFLY, "--workers", 2, "--micro-batches", SIZES)
        out = self.folder / "again.json"
        for flags, batch, sizes in (((), 50, ROWS), (("--micro-batches", 5), 50, 5), (("--batch", 64), 64, 4),
                                    (("--micro-batches", "10,20"), 30, [10, 20])):
            with self.subTest(flags=flags):
                done = run("plan", "--from-run", self.folder / "run", *flags, "--out", out)
                self.assertEqual(done.returncode, 0, done.stderr)
                plan = json.loads(out.read_text())
                self.assertEqual((plan["batch"], plan["micro_batches"]), (batch, sizes))

    def test_every_schedule_is_benched_with_them(self):
        done = run("bench", "schedules", *PERCEPTRON, "--workers", 2, "--micro-batches", SIZES, "--schedules", "gpipe,1f1b,ampnet", "--simulate-only",
                   "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["batch"], told["micro_batch_rows"]), (50, ROWS))
        self.assertEqual([row["micro_batches"] for row in told["own_memory"]["schedules"]], [4, 4, 4])
        for row in told["equal_memory"]["schedules"]:
            self.assertTrue(row["why_not"] or row["peak_bytes"] <= told["equal_memory"]["cap_bytes"], row)

    def test_answers_come_in_them(self):
        onnx = self.folder / "lenet5.onnx"
        self.train("lenet5", *BRIEFLY, "--workers", 1)
        self.assertEqual(run("export", "lenet5", "--weights", self.folder / "run" / "weights.safetensors", "--out", onnx).returncode, 0)
        eval_of = ("eval", "lenet5", "--weights", self.folder / "run" / "weights.safetensors", "--data", "synthetic:64x784x10", "--json")
        even, given = (json.loads(run(*eval_of, *flags).stdout) for flags in ((), ("--workers", 2, "--micro-batches", SIZES)))
        self.assertEqual(given["correct"], even["correct"])
        self.assertAlmostEqual(given["loss"], even["loss"], places=5)


class Refusals(KerfTest):
    def test_sizes_that_are_none(self):
        for sizes, what in (("32,", 'entry 2, ""'), (",32", 'entry 1, ""'), ("32,,8", 'entry 2, ""'), ("32,0", 'entry 2, "0"'), ("32,-8", 'entry 2, "-8"'),
                            ("32,x", 'entry 2, "x"'), ("32,8.5", 'entry 2, "8.5"'), ("32, 8", 'entry 2, " 8"'), ("32,010", 'entry 2, "010"'),
                            ("8,2147483649", "entry 2"), ("99999999999999999999,1", "entry 1"), ("2147483648,1", "with entry 2"),
                            ("x", '"x" is no whole number'), ("0", '"0" is no whole number from 1 to 65536')):
            for command in (("plan", "lenet5"), ("train", "lenet5", "--out", self.folder / "out"), ("bench", "schedules", "mlp")):
                with self.subTest(sizes=sizes, command=command[0]):
                    self.assert_one_error(run(*command, "--micro-batches", sizes), "--micro-batches: ", what)

    def test_a_batch_that_is_not_their_sum(self):
        for command in (("plan", "lenet5"), ("train", "lenet5", "--out", self.folder / "out"), ("bench", "schedules", "mlp"),
                        ("schedule", "1f1b", "--model", "lenet5")):
            with self.subTest(command=command[0]):
                self.assert_one_error(run(*command, "--batch", 64, "--micro-batches", SIZES), "--batch: ", "64", "50", f"--micro-batches {SIZES}")

    def test_what_takes_none(self):
        self.assert_one_error(run("schedule", "1f1b", "--micro-batches", SIZES), "--micro-batches: ", SIZES, "--model", "--micro-batches 4")
        self.assert_one_error(run("plan", "lenet5", "--memory", "64M", "--fit-batch", "--micro-batches", SIZES), "--fit-batch: ",
                              f"--micro-batches {SIZES}", "--micro-batches 4")
        self.assert_one_error(run("schedule", "search", "--model", "lenet5", "--micro-batches", SIZES), "search: ", "rows of each")
        schedule = self.folder / "two.txt"
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--micro-batches", 2, "--out", schedule).returncode, 0)
        self.assert_one_error(run("plan", "lenet5", "--schedule", schedule, "--micro-batches", SIZES), "two.txt", "for 2 micro-batches, not 4")

    def test_a_schedule_of_a_model_takes_them(self):
        answer = run("schedule", "gpipe", "--model", "lenet5", "--workers", 2, "--micro-batches", SIZES, "--costs", "plan", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertTrue(json.loads(answer.stdout)["verified"])

    def test_what_would_fit_is_even(self):
        common = ("lenet5", "--workers", 2)
        even = json.loads(run("plan", *common, "--batch", 128, "--micro-batches", 4, "--json").stdout)
        cap = max(even["proved_bytes"])
        given = (*common, "--micro-batches", "125,1,1,1", "--memory", cap)
        answer = run("plan", *given)
        self.assert_one_error(answer, "the smallest change that fits is --batch 128 --micro-batches ")
        change = answer.stderr.split("fits is ")[1].split(",")[0].split()
        self.assertEqual(run("plan", *given, *change).returncode, 0)


if __name__ == "__main__":
    unittest.main()
