"""The program of docs/howto/write-a-program.md, built from its text: an executable of a user's own has all that kerf has."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "apps"))
from kerf_command import KerfTest, free_address, run  # noqa: E402


class KMeans(KerfTest):
    def answer(self, *flags):
        answer = run("k-means", "--points", 3000, *flags, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def test_any_number_of_processes_finds_the_same_centres(self):
        alone = self.answer("--workers", 1)
        costs = [point["cost"] for point in alone["history"]]
        self.assertEqual(costs, sorted(costs, reverse=True), "the cost never rises")
        self.assertLess(costs[-1], 0.7 * costs[0])
        for workers in (2, 3):
            together = self.answer("--workers", workers)
            self.assertAlmostEqual(together["cost"], alone["cost"], delta=1e-9 * alone["cost"])
            for mine, theirs in zip(together["centres"], alone["centres"], strict=True):
                for a, b in zip(mine, theirs, strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-9)
            self.assertEqual(together["centres"], self.answer("--workers", workers, "--transport", "tcp")["centres"])

    def test_a_run_goes_on_from_its_snapshot(self):
        folder = self.folder / "kept"
        whole = self.answer("--snapshot", folder, "--snapshot-rounds", 3)
        manifest = json.loads(next(folder.glob("checkpoint-*/manifest.json")).read_text())
        again = self.answer("--resume", folder)
        self.assertEqual((again["cost"], again["centres"]), (whole["cost"], whole["centres"]))
        self.assertEqual([point["cost"] for point in again["history"]], [point["cost"] for point in whole["history"]])
        self.assertGreater(manifest["round"], 1)
        self.refuses(["k-means", "--points", 3001, "--resume", folder], "its run had --points 3000, and this one has 3001")
        self.refuses(["k-means", "--points", 3000, "--snapshot", folder], "it has checkpoints of another run")
        self.refuses(["k-means", "--points", 3000, "--workers", 3, "--resume", folder], "of 2 workers, and this run has 3")
        self.refuses(["k-means", "--snapshot-rounds", 3], "--snapshot")

    def test_a_trace_has_everybody(self):
        trace, picture = self.folder / "trace.json", self.folder / "cost.svg"
        told = self.answer("--workers", 2, "--trace", trace, "--picture", picture)
        events = json.loads(trace.read_text())["traceEvents"]
        rounds = len(told["history"])
        for worker in (0, 1):
            names = [event["name"] for event in events if event.get("ph") == "X" and event["pid"] == worker]
            self.assertEqual(names, [f"update {number}" for number in range(rounds)])
        scheduler = [event["name"] for event in events if event.get("ph") == "X" and event["pid"] == 2]
        self.assertEqual([name for name in scheduler if name.startswith("aggregate")], [f"aggregate {number}" for number in range(rounds)])
        self.assertIn("<svg", picture.read_text())

    def test_workers_join_by_hand(self):
        address = free_address()
        scheduler = self.start("k-means", "--points", 3000, "--listen", address, "--json")
        workers = [self.start("worker", "--connect", address) for _ in range(2)]
        stdout, stderr = scheduler.communicate(timeout=60)
        self.assertEqual(scheduler.returncode, 0, stderr)
        self.assertIn("k_means worker --connect", stderr)
        self.assertEqual(json.loads(stdout)["centres"], self.answer("--workers", 2)["centres"])
        for worker in workers:
            worker.communicate(timeout=10)
            self.assertEqual(worker.returncode, 0)

    def test_a_person_is_told(self):
        told = run("k-means", "--points", 300)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("rounds  updates", told.stdout)
        self.assertIn("k-means", run("--help").stdout)
        self.assertIn("--clusters", run("k-means", "--help").stdout)
        self.refuses(["k-means", "--clusters", 0], "--clusters: 0 is not within 1")
        self.refuses(["k-means", "--workers", 301, "--points", 300], "300 points are divided over them")
        self.refuses(["k-medians"], "there is no command")
        self.refuses([], "name a command: k-means, worker")

    def refuses(self, arguments, what):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertTrue(answer.stderr.startswith("k_means: error: "), answer.stderr)
        self.assertIn(what, answer.stderr)
        self.assertEqual(len(answer.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
