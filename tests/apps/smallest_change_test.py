"""A request that no plan fits names the stage, the cap, the bytes over, and what to change: each change that it offers fits, and a
memory of one byte less does not."""

import json
import re
import sys
import unittest

from kerf_command import NAME, KerfTest, run

FULL = "full" in sys.argv
CUTS = ("layer", "feature", "batch", "hybrid", "free", "auto")
REQUEST = ("--batch", 24, "--micro-batches", 3)
MODELS = [("mlp", "--sizes", "256-256-256-10"), ("lenet5-bn",), ("gpt", "--sizes", "2-32-4-12-50"), ("lstm-lm", "--sizes", "8-50-16-16")]
IMAGES = ("--width", 0.125, "--classes", 20, "--image-size")
if FULL:
    MODELS += [("seq2seq", "--sizes", "6-6-40-12-12-2"), ("vit", "--sizes", "2-32-4-8", *IMAGES, 32), ("resnet18", *IMAGES, 32),
               ("shufflenet", *IMAGES, 32), ("inception-v1", *IMAGES, 64), ("bvlc-alexnet", *IMAGES, 67), ("squeezenet", *IMAGES, 64)]
LACKS = re.escape(NAME) + r": error: no plan fits: stage (?P<stage>\d+) needs (?:[\d.]+ [KMGT]iB \()?(?P<over>\d+) bytes?\)? more than the "
REFUSAL = re.compile(LACKS + r"memory cap of (?P<cap>\d+) bytes per worker; "
                     r"the smallest change that fits is (?P<change>--[a-z-]+ \d+)(?:, or (?P<memory>--memory \d+))?\n")
OF_DEVICE = re.compile(LACKS + r"(?P<cap>\d+) bytes that worker (?P<worker>\d+)'s device has; "
                       r"the smallest change that fits is (?P<change>--micro-batches \d+|(?:a device|devices) (?P<devices>of worker .*))\n")
NEED = re.compile(r"of worker (\d+) with (\d+) bytes")


class SmallestChange(KerfTest):
    def refusal(self, *asked):
        """Nothing where a plan fits; else stage, bytes over, cap, and what to change."""
        answer = run("plan", *asked, "--json", timeout=120)
        if answer.returncode == 0:
            return None
        self.assertEqual(answer.returncode, 2, answer.stderr)
        found = REFUSAL.fullmatch(answer.stderr)
        self.assertTrue(found, answer.stderr)
        changes = [found[name] for name in ("change", "memory") if found[name]]
        return int(found["stage"]), int(found["over"]), int(found["cap"]), changes

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

    def test_of_plans_with_replicas(self):
        """What they take between them."""
        offered = set()
        for asked in (("lenet5", "--workers", 2), ("gpt", "--sizes", "2-32-4-12-50", "--workers", 4, "--batch", 24),
                      ("lenet5", "--cut", "hybrid", "--stages", 2, "--workers", 4)):
            for schedule in ("chimera", "dualpipe"):
                peak = max(json.loads(run("plan", *asked, "--schedule", schedule, "--json").stdout)["proved_bytes"])
                for percent in (90, 27):
                    with self.subTest(asked=asked, schedule=schedule, percent=percent):
                        offered |= self.check((*asked, "--schedule", schedule), peak * percent // 100)
        self.assertEqual(offered, {"--memory", "--micro-batches"})

    def test_of_replicas_what_is_no_matter_of_memory_is_told_at_once(self):
        answer = run("plan", "lenet5-bn", "--workers", 2, "--schedule", "chimera", "--memory", 1000)
        self.assertIn("keeps running statistics of all micro-batches", answer.stderr)

    def refusal_of_devices(self, *asked, memory):
        """Nothing where a plan fits; else what was told."""
        devices = {str(worker): {"speed": 1, "memory": bytes} for worker, bytes in enumerate(memory)}
        file = self.folder / "devices.json"
        file.write_text(json.dumps({"kerf_devices": 1, "workers": devices}))
        answer = run("plan", *asked, "--devices", file, "--json")
        if answer.returncode == 0:
            return None
        found = OF_DEVICE.fullmatch(answer.stderr)
        self.assertTrue(found, answer.stderr)
        return found

    def check_devices(self, asked, memory):
        told = self.refusal_of_devices(*asked, memory=memory)
        if told is None:
            return "nothing"
        self.assertEqual(int(told["cap"]), memory[int(told["worker"])])
        if told["devices"] is None:
            self.assertIsNone(self.refusal_of_devices(*asked, *told["change"].split(), memory=memory), told["change"])
            return "micro-batches"
        needs = [(int(worker), int(bytes)) for worker, bytes in NEED.findall(told["devices"])]
        self.assertEqual(needs[0], (int(told["worker"]), int(told["cap"]) + int(told["over"])))
        enough = list(memory)
        for worker, bytes in needs:
            self.assertGreater(bytes, enough[worker] + 1, "it has next to as much")
            enough[worker] = bytes
        self.assertIsNone(self.refusal_of_devices(*asked, memory=enough), told["change"])
        for worker, _ in needs if "dualpipe" not in asked else ():  # whose replicas are searched for in steps
            less = [bytes - (each == worker) for each, bytes in enumerate(enough)]
            self.assertIsNotNone(self.refusal_of_devices(*asked, memory=less), f"one byte less for worker {worker} would do")
        return f"{len(needs)} devices"

    def test_of_devices_that_have_too_little(self):
        told = set()
        shared = ("mlp", "--batch", 64, "--stages-per-worker", 2, "--schedule", "looped-bfs")
        alone = ("lenet5", "--schedule", "1f1b")
        both_ways = ("lenet5", "--schedule", "dualpipe")
        for asked, memory in ((shared, (3390912, 1079923)), (shared, (8477280, 1079923)), (shared, (180000, 180000)),
                              (alone, (1000, 1000)), (alone, (5695872, 100000)), (both_ways, (300000, 900000)),
                              (both_ways, (5695872, 100000)), (both_ways, (1000, 1000)), (both_ways, (3800000, 3800000))):
            with self.subTest(asked=asked, memory=memory):
                told.add(self.check_devices(asked, memory))
        self.assertEqual(told, {"nothing", "micro-batches", "1 devices", "2 devices"})


if __name__ == "__main__":
    unittest.main(argv=[each for each in sys.argv if each != "full"])
