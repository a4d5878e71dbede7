"""Whole numbers from the data: a language model learns a counting language, on one worker as on several."""

import math
import unittest

from kerf_command import KerfTest, run

LM = ("lstm-lm", "--sizes", "8-12-16-32", "--data", "tokens:1024x8x12", "--batch", 64, "--micro-batches", 4, "--steps", 60,
      "--lr", 0.5)


class LanguageModel(KerfTest):
    def test_learns_more_than_one_token_can_tell(self):
        alone = self.train(*LM, "--workers", 1, out="alone")
        together = self.train(*LM, "--workers", 2, out="together")
        self.assertEqual(together["losses"], alone["losses"], "bit for bit")
        self.assertTrue(together["equal"])
        self.assertLess(abs(together["losses"][0] - math.log(12)), 0.3, "it begins by guessing")
        # Seven of eight tokens follow from the two before them; without memory the loss stays at ln 3.
        self.assertLess(together["losses"][-1], 0.75 * math.log(3))
        last = together["evaluations"][-1]
        self.assertEqual((last["rows"], last["labels_per_row"]), (128, 8))
        self.assertGreater(last["accuracy"], 0.7)
        self.assertEqual(last["accuracy"], last["correct"] / (128 * 8))
        self.assertEqual(last["perplexity"], math.exp(last["loss"]))
        self.assertEqual(together["tokens_per_second"], together["images_per_second"] * 8)

    def test_sizes_follow_the_model(self):
        report = self.train("lstm-lm", "--sizes", "5-7-4-6", "--data", "tokens", "--steps", 1, "--workers", 2, "--no-test")
        self.assertEqual(report["data"], "tokens:8192x5x7")

    def test_what_does_not_fit_is_named(self):
        self.assert_one_error(run("train", "lstm-lm", "--data", "synthetic:64x16x32"), "synthetic:64x16x32",
                              "16 features of float32", "tokens, an input of lstm-lm, has 16 of int64")
        self.assert_one_error(run("train", "lstm-lm", "--data", "tokens:64x9x32"), "tokens:64x9x32", "9 features of int64")
        self.assert_one_error(run("train", "lstm-lm", "--data", "tokens:64x16x31"), "31 classes", "32 scores")
        self.assert_one_error(run("train", "lenet5", "--data", "tokens:64x784x10"), "784 features of int64")
        self.assert_one_error(run("train", "lstm-lm", "--data", "tokens:64x16"), "ROWSxLENGTHxVOCABULARY")
        self.assert_one_error(run("train", "lstm-lm", "--sizes", "16-32-32"), "needs 4 sizes")


if __name__ == "__main__":
    unittest.main()
