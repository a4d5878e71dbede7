"""A request that no plan fits names the stage, the cap, the bytes over, and what to change: each change that it offers fits, and a
memory of one byte less does not."""

import json
import re
import sys
import unittest

from kerf_command import KerfTest, run

FULL = "full" in sys.argv
CUTS = ("layer", "feature", "batch", "hybrid", "free", "auto")
REQUEST = ("--batch", 24, "--micro-batches", 3)
MODELS = [("mlp", "--sizes", "256-256-256-10"), ("lenet5-bn",), ("gpt", "--sizes", "2-32-4-12-50"), ("lstm-lm", "--sizes", "8-50-16-16")]
IMAGES = ("--width", 0.125, "--classes", 20, "--image-size")
if FULL:
    MODELS += [("seq2seq", "--sizes", "6-40-12-12"), ("vit", "--sizes", "2-32-4-8", *IMAGES, 32), ("resnet18", *IMAGES, 32),
               ("shufflenet", *IMAGES, 32), ("inception-v1", *IMAGES, 64), ("bvlc-alexnet", *IMAGES, 67), ("squeezenet", *IMAGES, 64)]
REFUSAL = re.compile(r"kerf: error: no plan fits: stage (\d+) needs (?:[\d.]+ [KMGT]iB \()?(\d+) bytes?\)? more than the memory cap of (\d+) bytes per worker; "
                     r"the smallest change that fits is (--[a-z-]+ \d+)(?:, or (--memory \d+))?\n")


class SmallestChange(KerfTest):
    def refusal(self, *asked):
        """Nothing where a plan fits; else stage, bytes over, cap, and what to change."""
        answer = run("plan", *asked, "--json", timeout=120)
        if answer.returncode == 0:
            return None
        self.assertEqual(answer.returncode, 2, answer.stderr)
        found = REFUSAL.fullmatch(answer.stderr)
        self.assertTrue(found, answer.stderr)
        return (*map(int, found.groups()[:3]), [change for change in found.groups()[3:] if change])

    def check(self, asked, cap):
        """The flags that were offered."""
        refusal = self.refusal(*asked, "--memory", cap)
        if refusal is None:
            return set()
        stage, over, told, changes = refusal
        self.assertLess(stage, 6)
        self.assertEqual(told, cap)
        self.assertEqual(changes[-1], f"--memory {cap + over}")
        for change in changes:
            # What is said last holds, so that it replaces what was asked.
            self.assertIsNone(self.refusal(*asked, "--memory", cap, *change.split()), change)
        self.assertIsNotNone(self.refusal(*asked, "--memory", cap + over - 1), "one byte less would do")
        return {change.split()[0] for change in changes}

    def test_each_change_that_is_offered_fits(self):
        offered = set()
        for model in MODELS:
            for cut in CUTS:
                asked = (*model, "--cut", cut, "--workers", 3, *REQUEST)
                answer = run("plan", *asked, "--json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                peak = max(json.loads(answer.stdout)["proved_bytes"])
                for percent in (80, 45, 5):
                    with self.subTest(asked=asked, percent=percent):
                        offered |= self.check(asked, peak * percent // 100)
        self.assertEqual(offered, {"--memory", "--micro-batches", "--workers"})

    def test_of_plans_that_want_slots_of_their_own(self):
        """Of as many micro-batches as they have."""
        for model, schedule, percents in ((("seq2seq", "--workers", 3), "interleaved", (45,)), (("seq2seq", "--workers", 3), "zbv", (45,)),
                                          (("mlp", "--workers", 2, "--batch", 4096), "looped-bfs", (93,))):
            asked = (*model, "--cut", "layer", "--schedule", schedule)
            peak = max(json.loads(run("plan", *asked, "--json").stdout)["proved_bytes"])
            for percent in percents:
                cap = peak * percent // 100
                with self.subTest(schedule=schedule, percent=percent):
                    *_, changes = self.refusal(*asked, "--memory", cap)
                    self.assertLessEqual(int(changes[-1].removeprefix("--memory ")), peak)
                    for change in changes:
                        self.assertIsNone(self.refusal(*asked, "--memory", cap, *change.split()), change)


if __name__ == "__main__":
    unittest.main(argv=[each for each in sys.argv if each != "full"])
