"""Every subcommand: help that teaches; and those that have no file of their own here."""

import json
import re
import shlex
import unittest

from kerf_command import KerfTest, run

COMMANDS = ("plan", "compare", "profile", "train", "eval", "infer", "export", "lasso", "lda", "logistic", "svm", "mf", "predict", "run", "report", "worker", "schedule",
            "bench", "devices", "data", "models", "keys", "checkpoint")


class Help(KerfTest):
    def test_every_default_schedule_is_the_one_that_is_taken(self):
        for command, name in (("plan", "1f1b"), ("train", "1f1b"), ("eval", "forward-only")):
            self.assertIn(f"or a file (default {name})", " ".join(run(command, "--help").stdout.split()))
        self.assertIn("ampnet, forward-only or a file", " ".join(run("infer", "--help").stdout.split()))

    def test_help_says_of_which_cuts_a_flag_is(self):
        text = " ".join(run("plan", "--help").stdout.split())
        for part in ("--slack S Of layer and auto cuts: ", "--shares FILE Of free and auto cuts: ", "--pairs on|off Of feature, hybrid and auto cuts: "):
            self.assertIn(part, text)

    def test_every_help_opens_with_a_sentence_and_ends_with_examples(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                answer = run(command, "--help")
                self.assertEqual(answer.returncode, 0)
                self.assertRegex(answer.stdout.splitlines()[0], r"^[A-Z].*\.$")
                examples = answer.stdout.split("Examples:")[1].strip().splitlines()
                self.assertIn(len([line for line in examples if line.strip().startswith("kerf ")]), range(2, 10))

    def test_the_examples_of_plan_run(self):
        """Word for word, beside files of the names that they have."""
        devices = {"kerf_devices": 1, "workers": {str(worker): {"speed": worker + 1} for worker in range(3)}}
        (self.folder / "three.json").write_text(json.dumps(devices))
        (self.folder / "places.txt").write_text("encoder* 0\n")
        times = "forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=64"
        nodes = [f"node{i} -- Linear -- {times}" for i in range(16)]
        edges = [f"\tnode{i} -- node{i + 1}" for i in range(15)]
        (self.folder / "resnet50.txt").write_text("\n".join((*nodes, *edges, "")))
        examples = re.findall(r"^  kerf (plan .*?)(?:   .*)?$", run("plan", "--help").stdout, re.MULTILINE)
        self.assertGreater(len(examples), 5)
        for example in examples:
            with self.subTest(example=example):
                answer = run(*shlex.split(example), cwd=self.folder)
                self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_the_top_lists_the_commands(self):
        answer = run("--help")
        for command in COMMANDS:
            self.assertIn(command, answer.stdout)
        self.assertRegex(run("--version").stdout, r"^kerf \d+\.\d+\.\d+\n$")


class Run(KerfTest):
    def test_the_largest_block_fits_into_a_message(self):
        answer = run("run", "least-squares", "--rows", 400, "--columns", 361, "--block", 361, "--sweeps", 1)
        self.assertEqual(answer.returncode, 0, answer.stderr)

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
        answer = json.loads(run("devices", "--json").stdout)
        cuda = answer["cuda"]
        self.assertEqual([device["name"] for device in answer["devices"]],
                         ["cpu", *(f"cuda:{i}" for i in range(cuda["devices"]))])
        table = run("devices").stdout
        self.assertIn("cpu", table)
        # Where no GPU can be used, both say why.
        usable = [device for device in answer["devices"] if device["name"] != "cpu" and "error" not in device]
        self.assertEqual("reason" in cuda, not usable)
        if "reason" in cuda:
            self.assertIn(f"no GPU: {cuda['reason']}\n", table)
            self.assertNotEqual(cuda["built"], "this build has no CUDA" in cuda["reason"])

    def test_a_plan_is_for_the_devices_that_will_run_it(self):
        """Kernels of GPUs take other scratch memory: a cut that keeps within a cap for them is proved for them. Of devices a
        plan's text says nothing."""
        if not json.loads(run("devices", "--json").stdout)["cuda"]["built"]:
            self.assert_one_error(run("plan", "lenet5", "--device", "cuda"), "--device: ", "KERF_CUDA=ON")
            return
        file = self.folder / "plan.json"

        def peaks(*more):
            answer = run("plan", "lenet5", "--workers", 2, "--out", file, "--json", *more)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            return [worker["peak_bytes"] for worker in json.loads(answer.stdout)["workers"]]
        cpu = peaks()
        gpu = peaks("--device", "cuda,cuda:1")
        self.assertEqual(peaks("--device", "cpu"), cpu)
        self.assertNotEqual(cpu, gpu)
        self.assertEqual(peaks("--device", "cpu,cuda"), [cpu[0], gpu[1]])
        self.assertEqual(peaks("--device", "cuda", "--memory", max(gpu)), gpu)
        self.assertNotIn("cuda", file.read_text())
        proved = run("schedule", "--plan", file, "--device", "cuda", "--json")
        self.assertEqual(proved.returncode, 0, proved.stderr)
        self.assertLessEqual(max(json.loads(proved.stdout)["peak_bytes"]), max(gpu))

    def test_a_list_of_devices_goes_round(self):
        """Local workers take the devices of the list in turn; the report names each one's."""
        folder = self.folder / "devices"
        answer = run("train", "mlp", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 1, "--device", "cpu,cpu",
                     "--out", folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual([worker["device"] for worker in json.loads((folder / "run.json").read_text())["workers"]],
                         ["cpu", "cpu"])


if __name__ == "__main__":
    unittest.main()
