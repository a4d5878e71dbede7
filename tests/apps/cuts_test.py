"""All cuts train the mlp to the one-worker losses within 1e-4 relative; predicted equals counted, route by route, of five models."""

import json
import os
import re
import sys
import unittest

from kerf_command import KerfTest, run

MLP = ("mlp", "--sizes", "784-50-30-10", "--data", "synthetic:640x784x10", "--batch", 64, "--micro-batches", 5, "--steps",
       50, "--lr", 0.02, "--no-test", "--transport", "inproc")
WORKERS = (2, 5)
ALL_TRANSPORTS = False  # of each model and cut


def free_shares(workers):
    """Interleaved, uneven, and one operator on a single worker."""
    fc1, fc2 = {}, {}
    for worker in range(workers):
        fc1[str(worker)] = ",".join(str(i) for i in range(worker, 50, workers))
        first = worker * worker * 30 // (workers * workers)
        last = (worker + 1) * (worker + 1) * 30 // (workers * workers) - 1
        if last >= first:
            fc2[str(worker)] = f"{first}-{last}"
    return {"kerf_shares": 1, "shares": {"fc1": fc1, "fc2": fc2, "fc3": {str(workers - 1): "all"}}}


class PredictedIsCounted(KerfTest):
    """What a plan says of a step, and what the counters of a run of three say: each route, each worker, each byte at the peak."""

    STEPS = 3
    MODELS = {"mlp": ("mlp", "--width", 0.1), "lenet5-bn": ("lenet5-bn",), "gpt": ("gpt", "--sizes", "2-32-4-16-32"),
              "lstm-lm": ("lstm-lm", "--width", 0.5),
              "resnet18": ("resnet18", "--width", 0.125, "--image-size", 32, "--classes", 10)}
    WORKERS = {"layer": 3, "feature": 3, "batch": 2, "hybrid": 4}
    TRANSPORTS = ("ipc", "shm", "tcp", "inproc")

    def check(self, model, cut, transport):
        flags = (*self.MODELS[model], "--cut", cut, "--workers", self.WORKERS[cut], "--batch", 25, "--micro-batches", 4,
                 "--transport", transport)
        planned = run("plan", *flags, "--json")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        plan = json.loads(planned.stdout)
        report = self.train(*flags, "--data", "synthetic", "--steps", self.STEPS, "--no-test")

        def by_edge(routes):
            return sorted((route["value"], route["gradient"], route["from"], route["to"], route["messages"], route["bytes"])
                          for route in routes)
        steps = [{**route, "messages": self.STEPS * route["messages"], "bytes": self.STEPS * route["bytes"]}
                 for route in plan["routes"]]
        self.assertEqual(by_edge(steps), by_edge(report["routes"]))
        for worker, counted, proved in zip(plan["workers"], report["workers"], plan["proved_bytes"], strict=True):
            for key in ("messages", "bytes_in", "bytes_out"):
                self.assertEqual(self.STEPS * worker[key], counted[key], key)
            self.assertEqual(proved, counted["peak_bytes"])
            self.assertLessEqual(proved, worker["peak_bytes"], "what the planner keeps within a cap")

    def test_of_each_model_cut_and_transport(self):
        for m, model in enumerate(self.MODELS):
            for c, cut in enumerate(self.WORKERS):
                for t, transport in enumerate(self.TRANSPORTS):
                    if not ALL_TRANSPORTS and (m + c) % len(self.TRANSPORTS) != t:
                        continue  # each model by each cut, each cut over each transport
                    with self.subTest(model=model, cut=cut, transport=transport):
                        self.check(model, cut, transport)


class SurveyCounts(KerfTest):
    """Messages of a step between L layers over F workers each, as a survey of such systems counts them, times the micro-batches."""

    LAYERS, MICRO_BATCHES, STEPS = 4, 3, 2
    SIZES = "-".join(["16"] * (LAYERS + 1))

    def counted(self, *flags):
        """What the workers' counters say of a step: the loss's and the step vector's messages, which the survey has not, are left out."""
        report = self.train("mlp", "--sizes", self.SIZES, "--data", "synthetic:64x16x16", "--batch", 24, "--micro-batches",
                            self.MICRO_BATCHES, "--steps", self.STEPS, "--no-test", "--transport", "inproc", *flags)
        self.assertTrue(report["equal"])
        def edge(route):
            return route["value"], route["gradient"], route["from"], route["to"]
        between = {edge(route) for route in report["plan"]["routes"]
                   if not (route["of_loss"] or route["of_weights"] or route["of_step"])}
        return sum(route["messages"] for route in report["routes"] if edge(route) in between) / self.STEPS

    def test_by_layer(self):
        places = self.folder / "places.txt"
        places.write_text("".join(f"fc{layer + 1} {layer}\n" for layer in range(self.LAYERS)) + f"loss {self.LAYERS - 1}\n")
        self.assertEqual(self.counted("--workers", self.LAYERS, "--place", places), (self.LAYERS - 1) * 2 * self.MICRO_BATCHES)

    def test_by_feature(self):
        for workers in (2, 3):
            self.assertEqual(self.counted("--cut", "feature", "--workers", workers, "--pairs", "off"),
                             (self.LAYERS - 1) * workers * (workers - 1) * 2 * self.MICRO_BATCHES)

    def test_hybrid(self):
        for group in (2, 3):
            self.assertEqual(self.counted("--cut", "hybrid", "--stages", self.LAYERS, "--workers", group * self.LAYERS, "--pairs", "off"),
                             (self.LAYERS - 1) * group * group * 2 * self.MICRO_BATCHES)


class Plans(KerfTest):
    def test_the_same_request_gives_the_same_text(self):
        for cut in ("layer", "feature", "batch", "hybrid", "free", "auto"):
            for model in (("lenet5-bn",), ("gpt", "--sizes", "2-32-4-12-50")):
                texts = set()
                for threads in (1, 2):  # of libraries, which must not matter
                    out = self.folder / f"{threads}.json"
                    made = run("plan", *model, "--cut", cut, "--workers", 3, "--out", out, "--json",
                               env={**os.environ, "OMP_NUM_THREADS": str(threads)})
                    self.assertEqual(made.returncode, 0, made.stderr)
                    texts.add(out.read_text())
                self.assertEqual(len(texts), 1, (cut, model))

    def test_each_proves_something(self):
        """Whichever cut, however steered: a bound that its bottleneck is not below, and what is at it."""
        given, places, devices = self.folder / "given.json", self.folder / "places.txt", self.folder / "devices.json"
        alone = json.loads(run("plan", "lenet5", "--workers", 2, "--json").stdout)
        given.write_text(json.dumps({"assignment": alone["assignment"]}))
        places.write_text("conv1 0\nfc3 1\n")
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 3}}}))
        peak = max(worker["peak_bytes"] for worker in alone["workers"])
        for asked in (*(("--cut", cut) for cut in ("layer", "feature", "batch", "hybrid", "free", "auto")),
                      ("--cut", "layer", "--memory", peak), ("--cut", "auto", "--memory", peak), ("--cut", "auto", "--slack", 4),
                      ("--cut", "auto", "--devices", devices), ("--devices", devices), ("--place", places), ("--assign", given),
                      ("--way", "conv*=batch"), ("--stages-per-worker", 2), ("--together", "conv1,conv2"), ("--slack", 0.2),
                      ("--schedule", "forward-only")):
            with self.subTest(asked=asked):
                plan = json.loads(run("plan", "lenet5", "--workers", 2, *asked, "--json").stdout)
                proved = plan["certificate"]
                self.assertGreater(proved["value"], 0)
                self.assertLessEqual(proved["value"], plan["bottleneck"])
                self.assertTrue(proved["witness"])
                self.assertEqual(proved["kind"], "exact" if plan["gap"] < 1e-9 else "bound")
                text = run("plan", "lenet5", "--workers", 2, *asked).stdout
                self.assertRegex(text, r"\nthe slowest worker: (the least there is|[0-9.]+ % above a lower bound) \(" +
                                 re.escape(proved["witness"]) + r"\)\n")


class Cuts(KerfTest):
    def setUp(self):
        super().setUp()
        self.reference = self.train(*MLP, "--workers", 1, out="reference")["losses"]
        self.assertEqual(len(self.reference), 50)

    def compare(self, *flags):
        report = self.train(*MLP, *flags)
        self.assertTrue(report["equal"])
        for step, (mine, theirs) in enumerate(zip(report["losses"], self.reference, strict=True)):
            self.assertLessEqual(abs(mine - theirs), 1e-4 * abs(theirs), f"step {step}")
        for route in report["routes"]:
            self.assertEqual(route["predicted_messages"], route["messages"])
            self.assertEqual(route["predicted_bytes"], route["bytes"])
        return report

    def test_feature(self):
        for workers in WORKERS:
            with self.subTest(workers=workers):
                self.compare("--cut", "feature", "--workers", workers)

    def test_batch(self):
        for workers in WORKERS:
            with self.subTest(workers=workers):
                report = self.compare("--cut", "batch", "--workers", workers)
                self.assertTrue(all(route["messages"] == 50 for route in report["routes"]), "once a step")

    def test_hybrid(self):
        for workers in WORKERS:
            with self.subTest(workers=workers):
                self.compare("--cut", "hybrid", "--stages", 2, "--workers", workers, "--schedule", "1f1b")

    def test_free(self):
        for workers in WORKERS:
            with self.subTest(workers=workers):
                shares = self.folder / "shares.json"
                shares.write_text(json.dumps(free_shares(workers)))
                self.compare("--cut", "free", "--shares", shares, "--workers", workers)

    def test_layer_is_exact(self):
        self.assertEqual(self.compare("--cut", "layer", "--workers", 3)["losses"], self.reference)


if __name__ == "__main__":
    if "full" in sys.argv:
        sys.argv.remove("full")
        WORKERS = (2, 3, 4, 5)
        ALL_TRANSPORTS = True
    unittest.main()
