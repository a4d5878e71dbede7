"""What a worker's process takes of the machine is what was proved for its tensors, and little else: not more than the
allowance that the report prints, and not much less, or the proof would be of memory that nobody uses."""

import json
import unittest

from kerf_command import KerfTest, run

BRIEFLY = ("--data", "synthetic:256x784x10", "--batch", 64, "--steps", 4)
LARGE = ("mlp", "--sizes", "784-5000-5000-10", "--data", "synthetic:128x784x10", "--batch", 64, "--steps", 2)
MIB = 1 << 20


class ResidentMemory(KerfTest):
    def assert_within_allowance(self, report):
        self.assertLessEqual(report["process_allowance_bytes"], 24 * MIB)
        for worker in report["workers"]:
            self.assertGreater(worker["resident_bytes"], 0, worker)
            self.assertLessEqual(worker["resident_bytes"], worker["proved_bytes"] + report["process_allowance_bytes"], worker)

    def test_no_more_than_proved_and_the_allowance(self):
        for transport in ("shm", "ipc", "tcp"):
            for model in (("lenet5",), ("convnet",), ("mlp", "--sizes", "784-1000-1000-10")):
                with self.subTest(transport=transport, model=model[0]):
                    self.assert_within_allowance(self.train(*model, *BRIEFLY, "--workers", 2, "--transport", transport))

    def test_nor_of_a_deep_network_that_is_divided(self):
        """Whose instructions, messages and primitives are thousands: a worker keeps its own alone, and of equal ones one."""
        for network, size in (("shufflenet", 32), ("inception-v3", 75)):
            for cut in ("feature", "free"):
                with self.subTest(network=network, cut=cut):
                    report = self.train(network, "--width", 0.25, "--image-size", size, "--classes", 10, "--data", f"synthetic:64x{3 * size * size}x10",
                                        "--cut", cut, "--workers", 4, "--batch", 8, "--micro-batches", 4, "--steps", 2, "--no-test")
                    self.assertGreater(len(report["routes"]), 500)
                    self.assert_within_allowance(report)

    def test_not_much_less_either(self):
        for workers in (1, 2):
            with self.subTest(workers=workers):
                report = self.train(*LARGE, "--workers", workers)
                self.assert_within_allowance(report)
                large = [worker for worker in report["workers"] if worker["proved_bytes"] > 256 * MIB]
                self.assertTrue(large)
                for worker in large:
                    self.assertGreaterEqual(worker["resident_bytes"], 0.95 * worker["proved_bytes"], worker)

    def test_rows_of_data_are_told_apart(self):
        report = self.train("mlp", "--sizes", "784-10", "--data", "synthetic:8192x784x10", "--steps", 2, "--workers", 1)
        self.assertGreaterEqual(report["workers"][0]["data_bytes"], 8192 * 784 * 4)
        self.assert_within_allowance(report)

    def test_workers_that_share_a_process_have_no_figure(self):
        report = self.train("mlp", *BRIEFLY, "--workers", 2, "--transport", "inproc")
        self.assertEqual([worker["resident_bytes"] for worker in report["workers"]], [-1, -1])

    def test_the_report_says_so(self):
        self.train("mlp", *BRIEFLY, "--workers", 1)
        answer = run("report", "run", cwd=self.folder).stdout
        self.assertIn("resident", answer)
        record = self.folder / "run" / "run.json"
        report = json.loads(record.read_text())
        report["workers"][0]["resident_bytes"] = report["workers"][0]["proved_bytes"] + 25 * MIB
        record.write_text(json.dumps(report))
        self.assertIn("more than", run("report", "run", cwd=self.folder).stdout)


class KeptForARestart(KerfTest):
    """What workers leave for a restart is told beforehand, and where the cap has no room for it there is none."""

    RUN = ("mlp", "--sizes", "784-200-10", "--workers", 2, "--optimizer", "adam", "--batch", 64)

    def plan(self, *more):
        answer = run("plan", *self.RUN, *more, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def test_is_what_the_plan_says(self):
        plan = self.plan()
        weights = 784 * 200 + 200 + 200 * 10 + 10
        self.assertEqual(sum(plan["kept_bytes"]), 3 * 4 * weights)
        self.assertEqual(plan["kept"], {"bytes": 2 * sum(plan["kept_bytes"]), "forbidden": None})
        self.assertIn("for copies that a restart needs, on top of the peaks: 3.64 MiB", run("plan", *self.RUN).stdout)
        for epochs in (40, 400, 4000):  # the first that takes more than the second behind which something is kept
            kept = self.train(*self.RUN, "--data", "synthetic:4096x784x10", "--epochs", epochs, "--no-test")["kept"]
            if kept["counted_bytes"] > 0:
                break
        self.assertEqual(kept["predicted_bytes"], sum(plan["kept_bytes"]))
        headers = kept["counted_bytes"] - kept["predicted_bytes"]
        self.assertGreater(headers, 0)
        self.assertLess(headers, 2 * 4096)
        self.assertEqual(kept["committed_bytes"], kept["commits"] * kept["counted_bytes"])  # the same tensors each time
        self.assertGreater(kept["commits"], 0)
        self.assertGreater(kept["commit_seconds"], 0)
        self.assertIsNone(self.train(*self.RUN, *BRIEFLY[:2], "--steps", 2, "--no-restart")["kept"])

    def test_is_nothing_where_the_cap_has_no_room(self):
        plan = self.plan()
        needed = [peak + 2 * kept for peak, kept in zip(plan["proved_bytes"], plan["kept_bytes"], strict=True)]
        for cap, fits in ((max(needed), True), (max(needed) - 1, False)):
            with self.subTest(fits=fits):
                told = self.plan("--memory", cap)["kept"]["forbidden"]
                answer = run("train", *self.RUN, "--memory", cap, *BRIEFLY[:2], "--steps", 2, "--no-test", "--json", "--out", self.folder / "run")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertEqual(json.loads(answer.stdout)["kept"]["forbidden"], told or "")
                self.assertEqual(told is None, fits)
                self.assertEqual("nothing is kept in memory for a restart: worker" in answer.stderr, not fits)
        more = ("--memory", max(needed) - 1, "--keep-workers", 5, "--save-every", 0, *BRIEFLY[:2], "--steps", 2, "--no-test", "--out", self.folder / "run")
        self.assertIn("nothing is kept in memory for a restart but the checkpoints of --keep-workers, which no cap counts: worker", run("train", *self.RUN, *more).stderr)
        text = run("plan", *self.RUN, "--memory", max(needed) - 1).stdout
        self.assertIn("nothing is kept in memory for a restart", text)


if __name__ == "__main__":
    unittest.main()
