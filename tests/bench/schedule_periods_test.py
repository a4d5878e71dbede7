"""What bench/schedule_periods.py concludes: from loads, medians and orders, without a clock."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from schedule_periods import Load, processor_seconds, quiet_run, verdict_of  # noqa: E402


class Loads(unittest.TestCase):
    def test_seconds_are_of_all_but_those_idle(self):
        ticks = processor_seconds("cpu  100 20 30 5000 7 1 2 9 0 0\ncpu0 1 2 3 4 5 6 7")
        self.assertAlmostEqual(ticks * os.sysconf("SC_CLK_TCK"), 100 + 20 + 30 + 1 + 2)

    def test_what_others_take_is_a_part_of_all_processors(self):
        busy, own, now = iter((10.0, 13.0)), iter((1.0, 2.0)), iter((100.0, 110.0))
        load = Load(lambda: next(busy), lambda: next(own), lambda: next(now), processors=4)
        self.assertAlmostEqual(load.foreign(), (3 - 1) / (10 * 4))

    def test_nobody_takes_less_than_nothing(self):
        busy, own, now = iter((10.0, 11.0)), iter((1.0, 2.5)), iter((0.0, 1.0))
        self.assertEqual(Load(lambda: next(busy), lambda: next(own), lambda: next(now), processors=1).foreign(), 0)


class QuietRuns(unittest.TestCase):
    def tried(self, loads, patience):
        """What is taken, its load, and how many were run."""
        runs, beside = [], iter(loads)

        class OfList:
            def __init__(self):
                self.load = next(beside)

            def foreign(self):
                return self.load

        given, load = quiet_run(lambda: runs.append(len(runs)) or len(runs), patience, OfList)
        return given, load, len(runs)

    def test_a_quiet_run_counts_at_once(self):
        self.assertEqual(self.tried([0.05, 0.0], 3), (1, 0.05, 1))

    def test_a_loaded_one_is_repeated(self):
        self.assertEqual(self.tried([0.06, 0.5, 0.01], 3), (3, 0.01, 3))

    def test_patience_ends_with_the_quietest(self):
        self.assertEqual(self.tried([0.3, 0.2, 0.4], 2), (2, 0.2, 3))


class Verdicts(unittest.TestCase):
    def verdict(self, **schedules):
        return verdict_of({name: {"predictions": [predicted] * len(runs), "runs": runs, "loads": [0.0, 0.2]} for name, (predicted, runs) in schedules.items()})

    def test_the_median_counts(self):
        told = self.verdict(a=(1.0, [1.02, 9.0, 1.01]))
        self.assertAlmostEqual(told["schedules"]["a"]["error"], 0.02)
        self.assertEqual(told["beyond_goal"], [])
        self.assertEqual(told["schedules"]["a"]["most_load"], 0.2)

    def test_each_run_goes_by_its_own_prediction(self):
        told = verdict_of({"a": {"predictions": [1.0, 2.0, 4.0], "runs": [1.01, 2.0, 4.8], "loads": [0, 0, 0]}})["schedules"]["a"]
        self.assertAlmostEqual(told["error"], 0.01)
        self.assertEqual((told["predicted_seconds"], told["measured_seconds"]), (2.0, 2.0))

    def test_too_fast_is_as_wrong_as_too_slow(self):
        self.assertEqual(self.verdict(a=(1.0, [1.031]), b=(1.0, [0.969]), c=(1.0, [1.029]))["beyond_goal"], ["a", "b"])

    def test_pairs_that_are_apart_keep_their_order(self):
        told = self.verdict(a=(1.0, [1.1]), b=(1.04, [1.05]), c=(1.06, [1.2]))
        self.assertEqual((told["pairs_apart"], told["wrong_order"]), (2, [("a", "b")]), "b and c are too close to tell")

    def test_equal_times_are_no_order(self):
        self.assertEqual(self.verdict(a=(1.0, [1.0]), b=(2.0, [1.0]))["wrong_order"], [("a", "b")])


if __name__ == "__main__":
    unittest.main()
