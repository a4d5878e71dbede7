"""Whole numbers from the data: a language model learns a counting language, on one worker as on several."""

import math
import unittest

from kerf_command import KerfTest, run

LM = ("lstm-lm", "--sizes", "8-12-16-32", "--data", "tokens:1024x8x12", "--batch", 64, "--micro-batches", 4, "--steps", 60,
      "--lr", 0.5)


PAIRS = ("seq2seq", "--batch", 64, "--micro-batches", 4)


class SequenceToSequence(KerfTest):
    def test_the_target_is_learnt_from_the_source(self):
        flags = (*PAIRS, "--sizes", "4-3-8-16-48-1", "--data", "pairs:1024x4x3x8", "--optimizer", "adam", "--lr", 0.01,
                 "--steps", 160)
        alone = self.train(*flags, "--workers", 1, out="alone")
        self.assertLess(abs(alone["losses"][0] - math.log(8)), 0.4, "it begins by guessing")
        # The first of three tokens follows from the source only; without it the loss stays above a third of ln 8.
        self.assertLess(alone["evaluations"][-1]["loss"], math.log(8) / 6)
        for workers in (2, 3):
            together = self.train(*flags, "--workers", workers, out="together")
            self.assertEqual(together["losses"], alone["losses"], "bit for bit")
            self.assertTrue(together["equal"])

    def test_layers_over_workers(self):
        flags = (*PAIRS, "--data", "synthetic", "--steps", 2, "--no-test")
        alone = self.train(*flags, "--workers", 1, out="alone")
        self.assertEqual(alone["data"], "pairs:8192x16x16x32")
        for more in (("--workers", 3), ("--workers", 2, "--schedule", "gpipe")):
            self.assertEqual(self.train(*flags, *more)["losses"], alone["losses"], "bit for bit")
        batch = self.train(*flags, "--workers", 2, "--cut", "hybrid")
        for mine, theirs in zip(batch["losses"], alone["losses"], strict=True):
            self.assertAlmostEqual(mine, theirs, delta=1e-5 * theirs)

    def test_what_does_not_fit_is_named(self):
        self.assert_one_error(run("train", "lstm-lm", "--data", "pairs"), "pairs", 'lstm-lm has no input "source"')
        self.assert_one_error(run("train", *PAIRS, "--data", "pairs:64x16x9x32"), "pairs:64x16x9x32", "9 features of int64")
        self.assert_one_error(run("train", *PAIRS, "--data", "pairs:64x16x16"), "ROWSxSOURCExTARGETxVOCABULARY")
        self.assert_one_error(run("train", "seq2seq", "--sizes", "16-32"), "needs 6 sizes")


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
        self.assert_one_error(run("train", "lstm-lm", "--data", "tokens:64x16x33"), "33 classes", "32 scores")
        self.assert_one_error(run("train", "lenet5", "--data", "tokens:64x784x10"), "784 features of int64")
        self.assert_one_error(run("train", "lstm-lm", "--data", "tokens:64x16"), "ROWSxLENGTHxVOCABULARY")
        self.assert_one_error(run("train", "lstm-lm", "--sizes", "16-32-32"), "needs 4 sizes")


if __name__ == "__main__":
    unittest.main()
