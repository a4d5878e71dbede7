"""Asynchronous schedules learn as well as a synchronous one: LeNet-5 in eight stages on Fashion-MNIST, an update for every 64 rows
in each, is within one point of 1F1B's test accuracy on average over three seeds."""

import statistics
import unittest

from kerf_command import KerfTest

EPOCHS, SEEDS, STAGES, ROWS_OF_UPDATE = 3, (1, 2, 3), 8, 64
# By schedule: micro-batches of a step, and updates in it. 2BW's take as many micro-batches as there are stages.
STEPS = {"1f1b": (8, 1), "pipedream": (32, 32), "pipedream-2bw": (256, 32), "ampnet": (32, 32)}


class Accuracy(KerfTest):
    def accuracy(self, schedule, seed):
        micro_batches, updates = STEPS[schedule]
        report = self.train("lenet5", "--data", "fashion-mnist", "--workers", STAGES, "--cut", "layer", "--schedule", schedule,
                            "--batch", ROWS_OF_UPDATE * updates, "--micro-batches", micro_batches, "--epochs", EPOCHS,
                            "--seed", seed, "--lr", 0.02, "--momentum", 0.9, "--trace-steps", 0)
        late = {"1f1b": [], "pipedream-2bw": [1] * STAGES}.get(schedule, list(range(STAGES))[::-1])
        self.assertEqual(report["staleness"], late, schedule)
        return 100 * report["evaluations"][-1]["correct"] / report["evaluations"][-1]["rows"]

    def test_is_within_a_point_of_the_synchronous_one(self):
        accuracy = {schedule: [self.accuracy(schedule, seed) for seed in SEEDS] for schedule in STEPS}
        for schedule, each in accuracy.items():
            print(f"{schedule:14} {statistics.mean(each):.2f} % ({', '.join(f'{one:.2f}' for one in each)})")
        synchronous = statistics.mean(accuracy["1f1b"])
        for schedule, each in accuracy.items():
            with self.subTest(schedule=schedule):
                self.assertGreater(statistics.mean(each), synchronous - 1)


if __name__ == "__main__":
    unittest.main()
