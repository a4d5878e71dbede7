"""Prediction beside measurement: the trace of a run, its report as a page, and the costs that it saves."""

import collections
import html.parser
import json
import os
import statistics
import unittest

from kerf_command import KerfTest, run

SYNTHETIC = ("--data", "synthetic:512x784x10")
ACTIONS, OPERATORS, MESSAGES, WAITS, PREDICTED = range(5)
# What is not written as <tag>...</tag>.
VOID = {"meta", "rect", "path", "polyline"}


def ns(microseconds):
    return round(microseconds * 1000)


class Trace:
    """A trace file: slices by worker, row and step in order of time; arrows by id; counters by worker and name."""

    def __init__(self, path):
        events = json.loads(path.read_text())["traceEvents"]
        self.slices = collections.defaultdict(list)
        self.rows = collections.defaultdict(list)
        self.arrows = collections.defaultdict(list)
        self.counters = collections.defaultdict(list)
        self.names = {}
        for event in events:
            if event["ph"] == "X":
                begin = ns(event["ts"])
                entry = (begin, begin + ns(event["dur"]), event["name"])
                self.slices[event["pid"], event["tid"], event["args"]["step"]].append(entry)
                self.rows[event["pid"], event["tid"]].append(entry)
            elif event["ph"] in "sf":
                self.arrows[event["id"]].append(event)
            elif event["ph"] == "C":
                self.counters[event["pid"], event["name"]].append((ns(event["ts"]), event["args"]["bytes"]))
            elif event["name"] == "thread_name":
                self.names[event["pid"], event["tid"]] = event["args"]["name"]

    def steps(self):
        return sorted({step for _, tid, step in self.slices if tid == ACTIONS})


class Page(html.parser.HTMLParser):
    """A page's tags, which must be closed as they were opened, its texts and its tables."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts, self.tables = [], collections.Counter(), [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1].append(data)

    def table(self, first):
        """The rows of the table whose header begins so, without the header."""
        return next(table[1:] for table in self.tables if table[0] and table[0][0] == first)


class Timelines(KerfTest):
    # Model, flags, and whether every worker has one stage, so that its lane is its row to the letter.
    RUNS = (("lenet5", ("--workers", 3, "--micro-batches", 6, "--schedule", "1f1b"), True),
            ("mlp", ("--sizes", "784-64-48-32-10", "--workers", 4, "--cut", "hybrid", "--stages", 2, "--micro-batches", 4,
                     "--transport", "inproc"), True),
            ("lenet5", ("--workers", 2, "--micro-batches", 4, "--schedule", "zb-h1", "--transport", "inproc"), True),
            ("mlp", ("--sizes", "784-64-48-32-10", "--workers", 2, "--stages-per-worker", 2, "--micro-batches", 4, "--schedule",
                     "zbv", "--transport", "inproc"), False))

    def setUp(self):
        super().setUp()
        self.out = self.folder / "run"

    def traced(self, model, *flags):
        """Trains briefly; the report, the trace, and what kerf schedule says of the plan that ran."""
        report = self.train(model, *SYNTHETIC, "--batch", 64, "--steps", 5, "--no-test", *flags)
        answer = run("schedule", "--plan", self.out, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return report, Trace(self.out / "trace.json"), json.loads(answer.stdout)

    def check_lanes(self, trace, schedule, step, single):
        for (worker, tid), row in trace.rows.items():
            if tid in (ACTIONS, PREDICTED):
                for before, after in zip(row, row[1:]):
                    self.assertLessEqual(before[1], after[0], (worker, tid, before, after))
        self.assertEqual({of for _, tid, of in trace.slices if tid == PREDICTED}, {step})
        for worker, row in enumerate(schedule["rows"]):
            for tid, steps in ((ACTIONS, trace.steps()), (PREDICTED, [step])):
                for each in steps:
                    lane = [name for _, _, name in trace.slices[worker, tid, each]]
                    if single:
                        self.assertEqual(lane, row)
                    else:
                        self.assertEqual([name for name in lane if name[-1] != "U"], [name for name in row if name[-1] != "U"])
                        self.assertEqual({name for name in lane if name[-1] == "U"}, {name for name in row if name[-1] == "U"})
            self.assertEqual(trace.names[worker, PREDICTED], "actions, predicted")

    def check_arrows(self, trace, report):
        ends = collections.Counter()
        for each in trace.arrows.values():
            self.assertEqual(sorted(end["ph"] for end in each), ["f", "s"])
            for end in each:
                at = ns(end["ts"])
                self.assertTrue(any(begin <= at <= stop for begin, stop, _ in trace.rows[end["pid"], end["tid"]]), end)
            send, receive = sorted(each, key=lambda end: end["ph"], reverse=True)
            self.assertEqual(send["tid"], receive["tid"])
            ends[send["tid"]] += 1
            if send["tid"] == PREDICTED:
                self.assertLessEqual(send["ts"], receive["ts"])
        messages = sum(route["messages"] for route in report["plan"]["routes"])
        self.assertEqual(ends, {PREDICTED: messages, ACTIONS: messages * len(trace.steps())})

    def check_memory(self, trace, schedule):
        held = 0
        for worker, peak in enumerate(schedule["peak_bytes"]):
            most = {}
            for name in ("memory", "memory, predicted"):
                samples = trace.counters[worker, name]
                most[name] = max(count for _, count in samples)
                self.assertGreater(min(count for _, count in samples), 0)
                self.assertLessEqual(most[name], peak)
                self.assertEqual(samples[-1][1], samples[0][1], "the step left something behind")
            self.assertEqual(*most.values())
            held += most["memory"] - samples[0][1]
        self.assertGreater(held, 0, "nothing is held while a micro-batch is under way")

    def test_a_trace_has_both_lanes_arrows_and_memory(self):
        for model, flags, single in self.RUNS:
            with self.subTest(model=model, flags=flags):
                report, trace, schedule = self.traced(model, *flags)
                self.assertEqual(trace.steps(), list(range(5)))
                step = report["traced"]["step"]
                self.assertIn(step, range(1, 5))
                self.check_lanes(trace, schedule, step, single)
                workers = range(len(schedule["rows"]))
                first = min(trace.slices[worker, ACTIONS, step][0][0] for worker in workers)
                self.assertEqual(min(trace.slices[worker, PREDICTED, step][0][0] for worker in workers), first)
                self.check_arrows(trace, report)
                self.check_memory(trace, schedule)

    def test_an_action_begins_with_its_work(self):
        """Of the worker in the middle, which reads no rows: all of its work is in the trace."""
        _, trace, _ = self.traced("lenet5", *self.RUNS[0][1])
        work = [begin for tid in (OPERATORS, MESSAGES) for begin, _, _ in trace.rows[1, tid]]
        waits = trace.rows[1, WAITS]
        self.assertGreater(len(waits), 0)
        for begin, end, name in trace.rows[1, ACTIONS]:
            if name[-1] != "U":
                first = min(each for each in work if begin <= each <= end)
                self.assertFalse([wait for wait in waits if begin <= wait[0] < first], f"{name} waits before it works")

    def test_the_record_says_what_the_trace_shows(self):
        report, trace, _ = self.traced("lenet5", *self.RUNS[0][1])
        traced = report["traced"]
        first = min(trace.slices[worker, ACTIONS, traced["step"]][0][0] for worker in range(3))
        for worker in traced["workers"]:
            number = worker["worker"]
            for tid, which in ((ACTIONS, "measured"), (PREDICTED, "predicted")):
                slices = trace.slices[number, tid, traced["step"]]
                self.assertEqual([name for _, _, name in slices], [each["action"] for each in worker["actions"]])
                for (begin, end, _), each in zip(slices, worker["actions"]):
                    self.assertAlmostEqual((begin - first) * 1e-9, each[which]["begin"], delta=2e-9)
                    self.assertAlmostEqual((end - first) * 1e-9, each[which]["end"], delta=2e-9)
                # Busy, idle, and nothing else.
                busy = sum(each[which]["busy"] for each in worker["actions"] if each["priced"])
                self.assertAlmostEqual(busy + worker[f"{which}_idle"]["total"], traced[f"{which}_seconds"], places=9)
        missed = traced["missed"]
        self.assertEqual(len(missed), 10)
        far = [abs(each["measured_seconds"] - each["predicted_seconds"]) for each in missed]
        self.assertEqual(far, sorted(far, reverse=True))
        every = [abs(each["measured"]["busy"] - each["predicted"]["busy"]) for worker in traced["workers"]
                 for each in worker["actions"] if each["priced"]]
        self.assertEqual(far, sorted(every, reverse=True)[:10])

    def test_the_page_stands_by_itself_and_has_the_same_figures(self):
        report, _, _ = self.traced("lenet5", *self.RUNS[0][1])
        page_file = self.out / "report.html"
        by_train = page_file.read_text()
        page_file.unlink()
        answer = run("report", self.out, "--json")
        self.assertEqual((answer.returncode, json.loads(answer.stdout)), (0, report))
        self.assertEqual(page_file.read_text(), by_train)
        page = Page(by_train)
        self.assertNotIn("script", page.tags)
        self.assertFalse({"src", "href", "onload"} & {name for name, _ in page.attributes})
        self.assertEqual(by_train.replace("http://www.w3.org/2000/svg", "").count("://"), 0)
        self.assertIn("prefers-color-scheme: dark", by_train)
        self.assertGreaterEqual(page.tags["svg"], 3)
        actions = sum(len(worker["actions"]) for worker in report["traced"]["workers"])
        self.assertGreaterEqual(page.tags["rect"], 2 * actions)
        missed = page.table("action")
        self.assertEqual([(row[0], int(row[1])) for row in missed],
                         [(each["action"], each["worker"]) for each in report["traced"]["missed"]])
        self.assertEqual([row[4] for row in missed], [f"{each['ratio']:.2f}" for each in report["traced"]["missed"]])
        bubbles = [row for row in page.tables if "for messages" in row[0]][0][1:]
        self.assertEqual([(row[0], row[1]) for row in bubbles],
                         [(str(worker), which) for worker in range(3) for which in ("predicted", "measured")])
        for row, worker in zip(bubbles[1::2], report["traced"]["workers"]):
            share = worker["measured_idle"]["total"] / report["traced"]["measured_seconds"]
            self.assertEqual(row[2], f"{share * 100:.1f} %")
        text = " ".join(page.texts)
        for part in ("rows/s", "equal", f"{report['counted']['bytes']:,} counted", "Loss", "The cut", "stage 1:"):
            self.assertIn(part, text)

    def test_names_of_strangers_are_text(self):
        report, _, _ = self.traced("lenet5", *self.RUNS[0][1])
        evil = "<script>alert(1)</script>\"'&\x00"
        report["plan"]["model"] = report["data"] = evil
        del report["model"]
        report["plan"]["stages"][0]["nodes"][0] = evil
        report["traced"]["workers"][0]["actions"][0]["action"] = evil
        del report["traced"]["missed"]
        report["workers"][0]["device"] = report["optimizer"] = evil
        report["skipped"] = [{"step": 0, "cause": evil}]
        (self.out / "run.json").write_text(json.dumps(report))
        self.assertEqual(run("report", self.out).returncode, 0)
        page = Page((self.out / "report.html").read_text())
        self.assertNotIn("script", page.tags)
        self.assertIn("<script>alert(1)</script>", " ".join(page.texts))

    def test_a_run_without_a_trace_says_how_to_get_one(self):
        report = self.train("mlp", *SYNTHETIC, "--workers", 2, "--steps", 2, "--no-test", "--transport", "inproc", "--trace-steps", 0)
        self.assertIsNone(report["traced"])
        self.assertIn("--trace-steps", report["untraced"])
        for change in ({}, {"untraced": None}, {"traced": 0, "untraced": 0}):
            kept = {key: value for key, value in report.items() if key not in change}
            (self.out / "run.json").write_text(json.dumps(kept))
            self.assertEqual(run("report", self.out).returncode, 0)
            self.assertIn("--trace-steps", (self.out / "report.html").read_text())

    def test_a_page_goes_where_it_is_asked_to(self):
        self.traced("lenet5", *self.RUNS[0][1])
        page = self.out / "report.html"
        page.unlink()
        self.assertEqual(run("report", self.out, "--page", self.folder / "p.html").returncode, 0)
        self.assertTrue((self.folder / "p.html").is_file() and not page.exists())
        self.assertEqual(run("report", self.out, "--plan").returncode, 0)
        self.assertFalse(page.exists())
        self.assert_one_error(run("report", self.out, "--page", self.folder / "no" / "p.html"), "p.html")
        self.assert_one_error(run("report", self.out, "--page", page, "--plan"), "--page")
        page.mkdir()  # nothing can be written there
        answer = run("report", self.out)
        self.assertEqual(answer.returncode, 0)
        self.assertIn("kerf: note: no page was written", answer.stderr)

    def test_broken_records_are_refused(self):
        report, _, _ = self.traced("lenet5", *self.RUNS[0][1])
        text = json.dumps(report)

        def refused(change, *parts):
            broken = json.loads(text)
            del broken["traced"]["missed"]  # which follows
            change(broken["traced"])
            (self.out / "run.json").write_text(json.dumps(broken))
            self.assert_one_error(run("report", self.out), "run.json: traced", *parts)

        refused(lambda t: t["workers"].pop(), "workers")
        refused(lambda t: t["workers"].reverse(), "workers[0]", "out of order")
        refused(lambda t: t["workers"][1]["actions"][2]["measured"].update(begin=9e9), "workers[1].actions[2].measured")
        refused(lambda t: t["workers"][1]["actions"][2]["predicted"].update(begin=-1), "workers[1].actions[2].predicted")
        refused(lambda t: t["workers"][0]["actions"][0].update(action=7), "workers[0].actions[0].action", "text")
        refused(lambda t: t.update(missed=report["traced"]["missed"][1:]), "missed")
        refused(lambda t: t.pop("workers"), "workers")
        refused(lambda t: t["workers"][2]["measured_idle"].update(fill=1e300, total=1e300), "measured_idle")
        refused(lambda t: t.update(colour="red"), "colour")
        (self.out / "run.json").write_text(text)
        self.assertEqual(run("report", self.out).returncode, 0)


class Costs(KerfTest):
    def measured(self, trace, workers, steps):
        """(stage, kind) -> busy seconds of each action of these steps, out of the trace alone."""
        seconds = collections.defaultdict(list)
        for worker in range(workers):
            for step in steps:
                waits = trace.slices.get((worker, WAITS, step), [])
                for begin, end, name in trace.slices[worker, ACTIONS, step]:
                    if name[-1] == "U":
                        continue
                    waited = sum(max(0, min(end, w[1]) - max(begin, w[0])) for w in waits)
                    seconds[int(name[0]), name[1]].append((end - begin - waited) * 1e-9)
        return seconds

    def test_costs_of_a_run_are_kept_and_used(self):
        costs = self.folder / "costs.json"
        for schedule in ("1f1b", "zb-h1"):
            with self.subTest(schedule=schedule):
                self.train("lenet5", *SYNTHETIC, "--batch", 64, "--micro-batches", 4, "--steps", 6, "--no-test", "--workers", 3,
                           "--schedule", schedule, "--save-costs", costs)
                saved = json.loads(costs.read_text())
                seconds = self.measured(Trace(self.folder / "run" / "trace.json"), 3, range(1, 6))
                self.assertEqual(len(saved["stages"]), 3)
                for stage, each in enumerate(saved["stages"]):
                    self.assertAlmostEqual(each["F"], statistics.median_high(seconds[stage, "F"]), delta=1e-8)
                    if schedule == "zb-h1":
                        for kind in "IW":
                            self.assertAlmostEqual(each[kind], max(1e-6, statistics.median_high(seconds[stage, kind])), delta=1e-8)
                    else:
                        both = sorted(seconds[stage, "B"])
                        self.assertGreater(each["I"] + each["W"], both[0])
                        self.assertLess(each["I"] + each["W"], both[-1])
                    self.assertGreater(each["U"], 0)
                self.assertGreater(saved["COMM"], 0)
                planned = self.folder / "planned.json"
                run("plan", "lenet5", "--batch", 64, "--micro-batches", 4, "--workers", 3, "--schedule", schedule,
                    "--stage-costs", planned)
                for measured, priced in zip(saved["stages"], json.loads(planned.read_text())["stages"]):
                    for key in ("F_bytes", "I_bytes", "kept_bytes"):
                        self.assertEqual(measured.get(key), priced.get(key), key)
                answer = run("schedule", schedule, "--workers", 3, "--micro-batches", 4, "--costs", costs, "--json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                told = json.loads(answer.stdout)
                work = [4 * sum(each[kind] for kind in "FIW") for each in saved["stages"]]
                self.assertGreaterEqual(told["makespan"] * (1 + 1e-12), max(work))
                self.assertAlmostEqual(told["bubble_step"], 1 - sum(work) / 3 / told["makespan"], places=9)

    def test_costs_that_cannot_be_measured_are_refused_before_the_run(self):
        common = ("train", "mlp", *SYNTHETIC, "--out", self.folder / "run", "--save-costs")
        self.assert_one_error(run(*common, self.folder / "c.json", "--trace-steps", 0), "--save-costs", "trace")
        self.assert_one_error(run(*common, self.folder / "c.json", "--steps", 0), "--save-costs")
        self.assert_one_error(run(*common, self.folder / "no" / "c.json"), "--save-costs", "no folder")
        self.assert_one_error(run(*common, self.folder / "c.json", "--batch", 1024), "--save-costs", "rows")
        self.assertFalse((self.folder / "run").exists())
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
