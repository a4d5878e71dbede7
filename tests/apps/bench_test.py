"""kerf bench schedules: every schedule has its line, with what it was simulated to take and what it took, or why it has none."""

import json
import re
import statistics
import unittest

from kerf_command import KerfTest, run

MODEL = ("mlp", "--sizes", "784-64-64-64-64-10", "--workers", 2, "--batch", 32, "--micro-batches", 4)
BRIEFLY = ("--steps", 3, "--warm-up", 1, "--transport", "inproc")


def bench(*arguments):
    return run("bench", "schedules", *arguments)


class BenchSchedules(KerfTest):
    def told(self, *arguments):
        answer = bench(*MODEL, *arguments, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def rows(self, told, part="own_memory"):
        return {row["schedule"]: row for row in told[part]["schedules"]}

    def test_what_ran_is_there_with_both_times(self):
        told = self.told("--schedules", "gpipe,1f1b,zbv", *BRIEFLY)
        self.assertEqual((told["workers"], told["batch"], told["steps"]), (2, 32, 3))
        own = self.rows(told)
        self.assertEqual(set(own), {"gpipe", "1f1b", "zbv"})
        for name, row in own.items():
            with self.subTest(schedule=name):
                self.assertEqual(row["stages"], 4 if name == "zbv" else 2)
                self.assertEqual(len(row["steps"]), 3)
                self.assertAlmostEqual(row["measured_seconds"], statistics.median(row["steps"]))
                self.assertAlmostEqual(row["measured_to_simulated"], row["measured_seconds"] / row["simulated_seconds"])
                self.assertAlmostEqual(row["rows_per_second"], 32 / row["measured_seconds"])
                self.assertGreater(row["simulated_seconds"], 0)
                self.assertIsNone(row["why_not"])
        times = [row["measured_seconds"] for row in told["own_memory"]["schedules"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual((own["gpipe"]["in_flight"], own["1f1b"]["in_flight"]), (4, 2))
        self.assertGreater(own["gpipe"]["peak_bytes"], own["1f1b"]["peak_bytes"])

    def test_costs_may_be_of_each_schedule_and_memory_left_alone(self):
        told = self.told("--schedules", "gpipe,1f1b", "--own-costs", "--no-equal-memory", *BRIEFLY)
        self.assertEqual(told["equal_memory"]["schedules"], [])
        self.assertTrue(all(row["measured_seconds"] for row in self.rows(told).values()))

    def test_memory_is_made_equal_by_smaller_micro_batches(self):
        told = self.told("--schedules", "gpipe,1f1b,naive", "--simulate-only")
        own, equal = self.rows(told), self.rows(told, "equal_memory")
        self.assertEqual(told["equal_memory"]["cap_bytes"], own["1f1b"]["peak_bytes"])
        for name in ("1f1b", "naive"):
            self.assertEqual(equal[name], own[name])
        self.assertGreater(own["gpipe"]["peak_bytes"], told["equal_memory"]["cap_bytes"])
        for row in equal.values():
            if row["why_not"] is None:
                self.assertLessEqual(row["peak_bytes"], told["equal_memory"]["cap_bytes"])
        self.assertTrue(equal["gpipe"]["micro_batches"] > 4 or "at least" in equal["gpipe"]["why_not"])

    def test_of_more_memory_the_fewest_micro_batches_that_fit(self):
        own = self.rows(self.told("--schedules", "gpipe", "--simulate-only"))["gpipe"]
        told = self.told("--schedules", "gpipe", "--simulate-only", "--memory", own["peak_bytes"] - 1)
        fitting = self.rows(told, "equal_memory")["gpipe"]
        self.assertEqual(told["equal_memory"]["cap_of"], "--memory")
        self.assertIsNone(fitting["why_not"])
        self.assertLess(fitting["peak_bytes"], own["peak_bytes"])
        for fewer in range(5, fitting["micro_batches"]):
            beside = json.loads(bench(*MODEL[:-1], fewer, "--schedules", "gpipe", "--simulate-only", "--json").stdout)
            self.assertGreaterEqual(self.rows(beside)["gpipe"]["peak_bytes"], own["peak_bytes"])

    def test_too_little_memory_is_said_by_name(self):
        told = self.told("--schedules", "1f1b,gpipe", "--simulate-only", "--memory", "1K")
        for name, row in self.rows(told, "equal_memory").items():
            self.assertRegex(row["why_not"], r"takes .* at least", name)
            self.assertIsNone(row["simulated_seconds"])

    def test_every_one_that_trains_is_there_simulated(self):
        told = self.told("--simulate-only")
        named = re.search(r"NAME TEXT (.*?), a file", " ".join(run("schedule", "--help").stdout.split())).group(1).split(", ")
        self.assertEqual(set(self.rows(told)), set(named) - {"forward-only"})
        for name, row in self.rows(told).items():
            self.assertTrue(row["simulated_seconds"] or row["why_not"], name)
            self.assertIsNone(row["measured_seconds"], name)
        self.assertIsNone(told["data"])

    def test_the_table_says_what_the_json_says(self):
        text = bench(*MODEL, "--schedules", "1f1b,gpipe", "--simulate-only").stdout
        self.assertIn("at their own memory:", text)
        self.assertIn("at equal memory, ", text)
        self.assertEqual(len(re.findall(r"^(?:1f1b|gpipe) +2 ", text, re.MULTILINE)), 4)

    def test_a_file_runs_beside_built_in_ones(self):
        mine = self.folder / "mine.txt"
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--micro-batches", 4, "--out", mine).returncode, 0)
        row = self.rows(self.told("--schedules", f"1f1b,{mine}", *BRIEFLY))[str(mine)]
        self.assertEqual((len(row["steps"]), row["in_flight"]), (3, 4))

    def test_nonsense_is_refused_by_its_flag(self):
        for flags, parts in ((("--schedules", "1f1b,nosuch"), ("nosuch", "gpipe")), (("--schedules", "1f1b,,gpipe"), ("--schedules", "empty")),
                             (("--schedules", "1f1b,1f1b"), ("--schedules", "twice")), (("--schedules", "forward-only"), ("--schedules", "no gradients")),
                             (("--steps", 0), ("--steps", "from 1 to")), (("--warm-up", 0), ("--warm-up", "from 1 to")),
                             (("--own-costs", "--simulate-only"), ("--own-costs", "--simulate-only")), (("--memory", "1G", "--no-equal-memory"), ("--memory",)),
                             (("--steps", -1), ("--steps",)), (("--memory", "much"), ("--memory",)), (("--schedules", ""), ("--schedules", "empty")),
                             (("--data", "synthetic:16x784x10", "--schedules", "1f1b"), ("--data", "16 rows"))):
            with self.subTest(flags=flags):
                self.assert_one_error(bench(*MODEL, "--transport", "inproc", *flags), *parts)
        self.assert_one_error(bench("nosuch"), "nosuch")
        self.assert_one_error(run("bench"), "kerf bench", "schedules")
        self.assert_one_error(bench("--listen", "tcp://127.0.0.1:5555"), "--listen", "leave it out")


if __name__ == "__main__":
    unittest.main()
