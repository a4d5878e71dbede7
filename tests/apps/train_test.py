"""`kerf train`: files where they were promised, and what its report tells."""

import fcntl
import itertools
import json
import os
import pathlib
import time
import unittest

from kerf_command import SLOW, KerfTest, read_safetensors, run, wait_until, workers_of, write_images

BRIEFLY = ("--steps", 2, "--no-test", "--transport", "inproc")
SYNTHETIC = ("--data", "synthetic:256x784x10")


class Train(KerfTest):
    def test_the_folder_has_nothing_of_an_earlier_run(self):
        schedule = self.folder / "mine.txt"
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--micro-batches", 2, "--out", schedule).returncode, 0)
        self.train("mlp", *SYNTHETIC, *BRIEFLY, "--schedule", schedule)
        self.assertTrue((self.folder / "run" / "schedule.txt").exists())
        self.train("mlp", *SYNTHETIC, *BRIEFLY, "--picture", self.folder / "cut.svg")
        self.assertEqual(sorted(os.listdir(self.folder / "run")), ["plan.json", "profile.json", "report.html", "run.json", "trace.json",
                                                                     "weights.safetensors"])

    def test_everything_promised_is_in_the_folder(self):
        report = self.train("lenet5", *SYNTHETIC, "--workers", 3, "--steps", 4)
        out = self.folder / "run"
        self.assertEqual(sorted(os.listdir(out)), ["plan.json", "plan.svg", "profile.json", "report.html", "run.json", "trace.json",
                                                   "weights.safetensors"])
        self.assertEqual(json.loads((out / "run.json").read_text()), report)
        self.assertEqual(len(report["losses"]), 4)
        self.assertTrue(report["equal"])
        self.assertEqual((report["control"]["dropped"], report["control"]["resent"]), (0, 0))
        self.assertEqual(report["predicted"], report["counted"])
        self.assertGreater(report["counted"]["messages"], 0)
        self.assertEqual(report["accuracy"], report["evaluations"][-1]["accuracy"])
        events = json.loads((out / "trace.json").read_text())
        spans = [event for event in events["traceEvents"] if event["ph"] == "X" and event["pid"] < len(report["workers"])]
        self.assertEqual({event["args"]["step"] for event in spans}, {0, 1, 2, 3})
        for step in range(4):
            self.assertEqual(len([event for event in spans if event["tid"] == 0 and event["name"] == "0F3" and event["args"]["step"] == step]), 1)
        weights = read_safetensors(out / "weights.safetensors")
        self.assertEqual(weights["conv1.weight"][0], [6, 1, 5, 5])

    def test_a_report_is_told_again_from_the_folder_alone(self):
        answer = run("train", "lenet5", *SYNTHETIC, "--workers", 2, "--steps", 3, "--out", "run", cwd=self.folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        again = run("report", "run", cwd=self.folder)
        self.assertEqual((again.returncode, again.stdout, again.stderr), (0, answer.stdout, ""))
        moved = self.folder / "kerf-run"
        (self.folder / "run").rename(moved)
        self.assertEqual(run("report", cwd=self.folder).stdout, answer.stdout.replace(" run/", " kerf-run/"))
        self.assertEqual(run("report", moved, "--json").stdout, (moved / "run.json").read_text())
        self.assertIn("stage 1 on 1:", run("report", moved, "--plan").stdout)
        # As an earlier version wrote it, and with nothing that follows from the rest.
        report = json.loads((moved / "run.json").read_text())
        for key in ("kind", "data", "steps", "model", "accuracy", "predicted", "counted", "equal"):
            del report[key]
        for worker in report["workers"]:
            del worker["proved_bytes"]
        (moved / "run.json").write_text(json.dumps(report))
        self.assertEqual(run("report", cwd=self.folder).stdout, answer.stdout.replace(" run/", " kerf-run/"))

    def test_run_json_has_what_outsiders_rely_on(self):
        report = self.train("mlp", *SYNTHETIC, *BRIEFLY, "--workers", 2)
        self.assertEqual((report["kind"], report["data"]), ("train", "synthetic:256x784x10"))
        self.assertLessEqual({"model", "plan", "steps", "losses", "evaluations", "accuracy", "seconds", "images_per_second",
                              "median_step_seconds", "workers", "predicted", "counted", "equal", "control", "routes"},
                             set(report))
        self.assertEqual(len(report["gradient_norms"]), report["steps"])
        self.assertTrue(all(norm > 0 for norm in report["gradient_norms"]))
        self.assertEqual(report["skipped"], [])
        for worker in report["workers"]:
            self.assertLessEqual({"worker", "pid", "device", "compute_seconds", "wait_seconds", "messages", "bytes_in",
                                  "bytes_out", "peak_bytes", "proved_bytes", "predicted_peak_bytes",
                                  "predicted_step_seconds", "resident_bytes", "data_bytes"}, set(worker))
            self.assertLessEqual(worker["proved_bytes"], worker["predicted_peak_bytes"])

    def test_steps_and_epochs_end_with_the_earlier(self):
        common = ("mlp", *SYNTHETIC, "--batch", 128, "--workers", 1, "--no-test", "--transport", "inproc")
        for flags, steps in ((("--epochs", 1, "--steps", 5), 2), (("--epochs", 3, "--steps", 5), 5), (("--steps", 12), 12),
                             (("--epochs", 2), 4), (("--epochs", 2, "--steps", 4), 4)):
            with self.subTest(flags):
                self.assertEqual(self.train(*common, *flags)["steps"], steps)

    def test_epochs_count_from_one(self):
        report = self.train("mlp", *SYNTHETIC, "--workers", 1, "--epochs", 2, "--transport", "inproc")
        self.assertEqual([evaluation["epoch"] for evaluation in report["evaluations"]], [1, 2])

    def test_images_are_loaded_before_the_first_step_by_who_reads_them(self):
        """Damage inside is found by loading them all: in a run of no steps as well, but not in an evaluation of others."""
        data = ("mlp", "--data", f"fashion-mnist:{self.folder}")
        write_images(self.folder, 64)
        self.train(*data, *BRIEFLY)
        images = self.folder / "train-images-idx3-ubyte.gz"
        damaged = bytearray(images.read_bytes())
        damaged[len(damaged) // 2] ^= 0x10
        images.write_bytes(damaged)
        self.assert_one_error(run("train", *data, "--steps", 0, "--no-test", "--workers", 2, "--out", self.folder / "out"),
                              images, "damaged")
        answer = run("eval", *data, "--weights", self.folder / "run" / "weights.safetensors", "--transport", "inproc")
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def make_shares(self, path):
        """As a run makes them. Returns its lock."""
        path.mkdir(parents=True)
        (path / "part-0.safetensors").write_bytes(b"share")
        (path / ".kerf-lock").touch()
        return path / ".kerf-lock"

    def test_shares_that_a_killed_run_left_go_with_the_next(self):
        """Their lock tells, and no number of a process, which those of containers share."""
        out = self.folder / "run"
        self.make_shares(out / f".shares-{os.getpid()}-AbCdEf")
        held = out / ".shares-1-AbCdEf"
        with open(self.make_shares(held), "r+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.train("mlp", *SYNTHETIC, *BRIEFLY)
            self.assertEqual({*out.glob(".*")}, {held})
            self.assertTrue((held / "part-0.safetensors").exists())
        self.train("mlp", *SYNTHETIC, *BRIEFLY)
        self.assertEqual({*out.glob(".*")}, set())

    def test_what_is_named_as_shares_and_is_none_stays(self):
        out, elsewhere = self.folder / "run", self.folder / "elsewhere"
        for name in (".shares-of-mine", ".shares-2024", ".shares-2024-budgets", ".shares-2024-AbCdE.", ".shares--AbCdEf"):
            self.make_shares(out / name)
        (out / ".shares-2024-budget").mkdir()  # the very form, but no lock
        (out / ".shares-2024-budget" / "sums.txt").write_text("mine")
        (out / ".shares-2024-report").write_text("a file")
        self.make_shares(elsewhere)
        (out / ".shares-2024-linked").symlink_to(elsewhere)
        before = {*out.rglob("*"), *elsewhere.rglob("*")}
        self.train("mlp", *SYNTHETIC, *BRIEFLY)
        self.assertEqual(before - {*out.rglob("*"), *elsewhere.rglob("*")}, set())

    def test_a_run_leaves_the_shares_of_another_that_goes_on(self):
        """A held what locks the folder when B began, and has ended when C begins."""
        out = self.folder / "run"
        out.mkdir()
        with open(out / ".kerf-lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            b = self.start("train", "mlp", *SYNTHETIC, "--workers", 2, "--no-test", "--epochs", 100000, "--steps", 1000, "--out", out)
            shares = wait_until(lambda: [*out.glob(".shares-*")], 10)
        workers = wait_until(lambda: workers_of(b.pid), 10)
        self.train("mlp", *SYNTHETIC, *BRIEFLY)
        self.assertIsNone(b.poll(), "it has to go on meanwhile")
        self.assertTrue(shares[0].exists())
        for pid in workers:
            files = {os.readlink(file) for file in pathlib.Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}
            self.assertFalse([file for file in files if file.endswith(".kerf-lock")], "whoever outlives the run must not hold it")
        _, told = b.communicate(timeout=60 * SLOW)
        self.assertEqual(b.returncode, 0, told)
        self.assertEqual([*out.glob(".shares-*")], [])

    def test_shares_of_a_run_that_is_killed_now_go_with_the_next(self):
        out = self.folder / "run"
        process = self.start("train", "mlp", *SYNTHETIC, "--workers", 2, "--no-test", "--epochs", 100000, "--out", out)
        wait_until(lambda: workers_of(process.pid) and [*out.glob(".shares-*/.kerf-lock")], 10)
        self.end_all()
        self.assertEqual(len([*out.glob(".shares-*")]), 1)
        self.train("mlp", *SYNTHETIC, *BRIEFLY)
        self.assertEqual([*out.glob(".shares-*")], [])

    def test_what_is_written_into_shares_while_they_go_goes_too(self):
        out = self.folder / "run"
        process = self.start("train", "mlp", *SYNTHETIC, *BRIEFLY, "--out", out)
        shares = wait_until(lambda: [*out.glob(".shares-*")], 10)
        wait_until((out / "report.html").exists, 10)
        try:
            end = time.monotonic() + 0.3
            for number in itertools.count():
                if time.monotonic() > end:
                    break
                (shares[0] / f"late-{number}").touch()
        except FileNotFoundError:
            pass
        _, told = process.communicate(timeout=60 * SLOW)
        self.assertEqual(process.returncode, 0, told)
        self.assertEqual([*out.glob(".shares-*")], [])

    def test_a_run_that_cannot_keep_its_results_leaves_those_of_an_earlier(self):
        """Be it for want of room, which a link to /dev/full stands for, or for a folder in the place of a file."""
        def to_folder(path):
            path.mkdir()
            (path / "mine").touch()

        def to_full(path):
            path.symlink_to("/dev/full")

        for name, replace in (("weights.safetensors", to_folder), ("weights.safetensors", to_full), ("plan.json", to_folder),
                              ("plan.svg", to_full)):
            with self.subTest(name, by=replace.__name__):
                out = self.folder / f"{name}-{replace.__name__}"
                self.train("mlp", *SYNTHETIC, *BRIEFLY, out=out)
                (out / name).unlink()
                replace(out / name)
                kept = {path: path.read_bytes() for path in out.iterdir() if path.name != name and path.is_file()}
                self.assertGreaterEqual(len(kept), 5)
                answer = run("train", "mlp", *SYNTHETIC, *BRIEFLY, "--seed", 2, "--momentum", 0.5, "--out", out)
                self.assertEqual(answer.returncode, 2, answer.stderr)
                self.assertIn(f"error: {out / name}: ", answer.stderr)
                self.assertEqual({path: path.read_bytes() for path in out.iterdir() if path.name != name}, kept)

    def test_weights_go_where_a_link_leads_and_keep_their_mode(self):
        self.train("mlp", *SYNTHETIC, *BRIEFLY, out="plain")
        expected = (self.folder / "plain" / "weights.safetensors").read_bytes()
        weights, elsewhere = self.folder / "run" / "weights.safetensors", self.folder / "elsewhere"
        elsewhere.mkdir()
        weights.parent.mkdir()
        weights.symlink_to("../elsewhere/far.safetensors")
        for _ in range(2):  # nothing is there yet, then a file
            self.train("mlp", *SYNTHETIC, *BRIEFLY)
            self.assertEqual(os.readlink(weights), "../elsewhere/far.safetensors")
            self.assertTrue((elsewhere / "far.safetensors").read_bytes() == expected)
            (elsewhere / "far.safetensors").chmod(0o640)
        weights.unlink()
        weights.write_bytes(b"earlier")
        weights.chmod(0o640)
        self.train("mlp", *SYNTHETIC, *BRIEFLY)
        self.assertTrue(weights.read_bytes() == expected)
        self.assertEqual([file.stat().st_mode & 0o777 for file in (weights, elsewhere / "far.safetensors")], [0o640] * 2)
        self.assertEqual(os.listdir(elsewhere), ["far.safetensors"])

    def test_what_a_killed_worker_had_begun_goes_with_the_shares(self):
        """Of a run that went on behind the loss: it ends as any."""
        out = self.folder / "run"
        process = self.start("train", "mlp", *SYNTHETIC, "--workers", 2, "--no-test", "--epochs", 100000, "--steps", 400, "--out", out)
        shares = wait_until(lambda: [*out.glob(".shares-*")], 10)
        (shares[0] / ".kerf-0123456789abcdef.tmp").write_bytes(b"begun")
        _, told = process.communicate(timeout=60 * SLOW)
        self.assertEqual(process.returncode, 0, told)
        self.assertTrue((out / "run.json").exists())
        self.assertEqual([*out.glob(".shares-*")], [])

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

    def test_zero_steps_write_the_shares_of_workers_that_read_more(self):
        """Divided by samples, both read all of fc1.weight, and each is at home with a half of it."""
        halves = {"0": {"samples": "0-1"}, "1": {"samples": "2-3"}}
        shares = self.folder / "shares.json"
        shares.write_text(json.dumps({"kerf_shares": 1, "shares": {"fc1": halves, "fc2": halves, "loss": {"0": "all"}}}))
        common = ("mlp", *SYNTHETIC, "--no-test", "--batch", 32, "--micro-batches", 8, "--transport", "inproc")
        for steps in (0, 2):
            self.train(*common, "--steps", steps, "--workers", 1, out="a")
            self.train(*common, "--steps", steps, "--workers", 2, "--cut", "free", "--shares", shares, out="b")
            a, b = (read_safetensors(self.folder / name / "weights.safetensors") for name in "ab")
            self.assertEqual({name: shape for name, (shape, _) in a.items()}, {name: shape for name, (shape, _) in b.items()})
            if steps == 0:
                self.assertEqual(a, b)

    def test_weights_can_be_continued_from_and_evaluated(self):
        report = self.train("lenet5", *SYNTHETIC, "--workers", 2, "--steps", 3)
        weights = self.folder / "run" / "weights.safetensors"
        answer = run("eval", "lenet5", *SYNTHETIC, "--weights", weights, "--workers", 3, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr, "", "what is on the standard output is enough")
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
