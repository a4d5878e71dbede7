"""A free cut may divide what an operator needs whole where a rewrite divides it: cross-entropy by classes, batch
normalisation by samples, recurrences by hidden units. The losses, weights and running statistics are those of one
worker, predicted equals counted, and a plan's file rebuilds the same run."""

import array
import json
import unittest

from kerf_command import KerfTest, read_safetensors, run

MLP = ("mlp", "--sizes", "64-24-10", "--data", "synthetic:256x64x10", "--batch", 30, "--micro-batches", 3, "--steps", 12)
NORMALIZED = ("lenet5-bn", "--data", "synthetic:64x784x10", "--batch", 16, "--micro-batches", 2, "--steps", 6, "--no-shuffle")
# Scores never leave the worker that made them.
CLASSES = {"fc2": {"0": "0-3", "1": "4-6", "2": "7-9"},
           "loss": {"0": {"classes": "0-3"}, "1": {"classes": "4-6"}, "2": {"classes": "7-9"}}}


def by_samples(sets, nodes=("conv1", "pool1", "conv2", "pool2", "flatten", "fc1", "fc2", "fc3", "loss")):
    return {node: {str(worker): {"samples": samples} for worker, samples in enumerate(sets)} for node in nodes}


def floats(contents):
    values = array.array("f")
    values.frombytes(contents)
    return values


class Rewrites(KerfTest):
    def shares(self, shares):
        path = self.folder / "shares.json"
        path.write_text(json.dumps({"kerf_shares": 1, "shares": shares}))
        return path

    def assert_counted(self, report):
        self.assertTrue(report["equal"])
        self.assertGreater(len(report["routes"]), 0)
        for route in report["routes"]:
            self.assertEqual(route["predicted_messages"], route["messages"], route)
            self.assertEqual(route["predicted_bytes"], route["bytes"], route)
        for worker in report["workers"]:
            self.assertEqual(worker["proved_bytes"], worker["peak_bytes"])

    def assert_same_training(self, mine, theirs, tolerance):
        self.assertEqual(len(mine["losses"]), len(theirs["losses"]))
        for step, (a, b) in enumerate(zip(mine["losses"], theirs["losses"], strict=True)):
            self.assertLessEqual(abs(a - b), tolerance * abs(b), f"step {step}")

    def assert_same_weights(self, mine, theirs, tolerance):
        mine = read_safetensors(self.folder / mine / "weights.safetensors")
        theirs = read_safetensors(self.folder / theirs / "weights.safetensors")
        self.assertEqual(mine.keys(), theirs.keys())
        for name, (shape, contents) in theirs.items():
            self.assertEqual(mine[name][0], shape)
            expected = floats(contents)
            scale = max(map(abs, expected))
            for a, b in zip(floats(mine[name][1]), expected, strict=True):
                self.assertLessEqual(abs(a - b), tolerance * scale, name)

    def test_vocabulary(self):
        alone = self.train(*MLP, "--workers", 1, out="alone")
        report = self.train(*MLP, "--cut", "free", "--shares", self.shares(CLASSES), "--workers", 3, out="split")
        self.assert_counted(report)
        self.assert_same_training(report, alone, 1e-5)
        self.assert_same_weights("split", "alone", 1e-4)
        self.assertEqual(report["evaluations"][-1]["correct"], alone["evaluations"][-1]["correct"])
        self.assertNotIn("fc2.output", {route["value"] for route in report["routes"]})

    def test_plan_file_rebuilds_the_run(self):
        made = self.train(*MLP, "--cut", "free", "--shares", self.shares(CLASSES), "--workers", 3, out="made")
        plan = json.loads((self.folder / "made" / "plan.json").read_text())
        self.assertEqual(plan["rewrites"], [{"rewrite": "split-cross-entropy", "node": "loss", "numbers": [0, 4, 7, 10]}])
        again = self.train("--plan", self.folder / "made", *MLP[3:5], "--steps", 12, out="again")
        self.assertEqual(again["losses"], made["losses"])
        plan["rewrites"][0]["numbers"] = [0, 5, 10]
        del plan["checksum"]
        bad = self.folder / "bad.json"
        bad.write_text(json.dumps(plan))
        self.assert_one_error(run("train", "--plan", bad, *MLP[3:5]), "bad.json", "another model")
        plan["rewrites"][0]["rewrite"] = "unroll"
        bad.write_text(json.dumps(plan))
        self.assert_one_error(run("train", "--plan", bad, *MLP[3:5]), "bad.json", 'no rewrite "unroll"')

    def test_batch_normalisation_of_a_divided_batch(self):
        alone = self.train(*NORMALIZED, "--workers", 1, out="alone")
        for sets in (("0-4", "5-7"), ("0", "1-3,7", "4-6")):
            with self.subTest(sets=sets):
                report = self.train(*NORMALIZED, "--cut", "free", "--shares", self.shares(by_samples(sets)), "--workers",
                                    len(sets), out="divided")
                self.assert_counted(report)
                self.assert_same_training(report, alone, 1e-4)
                self.assert_same_weights("divided", "alone", 1e-3)
                self.assertEqual(report["evaluations"][-1]["correct"], alone["evaluations"][-1]["correct"])
                names = read_safetensors(self.folder / "divided" / "weights.safetensors")
                self.assertIn("bn1.running_var", names)

    def test_hidden_units(self):
        """Both layers of an encoder and a decoder, whose first states are the encoder's last."""
        halves = {"0": {"hidden units": "0-6"}, "2": {"hidden units": "7-9,11"}, "1": {"hidden units": "10"}}
        nodes = {f"{module}.l{layer}": halves for module in ("encoder", "decoder") for layer in (0, 1)}
        model = ("seq2seq", "--sizes", "4-3-8-6-12-2", "--data", "pairs:96x4x3x8", "--batch", 12, "--micro-batches", 2, "--steps", 8)
        alone = self.train(*model, "--workers", 1, out="alone")
        report = self.train(*model, "--cut", "free", "--shares", self.shares(nodes), "--workers", 3, out="divided")
        self.assert_counted(report)
        self.assert_same_training(report, alone, 1e-5)
        self.assert_same_weights("divided", "alone", 1e-4)
        self.assertEqual(report["evaluations"][-1]["correct"], alone["evaluations"][-1]["correct"])
        again = self.train("--plan", self.folder / "divided", *model[3:5], "--steps", 8, out="again")
        self.assertEqual(again["losses"], report["losses"])

    def test_refusal_names_axis_and_way_out(self):
        shares = self.shares({"flatten": {"0": "all"}, "bn1": {"0": {"channels": "0-2", "sample": "0"}}})
        self.assert_one_error(run("plan", "lenet5-bn", "--cut", "free", "--shares", shares, "--workers", 2),
                              "shares.json", "node bn1", 'no axis "sample"', "samples, channels")


if __name__ == "__main__":
    unittest.main()
