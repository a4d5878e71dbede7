"""`kerf schedule`: schedules by name and from files, drawn, proved and written back."""

import json
import unittest

from kerf_command import KerfTest, run

BRIEFLY = ("--steps", 2, "--no-test", "--transport", "inproc")
SYNTHETIC = ("--data", "synthetic:256x784x10")


class Schedule(KerfTest):
    def test_draws_and_proves(self):
        answer = run("schedule", "1f1b", "--workers", 3, "--micro-batches", 4)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("proved", answer.stdout)
        self.assertIn("idle", answer.stdout)

    def test_text_reads_back(self):
        file = self.folder / "mine.txt"
        made = json.loads(run("schedule", "gpipe", "--workers", 3, "--micro-batches", 4, "--json", "--out", file).stdout)
        read = json.loads(run("schedule", file, "--json").stdout)
        self.assertEqual(made, read)
        self.assertTrue(read["verified"])

    def test_with_a_model_it_tells_the_smallest_safe_slots_and_the_peak(self):
        # GPipe's workers send all before they receive any: what both ends hold is enough.
        for schedule, slots in (("1f1b", 1), ("gpipe", 0)):
            flags = ("--model", "lenet5", "--workers", 3, "--slots", 3, "--json")
            report = json.loads(run("schedule", schedule, *flags).stdout)
            self.assertEqual((report["smallest_safe_slots"], report["slots"]), (slots, 3))
            planned = json.loads(run("plan", "lenet5", *flags[2:], "--schedule", schedule).stdout)
            self.assertEqual(report["peak_bytes"], [worker["peak_bytes"] for worker in planned["workers"]])


    def test_a_plan_brings_its_schedule(self):
        plan = self.folder / "plan.json"
        self.assertEqual(run("plan", "mlp", "--workers", 2, "--schedule", "gpipe", "--out", plan).returncode, 0)
        for name, expected in (((), "gpipe"), (("1f1b",), "1f1b")):
            answer = run("schedule", *name, "--model", "mlp", "--plan", plan, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual(json.loads(answer.stdout)["name"], expected)

    def test_four_workers_with_a_model_and_without(self):
        for more in ((), ("--model", "lenet5")):
            self.assertEqual(json.loads(run("schedule", *more, "--json").stdout)["workers"], 4)

    def test_one_of_a_thing_is_not_several(self):
        answer = run("schedule", "gpipe", "--model", "mlp", "--workers", 1, "--micro-batches", 1, "--slots", 1)
        self.assertIn("gpipe: 1 worker, 1 stage, 1 micro-batch\n", answer.stdout)
        self.assertIn("no deadlock with 1 slot\n", answer.stdout)

    def test_a_deadlock_is_refuted_without_a_model(self):
        file = self.folder / "stuck.txt"
        file.write_text("kerf-schedule 1\nname stuck\nworkers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 1\n"
                        "row 0: 0F0 0B0 0F1 0B1 0U\nrow 1: 1F0 1F1 1B0 1B1 1U\n")
        answer = run("schedule", file)
        self.assert_one_error(answer, "stuck.txt", "worker 0: 0B0: waits for ever", "worker 1: 1F1: waits for ever", code=1)
        self.assertNotIn("proved", answer.stdout)

    def test_refuted_is_1_and_unreadable_is_2(self):
        file = self.folder / "mine.txt"
        self.assertEqual(run("schedule", "1f1b", "--workers", 2, "--micro-batches", 2, "--out", file).returncode, 0)
        sound = file.read_text()
        for more in ((), ("--model", "mlp"), ("--json",)):
            file.write_text(sound.replace("1B1", "1B0"))
            answer = run("schedule", file, *more)
            self.assert_one_error(answer, "mine.txt", "refuted", code=1)
            self.assertNotIn('"verified": true', answer.stdout)
        file.write_text(sound.replace("0F1", "0Q1"))
        self.assert_one_error(run("schedule", file), "mine.txt:", code=2)
        file.unlink()
        self.assert_one_error(run("schedule", file), "mine.txt", code=2)

    def test_built_in_schedules_are_proved_with_what_they_need(self):
        for name, chunks, idle in (("1f1b", 1, 3 / 11), ("interleaved", 2, 3 / 19), ("zb-h1", 1, 3 / 27), ("zbv", 2, 3 / 51)):
            report = json.loads(run("schedule", name, "--workers", 4, "--micro-batches", 8, "--json").stdout)
            self.assertEqual((report["workers"], report["stages"], report["verified"]), (4, 4 * chunks, True), name)
            self.assertAlmostEqual(report["bubble_step"], idle)
            self.assertEqual((report["smallest_buffer"], report["buffer"]), (1, 1), name)
        self.assertEqual(report["bubble_span"], 0)
        self.assertEqual((report["makespan"], report["peak_activations"]), (51, [8, 8, 8, 8]))

    def test_the_buffer_decides(self):
        for buffer, code in (("unbounded", 0), ("1", 0), ("rendezvous", 1)):
            answer = run("schedule", "1f1b", "--workers", 2, "--micro-batches", 4, "--buffer", buffer, "--json")
            report = json.loads(answer.stdout)
            self.assertEqual((answer.returncode, report["verified"]), (code, code == 0), buffer)
            self.assertEqual(report["buffer"], int(buffer) if buffer == "1" else buffer)
        self.assert_one_error(answer, "deadlock under rendezvous", "worker 0: 0F1: waits for ever until stage 1 takes up",
                              "worker 1: 1B0: waits for ever until stage 0 takes up", code=1)

    def test_costs_are_those_given(self):
        flags = ("--workers", 2, "--micro-batches", 4, "--json")
        file = self.folder / "costs.json"
        file.write_text(json.dumps({"kerf_costs": 1, "COMM": 0.5, "stages": [{"F": 1, "I": 2, "W": 3}] * 2}))
        for costs in (file, "1,2,3,0.5"):
            report = json.loads(run("schedule", "gpipe", "--costs", costs, *flags).stdout)
            self.assertEqual(report["makespan"], 5 * 6 + 2 * 0.5)
        self.assert_one_error(run("schedule", "gpipe", "--costs", "1,2", *flags), "--costs", "I and W", code=2)
        file.write_text('{"kerf_costs": 1, "stages": [{"F": -1, "I": 1, "W": 1}]}')
        self.assert_one_error(run("schedule", "gpipe", "--costs", file, *flags), "stages[0]", "F costs -1", code=2)

    def test_idle_time_is_told_apart(self):
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 2}}}))
        flags = ("--workers", 2, "--micro-batches", 20, "--costs", "1,1,1,0.1", "--json")
        report = json.loads(run("schedule", "1f1b", "--devices", devices, "--jitter", 0.2, *flags).stdout)
        self.assertAlmostEqual(sum(report["idle"].values()), report["bubble_step"])
        self.assertGreater(report["idle"]["imbalance"], 0.15)
        self.assertTrue(report["makespan"] < report["makespan_p95"] < 1.2 * report["makespan"])
        self.assertNotIn("makespan_p95", json.loads(run("schedule", "1f1b", *flags).stdout))
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 0}, "1": {"speed": 2}}}))
        self.assert_one_error(run("schedule", "1f1b", "--devices", devices, *flags), "devices.json", "worker 0", "speed", code=2)

    def test_a_period_is_what_an_endless_schedule_takes_in_the_long_run(self):
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 2}, "1": {"speed": 2}}}))

        def period(*flags):
            return json.loads(run("schedule", "pipedream", "--workers", 2, *flags, "--json").stdout)["period"]

        # Two micro-batches are under way: they take turns of 3 and 13.
        late = ("--costs", "1,1,1,5", "--micro-batches")
        self.assertEqual((period(*late, 1), period(*late, 2), period(*late, 1, "--jitter", 0.5)), (8, 16, 8))
        self.assertEqual(period("--micro-batches", 1, "--devices", devices), 1.5)

    def test_what_is_too_long_to_prove_is_simulated(self):
        report = json.loads(run("schedule", "1f1b", "--workers", 1024, "--micro-batches", 1024, "--json").stdout)
        self.assertIsNone(report["verified"])
        self.assertEqual(report["makespan"], 3 * (1024 + 1023))
        for flags in (("--workers", 65536, "--micro-batches", 65536), ("--workers", 65536, "--chunks", 4096)):
            self.assert_one_error(run("schedule", "interleaved", *flags), "are more than", code=2)

    def test_pytorchs_form_is_read_and_written_back(self):
        file, back = self.folder / "torch.csv", self.folder / "back.csv"
        text = ("0F0,0SEND_F0,0F1,0SEND_F1,,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
                "1RECV_F0,1RECV_F1,1F0,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1B1,1SEND_B1\r\n")
        file.write_bytes(text.encode())
        report = json.loads(run("schedule", file, "--csv", back, "--json").stdout)
        self.assertEqual((report["verified"], report["same_bits"], report["micro_batches"]), (True, True, 2))
        self.assertEqual(report["transfers"], "written")
        self.assertEqual(back.read_bytes().decode(), text)
        file.write_text(text.replace(",1SEND_B1", ""))
        self.assert_one_error(run("schedule", file), "refuted: worker 1: 1SEND_B1 is missing", code=1)
        file.write_text(text.replace("1RECV_F0,1RECV_F1,1F0", "1RECV_F1,1RECV_F0,1F0"))
        self.assert_one_error(run("schedule", file, "--buffer", 2), "1RECV_F1 would get what 0SEND_F0 sends", code=1)
        self.train("mlp", *SYNTHETIC, *BRIEFLY, "--schedule", file)
        file.write_text("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n")
        report = json.loads(run("schedule", file, "--json").stdout)
        self.assertEqual((report["verified"], report["same_bits"]), (True, False))
        file.write_text("0F0,0F1,0B0,0X1\n")
        self.assert_one_error(run("schedule", file), "torch.csv:1:14", "a kind expected", code=2)

    def test_a_picture_has_a_box_for_every_action(self):
        picture = self.folder / "zbv.svg"
        run("schedule", "zbv", "--workers", 2, "--micro-batches", 4, "--svg", picture)
        boxes = picture.read_text()
        self.assertEqual(boxes.count("<g><title>") - boxes.count("<g><title>keeps "), 2 * 2 * 4 * 3)

    def test_a_named_schedule_places_the_stages_that_it_is_for(self):
        plan = self.folder / "plan.json"
        made = run("plan", "lenet5", "--workers", 2, "--schedule", "zbv", "--out", plan)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(json.loads(plan.read_text())["binding"], [0, 1, 1, 0])
        for flags, told in ((("--cut", "feature"), "only --cut layer"), (("--stages-per-worker", 3), "2 stages on each worker, not 3"),
                            (("--cut", "auto"), "places them")):
            self.assert_one_error(run("plan", "lenet5", "--workers", 2, "--schedule", "zbv", *flags), told, code=2)
        self.assert_one_error(run("schedule", "zbv", "--chunks", 3), "2 stages on each worker, not 3", code=2)

    def test_flags_that_need_a_plan(self):
        for flag, value in (("--batch", 64), ("--cut", "feature"), ("--sizes", "4-4"), ("--stages", 2), ("--slots", 3),
                            ("--transport", "tcp"), ("--threads", 2)):
            with self.subTest(flag=flag):
                self.assert_one_error(run("schedule", "1f1b", flag, value), flag, "needs --model or --plan")


class ScheduleFiles(KerfTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "mine.txt"
        made = run("schedule", "1f1b", "--workers", 2, "--micro-batches", 4, "--out", self.file)
        self.assertEqual(made.returncode, 0, made.stderr)

    def test_say_how_many_workers_and_micro_batches(self):
        report = self.train("mlp", *SYNTHETIC, *BRIEFLY, "--schedule", self.file)
        self.assertEqual(len(report["workers"]), 2)
        self.assertEqual(report["plan"]["micro_batches"], 4)
        for command in (("plan", "mlp"), ("eval", "mlp", *SYNTHETIC, "--weights", self.folder / "run/weights.safetensors"),
                        ("schedule", self.file, "--model", "mlp")):
            with self.subTest(command=command[0]):
                flags = () if command[0] == "schedule" else ("--schedule", self.file)
                self.assertEqual(run(*command, *flags).returncode, 0)

    def test_that_do_not_fit_are_refused_by_the_name_of_the_file(self):
        train = ("train", "mlp", *SYNTHETIC, *BRIEFLY, "--out", self.folder / "out")
        for command in (("plan", "mlp"), train):
            for flags, part in ((("--workers", 3), "2 workers, not 3"), (("--micro-batches", 8), "4 micro-batches, not 8"),
                                (("--cut", "feature"), "the schedule has 2 stages, the plan 1")):
                with self.subTest(command=command[0], flags=flags):
                    self.assert_one_error(run(*command, "--schedule", self.file, *flags), self.file, "schedule 1f1b", part)

    def test_out_of_order_are_refused_by_the_name_of_the_file(self):
        self.file.write_text(self.file.read_text().replace("1B1", "1B0"))
        self.assert_one_error(run("plan", "mlp", "--schedule", self.file), self.file, "refuted")


    def test_a_folder_is_whole(self):
        """Moved elsewhere, and without the file that the schedule came from, it still trains as it did."""
        text = self.file.read_text()
        report = self.train("mlp", "--sizes", "784-20-10", *SYNTHETIC, *BRIEFLY, "--schedule", self.file)
        self.assertEqual(report["plan"]["schedule"], "schedule.txt")
        self.file.unlink()
        moved = self.folder / "elsewhere" / "kept"
        moved.parent.mkdir()
        (self.folder / "run").rename(moved)
        self.assertEqual((moved / "schedule.txt").read_text(), text)
        for number, plan in enumerate((moved, moved / "plan.json")):
            # The model is the plan's, by --plan alone.
            again = self.train(*SYNTHETIC, "--steps", 2, "--no-test", "--transport", "inproc", "--plan", plan,
                               out=str(number))
            self.assertEqual(again["losses"], report["losses"])
            self.assertEqual((self.folder / str(number) / "plan.json").read_text(), (moved / "plan.json").read_text())
        self.assertEqual(run("schedule", "--plan", moved).returncode, 0)
        answer = run("eval", *SYNTHETIC, "--plan", moved, "--weights", moved / "weights.safetensors", "--transport", "inproc")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        # Into itself: what it holds is not lost.
        self.assertEqual(run("train", *SYNTHETIC, "--steps", 1, "--no-test", "--plan", moved, "--out", moved).returncode, 0)
        self.assertEqual((moved / "schedule.txt").read_text(), text)

    def test_a_plan_names_its_schedule_from_where_it_lies(self):
        plans = self.folder / "plans"
        plans.mkdir()
        made = run("plan", "mlp", "--schedule", self.file.name, "--out", "plans/plan.json", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(json.loads((plans / "plan.json").read_text())["schedule"], "../mine.txt")
        self.train("mlp", *SYNTHETIC, *BRIEFLY, "--plan", plans / "plan.json")


if __name__ == "__main__":
    unittest.main()
