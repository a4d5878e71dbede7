"""Replicas that do not wait for each other learn as well as those that do: LeNet-5 on Fashion-MNIST in two replicas of two workers, each
way with a learning rate that suits it, is within one point of the synchronous one's test accuracy on average over three seeds."""

import statistics
import unittest

from kerf_command import KerfTest

EPOCHS, SEEDS = 4, (1, 2, 3)
RUNS = {
    "sync": ("--batch", 64, "--lr", 0.02, "--momentum", 0.9),
    "average:16": ("--batch", 64, "--lr", 0.02, "--momentum", 0.9),
    "async": ("--batch", 64, "--lr", 0.1, "--momentum", 0),
    "ssp:3": ("--batch", 64, "--lr", 0.1, "--momentum", 0),
}


class Accuracy(KerfTest):
    def accuracy(self, consistency, seed):
        report = self.train("lenet5", "--data", "fashion-mnist", "--replicas", 2, "--workers", 2, "--consistency", consistency, "--epochs",
                            EPOCHS, "--seed", seed, "--lr-schedule", "cosine", "--trace-steps", 0, *RUNS[consistency])
        return 100 * report["evaluations"][-1]["correct"] / report["evaluations"][-1]["rows"]

    def test_is_within_a_point_of_the_synchronous_one(self):
        accuracy = {consistency: [self.accuracy(consistency, seed) for seed in SEEDS] for consistency in RUNS}
        for consistency, each in accuracy.items():
            print(f"{consistency:14} {statistics.mean(each):.2f} % ({', '.join(f'{one:.2f}' for one in each)})")
        for consistency, each in accuracy.items():
            with self.subTest(consistency=consistency):
                self.assertGreater(statistics.mean(each), statistics.mean(accuracy["sync"]) - 1)


if __name__ == "__main__":
    unittest.main()
