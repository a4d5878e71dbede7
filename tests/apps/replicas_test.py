"""Replicas of a plan train as processes and share their weights; what flags they go with is said where they do not."""

import math
import os
import signal
import sys
import unittest

from kerf_command import KerfTest, run, start, wait_until, workers_of

QUICK = ("--data", "synthetic:400x784x10", "--batch", 20, "--epochs", 1)


class Replicas(KerfTest):
    def test_every_consistency_trains_and_says_how(self):
        for how, more in (("ssp:0", {}), ("ssp:2", {}), ("average:3", {}), ("async", {}),
                          ("async", {"--server-groups": 3}), ("async", {"--push-every": 2, "--fetch-every": 3})):
            with self.subTest(how=how, more=more):
                flags = [each for pair in more.items() for each in pair]
                report = self.train("lenet5", *QUICK, "--replicas", 3, "--workers", 2, "--consistency", how, *flags)
                self.assertEqual(len(report["workers"]), 6)
                self.assertEqual(report["steps"], math.ceil(400 / 60))
                self.assertTrue(report["equal"], "messages of all replicas are counted as predicted")
                self.assertFalse(report["same_bits"])
                told = report["replicas"]
                self.assertEqual((told["count"], told["consistency"]), (3, how))
                self.assertEqual(told["server_groups"], more.get("--server-groups", 1))
                if how.startswith("ssp:"):
                    self.assertLessEqual(told["staleness"], int(how[4:]))
                for worker in report["workers"]:
                    self.assertGreater(worker["table_bytes"], 0)
                    self.assertEqual(worker["peak_bytes"], worker["proved_bytes"])

    def test_over_every_transport_average_gives_the_same_bits(self):
        weights = set()
        for transport in ("inproc", "shm", "ipc", "tcp"):
            self.train("mlp", "--sizes", "784-32-10", *QUICK, "--replicas", 2, "--workers", 2, "--consistency", "average:2", "--transport", transport)
            weights.add((self.folder / "run/weights.safetensors").read_bytes())
        self.assertEqual(len(weights), 1)

    def test_synchronous_replicas_are_a_cut(self):
        """And the answer is one worker's, with the rows of all."""
        alone = self.train("lenet5", *QUICK[:2], "--epochs", 1, "--batch", 40, "--workers", 1)
        for workers, cut in ((1, "batch"), (2, "hybrid")):
            with self.subTest(workers=workers):
                both = self.train("lenet5", *QUICK, "--replicas", 2, "--workers", workers)
                self.assertEqual(len(both["workers"]), 2 * workers)
                self.assertEqual(both["plan"]["cut"], cut)
                self.assertIsNone(both.get("replicas"))
                for one, other in zip(alone["losses"], both["losses"], strict=True):
                    self.assertAlmostEqual(one, other, delta=1e-4)

    def test_a_plan_is_replicated_as_it_is(self):
        plan = self.folder / "plan.json"
        self.assertEqual(run("plan", "lenet5", "--workers", 2, "--batch", 20, "--out", plan).returncode, 0)
        report = self.train("lenet5", *QUICK[:2], "--epochs", 1, "--plan", plan, "--replicas", 2, "--consistency", "ssp:1")
        self.assertEqual(len(report["workers"]), 4)

    def test_what_does_not_go_together_is_told(self):
        for flags, where, what in (
                (("--replicas", 0), "--replicas", "from 1 to"),
                (("--consistency", "async"), "--consistency", "--replicas 2"),
                (("--server-groups", 2), "--server-groups", "--replicas 2"),
                (("--replicas", 2, "--consistency", "sometimes"), "--consistency", "ssp:S"),
                (("--replicas", 2, "--consistency", "ssp:-1"), "--consistency", "ssp:-1"),
                (("--replicas", 3, "--consistency", "async", "--server-groups", 2), "--replicas", "2 server groups"),
                (("--replicas", 2, "--consistency", "ssp:1", "--push-every", 2), "--replicas", "of async"),
                (("--replicas", 2, "--push-every", 2), "--push-every", "no tables"),
                (("--replicas", 2, "--cut", "feature"), "--replicas", "--cut feature"),
                (("--replicas", 600, "--workers", 2, "--consistency", "async"), "--replicas", "1024"),
                (("--replicas", 2, "--consistency", "async", "--schedule", "pipedream", "--workers", 2), "", "within a step")):
            with self.subTest(flags=flags):
                answer = run("train", "lenet5", *QUICK, *flags, "--out", self.folder / "out")
                self.assert_one_error(answer, f"{where}: " if where else "", what)

    def test_a_killed_worker_of_one_replica_ends_the_run(self):
        process = start("train", "lenet5", "--data", "synthetic:60000x784x10", "--epochs", 50, "--replicas", 2, "--workers", 2, "--consistency",
                        "ssp:1", "--no-restart", "--out", self.folder / "out")
        workers = wait_until(lambda: (found := workers_of(process.pid)) and len(found) == 4 and found, 20)
        self.assertTrue(wait_until(lambda: (self.folder / "out").is_dir(), 20))
        os.kill(workers[3], signal.SIGKILL)
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 1)
        self.assertIn("was lost: signal 9", errors)
        self.assertEqual(workers_of(process.pid), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
