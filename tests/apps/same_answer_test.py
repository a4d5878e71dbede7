"""The first contract: however a model is cut over layers, the losses and weights are the same, bit for bit.

    same_answer_test.py          a pairwise sample of workers x schedule x transport
    same_answer_test.py full     all of them, and both models
"""

import itertools
import sys
import unittest

from kerf_command import KerfTest

WORKERS, SCHEDULES, TRANSPORTS = (1, 2, 3, 4), ("gpipe", "1f1b"), ("shm", "ipc", "tcp", "inproc")
# Every worker count meets every transport once, under schedules that alternate as on a chessboard: so every pair occurs.
SAMPLE = [(workers, SCHEDULES[(row + column) % 2], transport)
          for row, workers in enumerate(WORKERS) for column, transport in enumerate(TRANSPORTS)]
FULL = list(itertools.product(WORKERS, SCHEDULES, TRANSPORTS))
CASES, MODELS = SAMPLE, (("lenet5",),)
# 203 rows by 50: the last batch has 3 rows, fewer than micro-batches; 50 by 7: micro-batches of 8 and 7.
UNEVEN = ("--data", "synthetic:203x784x10", "--batch", 50, "--micro-batches", 7, "--epochs", 2, "--seed", 5, "--lr", 0.05)


class SameAnswer(KerfTest):
    def test_every_pair_of_values_occurs_in_the_sample(self):
        for a, b in itertools.combinations(range(3), 2):
            pairs = {(case[a], case[b]) for case in SAMPLE}
            self.assertEqual(pairs, set(itertools.product(*((WORKERS, SCHEDULES, TRANSPORTS)[i] for i in (a, b)))))

    def test_bit_for_bit(self):
        for model in MODELS:
            reference = self.train(*model, *UNEVEN, "--workers", 1, "--transport", "inproc", out="reference")
            weights = (self.folder / "reference" / "weights.safetensors").read_bytes()
            self.assertEqual(len(reference["losses"]), 10)
            self.assertLess(reference["losses"][-2], reference["losses"][0], "it learns")
            for workers, schedule, transport in CASES:
                with self.subTest(model=model[0], workers=workers, schedule=schedule, transport=transport):
                    report = self.train(*model, *UNEVEN, "--workers", workers, "--schedule", schedule, "--transport",
                                        transport)
                    self.assertEqual(report["losses"], reference["losses"])
                    self.assertEqual(report["evaluations"], reference["evaluations"])
                    self.assertTrue((self.folder / "run" / "weights.safetensors").read_bytes() == weights, "weights differ")
                    self.assertTrue(report["equal"])
                    for worker in report["workers"]:
                        self.assertEqual(worker["peak_bytes"], worker["proved_bytes"], worker)

    def test_stages_placed_by_a_file(self):
        """Out and back: a worker has the first and the last stage, the other both between."""
        schedule = self.folder / "v.txt"
        schedule.write_text("kerf-schedule 1\nname v\nworkers 2\nmicro-batches 2\n"
                            "stage 0 on 0\nstage 1 on 1\nstage 2 on 1\nstage 3 on 0\n"
                            "row 0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0U 3U\n"
                            "row 1: 1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1U 2U\n")
        flags = ("lenet5", "--data", "synthetic:203x784x10", "--batch", 50, "--epochs", 1, "--seed", 5, "--lr", 0.05)
        reference = self.train(*flags, "--micro-batches", 2, "--workers", 1, out="reference")
        weights = (self.folder / "reference" / "weights.safetensors").read_bytes()
        report = self.train(*flags, "--cut", "layer", "--schedule", schedule)
        self.assertEqual(report["losses"], reference["losses"])
        self.assertTrue((self.folder / "run" / "weights.safetensors").read_bytes() == weights, "weights differ")
        self.assertTrue(report["equal"])
        self.assertGreater(report["workers"][1]["local_messages"], 0)
        for worker in report["workers"]:
            self.assertEqual(worker["peak_bytes"], worker["proved_bytes"], worker)

    def test_another_seed_gives_another_answer(self):
        a = self.train("lenet5", *UNEVEN, "--transport", "inproc")
        b = self.train("lenet5", *UNEVEN, "--transport", "inproc", "--seed", 6)
        self.assertNotEqual(a["losses"], b["losses"])


if __name__ == "__main__":
    if "full" in sys.argv:
        sys.argv.remove("full")
        CASES, MODELS = FULL, (("lenet5",), ("mlp", "--sizes", "784-40-30-20-10"))
    unittest.main()
