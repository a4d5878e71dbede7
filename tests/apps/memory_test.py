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


if __name__ == "__main__":
    unittest.main()
