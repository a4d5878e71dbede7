"""Every subcommand: help that teaches, JSON beside tables, files where they were promised."""

import json
import os
import pty
import subprocess
import unittest

from kerf_command import KERF, KerfTest, read_safetensors, run

COMMANDS = ("plan", "train", "eval", "run", "worker", "schedule", "devices")
SYNTHETIC = ("--data", "synthetic:256x784x10")


class Help(KerfTest):
    def test_every_help_opens_with_a_sentence_and_ends_with_examples(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                answer = run(command, "--help")
                self.assertEqual(answer.returncode, 0)
                self.assertRegex(answer.stdout.splitlines()[0], r"^[A-Z].*\.$")
                examples = answer.stdout.split("Examples:")[1].strip().splitlines()
                self.assertIn(len([line for line in examples if line.strip().startswith("kerf ")]), (2, 3, 4))

    def test_the_top_lists_the_commands(self):
        answer = run("--help")
        for command in COMMANDS:
            self.assertIn(command, answer.stdout)
        self.assertRegex(run("--version").stdout, r"^kerf \d+\.\d+\.\d+\n$")


class Plan(KerfTest):
    def test_json_has_what_outsiders_rely_on(self):
        for cut, model in (("layer", "lenet5"), ("feature", "mlp"), ("hybrid", "mlp")):
            with self.subTest(cut=cut):
                answer = run("plan", model, "--cut", cut, "--workers", 4, "--json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                plan = json.loads(answer.stdout)
                self.assertEqual(plan["cut"], cut)
                self.assertEqual([worker["worker"] for worker in plan["workers"]], [0, 1, 2, 3])
                for worker in plan["workers"]:
                    for key in ("forward_flops", "weight_bytes", "activation_bytes", "peak_bytes", "messages", "bytes_in",
                                "bytes_out"):
                        self.assertGreaterEqual(worker[key], 0)
                for key in ("messages", "bytes"):
                    total = sum(route[key] for route in plan["routes"])
                    self.assertEqual(total, sum(part[key] for part in plan["per_step"].values()))
                self.assertEqual(sum(worker["messages"] for worker in plan["workers"]),
                                 sum(route["messages"] for route in plan["routes"]))

    def test_a_plan_is_the_same_whether_it_is_made_or_read(self):
        plan, picture = self.folder / "plan.json", self.folder / "plan.svg"
        answer = run("plan", "lenet5", "--workers", 2, "--out", plan, "--picture", picture)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for path in (plan, picture):
            self.assertIn(str(path), answer.stdout)
        self.assertTrue(picture.read_text().lstrip().startswith("<"))
        report = self.train("lenet5", *SYNTHETIC, "--plan", plan, "--steps", 2, "--no-test", "--transport", "inproc")
        self.assertEqual((self.folder / "run" / "plan.json").read_text(), plan.read_text())
        self.assertEqual(len(report["workers"]), 2)

    def test_messages_take_memory_on_both_sides_where_they_travel(self):
        def peaks(*more):
            answer = run("plan", "lenet5", "--workers", 3, *more, "--json")
            return [worker["peak_bytes"] for worker in json.loads(answer.stdout)["workers"]]
        for here, there in zip(peaks("--transport", "shm"), peaks("--transport", "tcp")):
            self.assertLess(here, there)
        for one, four in zip(peaks(), peaks("--threads", 4)):
            self.assertLessEqual(one, four)

    def test_messages_of_one_to_all_chains(self):
        """(L-1)*2 for the layer cut, (L-1)*F*(F-1)*2 for feature, (L-1)*F*F*2 for hybrid, times micro-batches."""
        sizes, layers, micro_batches = "512-512-512-512-512", 4, 8

        def between(*flags):
            answer = run("plan", "mlp", "--sizes", sizes, "--micro-batches", micro_batches, "--json", *flags)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            return json.loads(answer.stdout)["per_step"]["between_layers"]["messages"]

        for stages in (2, 3, 4):
            self.assertEqual(between("--cut", "layer", "--workers", stages), (stages - 1) * 2 * micro_batches)
        for parts in (2, 3, 4):
            self.assertEqual(between("--cut", "feature", "--workers", parts),
                             (layers - 1) * parts * (parts - 1) * 2 * micro_batches)
        for parts in (1, 2, 3):
            self.assertEqual(between("--cut", "hybrid", "--stages", layers, "--workers", layers * parts),
                             (layers - 1) * parts * parts * 2 * micro_batches)

    def test_no_colour_reaches_a_pipe(self):
        for arguments in (("plan", "lenet5"), ("devices",), ("schedule", "1f1b")):
            self.assertNotIn("\x1b", run(*arguments).stdout)


    def test_only_a_terminal_that_obeys_escapes_gets_them(self):
        def escapes(**environment):
            ours, theirs = pty.openpty()
            with open(ours, "rb", buffering=0) as screen, open(theirs, "wb", buffering=0) as terminal:
                keep = {key: value for key, value in os.environ.items() if key not in ("TERM", "NO_COLOR")}
                subprocess.run([KERF, "plan", "mlp"], stdout=terminal, env={**keep, **environment}, check=True)
                terminal.write(b"#")
                shown = b""
                while b"#" not in shown:
                    shown += screen.read(4096)
            return b"\x1b" in shown
        self.assertTrue(escapes(TERM="xterm"))
        for environment in ({"TERM": "dumb"}, {"TERM": ""}, {}, {"TERM": "xterm", "NO_COLOR": "1"}):
            self.assertFalse(escapes(**environment), environment)


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
        self.assertTrue(read["proved"])

    def test_with_a_model_it_tells_the_smallest_safe_slots_and_the_peak(self):
        answer = run("schedule", "1f1b", "--model", "lenet5", "--workers", 3, "--json")
        report = json.loads(answer.stdout)
        self.assertGreaterEqual(report["smallest_safe_slots"], 0)
        self.assertEqual(len(report["peak_bytes"]), 3)


class Run(KerfTest):
    def test_the_second_program_gives_the_same_answer_over_any_number_of_workers(self):
        answers = {}
        for workers, transport in ((1, "inproc"), (3, "shm")):
            answer = run("run", "least-squares", "--rows", 300, "--columns", 40, "--workers", workers, "--transport",
                         transport, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            answers[workers] = json.loads(answer.stdout)
            objectives = answers[workers]["objectives"]
            self.assertTrue(answers[workers]["converged"])
            self.assertTrue(all(b <= a * (1 + 1e-9) for a, b in zip(objectives, objectives[1:])))
        for one, three in zip(answers[1]["solution"], answers[3]["solution"], strict=True):
            self.assertAlmostEqual(one, three, places=6)
        self.assert_one_error(run("run", "sudoku"), "least-squares")


class Devices(KerfTest):
    def test_the_cpu_is_there(self):
        self.assertEqual(json.loads(run("devices", "--json").stdout)["devices"][0]["name"], "cpu")
        self.assertIn("cpu", run("devices").stdout)


class Train(KerfTest):
    def test_everything_promised_is_in_the_folder(self):
        report = self.train("lenet5", *SYNTHETIC, "--workers", 3, "--steps", 4)
        out = self.folder / "run"
        self.assertEqual(sorted(os.listdir(out)), ["plan.json", "plan.svg", "run.json", "trace.json",
                                                   "weights.safetensors"])
        self.assertEqual(json.loads((out / "run.json").read_text()), report)
        self.assertEqual(len(report["losses"]), 4)
        self.assertTrue(report["equal"])
        self.assertEqual(report["predicted"], report["counted"])
        self.assertGreater(report["counted"]["messages"], 0)
        self.assertEqual(report["accuracy"], report["evaluations"][-1]["accuracy"])
        events = json.loads((out / "trace.json").read_text())
        self.assertGreater(len(events["traceEvents"] if isinstance(events, dict) else events), 10)
        weights = read_safetensors(out / "weights.safetensors")
        self.assertEqual(weights["conv1.weight"][0], [6, 1, 5, 5])

    def test_the_human_report_names_figures_and_paths(self):
        answer = run("train", "lenet5", *SYNTHETIC, "--workers", 2, "--steps", 2, "--out", self.folder / "run")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for part in ("test accuracy", "predicted", "counted", "equal", "peak memory", "plan.json", "trace.json",
                     "weights.safetensors", "plan.svg", "run.json"):
            self.assertIn(part, answer.stdout)
        self.assertIn("epoch 1/", answer.stderr)
        self.assertNotIn("\r", answer.stderr)

    def test_zero_steps_write_the_initial_weights_and_seeds_differ(self):
        common = ("lenet5", *SYNTHETIC, "--steps", 0, "--no-test", "--transport", "inproc")
        self.train(*common, "--workers", 1, "--seed", 1, out="a")
        self.train(*common, "--workers", 3, "--seed", 1, out="b")
        self.train(*common, "--workers", 1, "--seed", 2, out="c")
        a, b, c = (read_safetensors(self.folder / name / "weights.safetensors") for name in "abc")
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)

    def test_weights_can_be_continued_from_and_evaluated(self):
        report = self.train("lenet5", *SYNTHETIC, "--workers", 2, "--steps", 3)
        weights = self.folder / "run" / "weights.safetensors"
        answer = run("eval", "lenet5", *SYNTHETIC, "--weights", weights, "--workers", 3, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(answer.stdout)["accuracy"], report["accuracy"])
        self.assertAlmostEqual(json.loads(answer.stdout)["loss"], report["evaluations"][-1]["loss"], places=12)
        self.train("lenet5", *SYNTHETIC, "--steps", 0, "--no-test", "--weights", weights, out="again")
        self.assertEqual(read_safetensors(self.folder / "again" / "weights.safetensors"), read_safetensors(weights))

    def test_a_missing_terminal_and_an_odd_folder_do_no_harm(self):
        answer = run("train", "mlp", *SYNTHETIC, "--workers", 1, "--steps", 1, "--out", "sub folder/run",
                     cwd=self.folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)


if __name__ == "__main__":
    unittest.main()
