"""Asynchronous schedules learn as well as a synchronous one: LeNet-5 in eight stages on Fashion-MNIST, each with a learning rate that
suits how late its updates are, is within one point of 1F1B's test accuracy on average over three seeds."""

import statistics
import unittest

from kerf_command import KerfTest

EPOCHS, SEEDS, STAGES = 4, (1, 2, 3), 8
# By schedule: rows and micro-batches of a step, learning rate, momentum. Updates take 64 rows in 1F1B, and 16, 32 and 4 in the others.
RUNS = {
    "1f1b": (64, 8, 0.02, 0.9),
    "pipedream": (1024, 64, 0.05, 0),
    "pipedream-2bw": (1024, 256, 0.01, 0.9),
    "ampnet": (1024, 256, 0.02, 0),
}
LATE = {"1f1b": [], "pipedream-2bw": [1] * STAGES}


class Accuracy(KerfTest):
    def accuracy(self, schedule, seed):
        batch, micro_batches, rate, momentum = RUNS[schedule]
        report = self.train("lenet5", "--data", "fashion-mnist", "--workers", STAGES, "--cut", "layer", "--schedule", schedule,
                            "--batch", batch, "--micro-batches", micro_batches, "--epochs", EPOCHS, "--seed", seed, "--lr", rate,
                            "--momentum", momentum, "--lr-schedule", "cosine", "--trace-steps", 0)
        self.assertEqual(report["staleness"], LATE.get(schedule, list(range(STAGES))[::-1]), schedule)
        return 100 * report["evaluations"][-1]["correct"] / report["evaluations"][-1]["rows"]

    def test_is_within_a_point_of_the_synchronous_one(self):
        accuracy = {schedule: [self.accuracy(schedule, seed) for seed in SEEDS] for schedule in RUNS}
        for schedule, each in accuracy.items():
            print(f"{schedule:14} {statistics.mean(each):.2f} % ({', '.join(f'{one:.2f}' for one in each)})")
        synchronous = statistics.mean(accuracy["1f1b"])
        for schedule, each in accuracy.items():
            with self.subTest(schedule=schedule):
                self.assertGreater(statistics.mean(each), synchronous - 1)


if __name__ == "__main__":
    unittest.main()
