"""Wrong files, given or to be written, get one clear error line, exit code 2, and no stack trace."""

import gzip
import json
import resource
import subprocess
import unittest

from kerf_command import KERF, SLOW, KerfTest, free_address, run, write_images

QUICK = ("--workers", 2, "--steps", 2, "--no-test", "--transport", "inproc")


class DataFiles(KerfTest):
    def setUp(self):
        super().setUp()
        write_images(self.folder, 64)
        self.images = self.folder / "train-images-idx3-ubyte.gz"

    def refused(self, *parts):
        answer = run("train", "lenet5", "--data", f"fashion-mnist:{self.folder}", *QUICK, "--out", self.folder / "out")
        self.assert_one_error(answer, *parts)

    def test_a_missing_folder(self):
        answer = run("train", "--data", "fashion-mnist:/nowhere", *QUICK, "--out", self.folder / "out")
        self.assert_one_error(answer, "/nowhere", "apt-get install dataset-fashion-mnist")

    def test_a_missing_file(self):
        self.images.unlink()
        self.refused(self.images)

    def test_a_truncated_file(self):
        whole = self.images.read_bytes()
        for keep in (len(whole) // 2, len(whole) - 100, len(whole) - 1):
            with self.subTest(keep=keep):
                self.images.write_bytes(whole[:keep])
                self.refused(self.images, "truncated", "copy it anew")

    def test_a_file_damaged_in_the_middle(self):
        data = bytearray(self.images.read_bytes())
        data[len(data) // 2] ^= 0x10
        self.images.write_bytes(data)
        self.refused(self.images)

    def test_a_wrong_magic_number(self):
        with gzip.open(self.images, "wb") as file:
            file.write(b"\x00\x00\x0d\x03" + b"\0" * 12 + b"\0" * 784 * 64)
        self.refused(self.images, "wrong magic number")

    def test_an_unknown_data_set(self):
        self.assert_one_error(run("train", "--data", "imagenet", *QUICK), "imagenet", "fashion-mnist")

    def test_sizes_that_are_too_large(self):
        answer = run("train", "mlp", "--data", "synthetic:99999999999x784x10", *QUICK, "--out", self.folder / "out")
        self.assert_one_error(answer, "--data", "99999999999x784x10", "at most")

    def test_data_that_does_not_fit_the_model(self):
        answer = run("train", "mlp", "--sizes", "20-10-10", "--data", f"fashion-mnist:{self.folder}", *QUICK)
        self.assert_one_error(answer, "784", "20")


class Reports(KerfTest):
    """run.json is read back strictly: an error names the file and the member at fault."""

    def setUp(self):
        super().setUp()
        self.report = self.train("mlp", "--data", "synthetic:64x784x10", *QUICK)
        self.file = self.folder / "run" / "run.json"

    def refused(self, report, *parts):
        self.file.write_text(report if isinstance(report, str) else json.dumps(report))
        for more in ((), ("--json",), ("--plan",)):
            self.assert_one_error(run("report", self.folder / "run", *more), "run.json", *parts)

    def test_no_folder_and_no_report(self):
        self.file.unlink()
        self.assert_one_error(run("report", self.folder / "run"), "run.json", "a run writes it at its end")
        self.assert_one_error(run("report", "/nowhere"), "/nowhere")

    def test_a_run_that_has_not_ended_has_checkpoints(self):
        self.train("mlp", "--data", "synthetic:64x784x10", *QUICK, "--save-every", 1)
        self.file.unlink()
        self.assert_one_error(run("report", self.folder / "run"), "run.json", f"--resume {self.folder / 'run' / 'checkpoints'}", "kerf checkpoint")

    def test_a_truncated_report(self):
        text = self.file.read_text()
        for keep in (0, 1, len(text) // 2, len(text) - 3):
            self.refused(text[:keep])

    def test_a_corrupt_report(self):
        derived = ("model", "steps", "accuracy", "tokens_per_second", "predicted", "counted", "equal", "unanswered_tasks")
        newer = ("kind", "data", "data_encrypted", "restarts", "repeated_tasks", "repeated_messages", "repeated_bytes", "recoveries", "rebalances", "slow", "gradient_norms", "learning_rates", "optimizer", "skipped", "labels_per_row", "label_axes",
                 "process_allowance_bytes", "traced", "untraced", "same_bits", "staleness", "drains", "drain_period", "replicas", "lbfgs", "checkpoints", "kept")
        for key in self.report:
            if key not in (*derived, *newer):
                with self.subTest(missing=key):
                    self.refused({k: v for k, v in self.report.items() if k != key}, key)
            with self.subTest(wrong=key):
                self.refused({**self.report, key: {"nonsense": [1]}}, key)
        self.refused({**self.report, "colour": "red"}, "colour")

    def test_figures_that_contradict_each_other(self):
        self.refused({**self.report, "steps": 7}, '"steps" is 7', "make it 2")
        self.refused({**self.report, "equal": False}, "equal")
        self.refused({**self.report, "counted": {"messages": 1, "bytes": 1}}, "counted")
        workers = [dict(worker) for worker in self.report["workers"]]
        workers[1]["pid"] = "many"
        self.refused({**self.report, "workers": workers}, "run.json: workers[1].pid", "whole number")
        workers[1]["pid"], workers[1]["proved_bytes"] = 1, "many"
        self.refused({**self.report, "workers": workers}, "run.json: workers[1].proved_bytes")


class Output(KerfTest):
    def test_a_full_disk_behind_the_standard_output_is_noticed(self):
        weights = self.folder / "run" / "weights.safetensors"
        self.train("mlp", "--data", "synthetic:64x784x10", *QUICK)
        common = ("--data", "synthetic:64x784x10", "--transport", "inproc")
        for command in (("plan", "mlp", "--json"), ("schedule", "1f1b"), ("devices",), ("report", self.folder / "run"), ("--help",), ("plan", "--help"),
                        ("--version",), ("run", "least-squares", "--rows", 50, "--columns", 5, "--block", 5),
                        ("eval", "mlp", *common, "--weights", weights),
                        ("train", "mlp", *common, *QUICK, "--json", "--out", self.folder / "out")):
            with self.subTest(command=command), open("/dev/full", "w", encoding="utf-8") as full:
                answer = subprocess.run([KERF, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True,
                                        timeout=60 * SLOW, check=False)
                self.assertEqual(answer.returncode, 2, answer.stderr)
                self.assertIn("kerf: error: the standard output cannot be written", answer.stderr.splitlines()[-1])

    def test_a_verdict_that_nobody_could_read_is_neither_of_the_two(self):
        plan = self.folder / "plan.json"
        self.assertEqual(run("plan", "lenet5", "--workers", 2, "--out", plan).returncode, 0)
        text = plan.read_text()
        for content in (text, text.replace('"cut": "layer"', '"cut": "free"')):
            plan.write_text(content)
            with open("/dev/full", "w", encoding="utf-8") as full:
                answer = subprocess.run([KERF, "plan", "--check", plan], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60 * SLOW, check=False)
            self.assert_one_error(answer, "the standard output cannot be written")

    def test_a_full_disk_behind_the_standard_error_costs_its_lines_alone(self):
        address = free_address()
        worker = self.start("worker", "--connect", address)
        with open("/dev/full", "w", encoding="utf-8") as full:
            answer = subprocess.run([KERF, "train", "mlp", "--data", "synthetic:64x784x10", "--workers", "1", "--steps", "2", "--no-test", "--listen", address,
                                     "--out", self.folder / "out"], stderr=full, stdout=subprocess.DEVNULL, timeout=60 * SLOW, check=False)
        self.assertEqual((answer.returncode, worker.wait(10 * SLOW)), (0, 0))

    def test_a_limit_on_the_size_of_files(self):
        plan = self.folder / "plan.json"
        answer = run("plan", "mlp", "--out", plan, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)))
        self.assert_one_error(answer, "plan.json", "File too large")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_names_that_are_too_long(self):
        for arguments in (("plan", "--out", "a" * 300), ("plan", "--schedule", "a" * 300),
                          ("train", "--weights", "a" * 300), ("train", "--data", "fashion-mnist:" + "a" * 300),
                          ("train", *QUICK, "--data", "synthetic", "--out", "a" * 300), ("schedule", "a/" * 3000)):
            with self.subTest(arguments=arguments[0] + arguments[1]):
                self.assert_one_error(run(*arguments, cwd=self.folder), "aaa" if arguments[0] != "schedule" else "a/a/",
                                      "File name too long")

    def test_control_characters_are_shown_not_obeyed(self):
        self.assert_one_error(run("plan", "x\n\x1b[31m\x7f"), r"x\x0a\x1b[31m\x7f")
        self.assert_one_error(run("x\r\t"), r'"x\x0d\x09"')
        self.assert_one_error(run("plan", "mlp", "--schedule", "größe"), '"größe"')
        # Of files, and on the standard output.
        plan = self.folder / "plan.json"
        self.assertEqual(run("plan", "mlp", "--workers", 2, "--out", plan).returncode, 0)
        plan.write_text(json.dumps({**json.loads(plan.read_text()), "fingerprint": "\x1b]0;x\x07\u009b"}))
        answer = run("plan", "mlp", "--check", plan)
        self.assertEqual(answer.returncode, 1)
        self.assertIn(r"fingerprint \x1b]0;x\x07\xc2\x9b, not", answer.stdout)
        report = self.train("mlp", "--data", "synthetic:64x784x10", *QUICK)
        report["plan"]["stages"][0]["nodes"][0] = "\x1b]0;x\x07\nfake line"
        report["routes"][0]["value"] = report["plan"]["routes"][0]["value"] = "\x1b[31m\rfc"
        report["plan"]["model"] = "\x1b[2Jmlp"
        del report["model"]
        report["skipped"] = [{"step": 1, "cause": "\x1b[2J"}]
        (self.folder / "run" / "run.json").write_text(json.dumps(report))
        for command in (("report", self.folder / "run"), ("report", self.folder / "run", "--plan")):
            answer = run(*command)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertNotRegex(answer.stdout, r"[\x00-\x09\x0b-\x1f\x7f]")
            self.assertIn(r"\x1b", answer.stdout)
            self.assertNotIn("\nfake", answer.stdout)

    def test_an_output_folder_that_is_a_file(self):
        file = self.folder / "file"
        file.write_text("here already")
        answer = run("train", "lenet5", "--data", "synthetic:64x784x10", *QUICK, "--out", file)
        self.assert_one_error(answer, "file")
        self.assertEqual(file.read_text(), "here already")

    def fails_late(self, out, *more):
        """After some steps, when everything that a run begins with is there."""
        answer = run("train", "mlp", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 6, "--no-test", "--transport",
                     "inproc", "--lr", 1e30, "--out", out, *more)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("no longer a finite number", answer.stderr)

    def test_a_failed_run_leaves_nothing(self):
        out = self.folder / "out"
        self.fails_late(out)
        self.assertEqual(list(out.iterdir()), [])

    def test_a_failed_run_leaves_the_folder_of_an_earlier_one_as_it_was(self):
        out = self.folder / "run"
        self.train("mlp", "--data", "synthetic:64x784x10", *QUICK)
        earlier = {path.name: path.read_bytes() for path in out.iterdir()}
        self.fails_late(out, "--cut", "feature")
        self.assertEqual({path.name: path.read_bytes() for path in out.iterdir()}, earlier)

    def test_a_picture_that_cannot_be_drawn_is_told_before_the_run(self):
        answer = run("train", "mlp", "--data", "synthetic:64x784x10", *QUICK, "--picture", self.folder / "no" / "cut.svg",
                     "--out", self.folder / "out")
        self.assert_one_error(answer, "cut.svg")
        self.assertEqual(list((self.folder / "out").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
