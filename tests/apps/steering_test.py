"""People who steer: docs/howto/steer-a-cut.md is followed word by word, and what they ask for comes out."""

import json
import pathlib
import re
import shlex
import unittest

from kerf_command import KerfTest, run

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "howto" / "steer-a-cut.md"
SMALL = ("--data", "synthetic:203x784x10", "--batch", 50, "--micro-batches", 4, "--epochs", 1, "--seed", 5, "--lr", 0.05)


def page_steps():
    """Files that the page has one write, and commands, in order."""
    name, block = None, []
    for line in PAGE.read_text().splitlines() + ["end"]:
        if line.startswith("    "):
            block.append(line[4:])
            continue
        if not line.strip() and block:
            if name and not block[0].startswith("kerf "):
                yield name, "\n".join(block) + "\n"
                name = None
            else:
                yield from ((None, command) for command in block)
            block = []
        found = re.match(r"`([a-z.]+)`", line)
        name = found[1] if found else name
    assert not block


class Steering(KerfTest):
    def plan(self, *arguments):
        answer = run("plan", *arguments, "--json", cwd=self.folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    def devices(self, *speeds):
        return self.file("devices.json", {"kerf_devices": 1,
                                          "workers": {str(i): {"speed": speed} for i, speed in enumerate(speeds)}})

    def weights(self, run_folder):
        return (self.folder / run_folder / "weights.safetensors").read_bytes()

    def test_the_page_is_true(self):
        commands = 0
        for name, text in page_steps():
            with self.subTest(text):
                if name:
                    self.file(name, text)
                    continue
                words = shlex.split(text)
                self.assertEqual(words[0], "kerf")
                answer = run(*words[1:], cwd=self.folder)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                commands += 1
        self.assertGreater(commands, 12)

    def test_tensorflows_example(self):
        """seq2seq: the encoder, the decoder and the scores on a worker each; the same bits as on one."""
        flags = ("seq2seq", "--data", "synthetic", "--batch", 64, "--micro-batches", 4, "--steps", 3, "--no-test")
        alone = self.train(*flags, "--workers", 1, out="alone")
        places = self.file("places.txt", "* 2\n*encoder* 0\nsource* 0\n*decoder* 1\ntarget* 1\n")
        for schedule in ("1f1b", "gpipe"):
            placed = self.train(*flags, "--workers", 3, "--place", places, "--schedule", schedule, out="placed")
            self.assertEqual(placed["losses"], alone["losses"], "bit for bit")
            self.assertEqual(self.weights("placed"), self.weights("alone"))
            self.assertTrue(placed["equal"])
            self.assertEqual(placed["asked"]["places"][1], {"nodes": "*encoder*", "worker": 0})
        plan = self.plan("seq2seq", "--workers", 3, "--place", places)
        where = {node: stage["workers"] for stage in plan["stages"] for node in stage["nodes"]}
        for node, workers in where.items():
            expected = 0 if "encoder" in node or "source" in node else 1 if "decoder" in node or "target" in node else 2
            self.assertEqual(workers, [expected], node)

    def test_a_worker_of_several_stages_has_the_same_bits(self):
        alone = self.train("lenet5", *SMALL, "--workers", 1, out="alone")
        places = self.file("places.txt", "conv1 0\nconv2 1\nfc1 0\nfc3 1\n")
        for more in (("--place", places), ("--stages-per-worker", 2), ("--stages-per-worker", 3, "--schedule", "gpipe"),
                     ("--apart", "conv1,fc1"), ("--together", "conv1,conv2"), ("--devices", self.devices(1, 3))):
            with self.subTest(more):
                report = self.train("lenet5", *SMALL, "--workers", 2, *more, out="steered")
                self.assertEqual(report["losses"], alone["losses"], "bit for bit")
                self.assertEqual(self.weights("steered"), self.weights("alone"))
                self.assertTrue(report["equal"])

    def test_ways_and_patterns_train_as_the_whole_does(self):
        for model in ("lenet5", "lenet5-bn"):
            alone = self.train(model, *SMALL, "--workers", 1, out="alone")
            for more in (("--way", "conv*=batch", "--way", "fc*=feature"), ("--cut", "batch", "--way", "fc*=feature"),
                         ("--cut", "feature", "--way", "conv1=whole:1"), ("--cut", "free", "--pattern", "block-cyclic:2"),
                         ("--cut", "free", "--devices", self.devices(1, 3))):
                with self.subTest(more, model=model):
                    report = self.train(model, *SMALL, "--workers", 2, *more, out="steered")
                    self.assertTrue(report["equal"])
                    for mine, theirs in zip(report["losses"], alone["losses"], strict=True):
                        self.assertAlmostEqual(mine, theirs, delta=1e-5 * theirs)

    def test_unequal_devices_share_the_work_by_their_speed(self):
        whole = self.plan("mlp", "--workers", 1)["workers"][0]["forward_flops"]
        for more in (("--objective", "forward-flops"), ("--pattern", "proportional")):
            plan = self.plan("mlp", "--cut", "free", "--devices", self.devices(1, 2, 4), *more)
            self.assertEqual([d["speed"] for d in plan["asked"]["devices"]["workers"].values()], [1, 2, 4])
            slowest = max(w["forward_flops"] / speed for w, speed in zip(plan["workers"], (1, 2, 4), strict=True))
            self.assertLessEqual(slowest, 1.02 * whole / 7)
        # The same request gives the same plan, and a plan that was read predicts the same.
        texts = []
        for out in ("a.json", "b.json"):
            self.plan("mlp", "--devices", "devices.json", "--out", out)
            texts.append((self.folder / out).read_text())
        self.assertEqual(texts[0], texts[1])
        step = self.plan("mlp", "--devices", "devices.json")["step_seconds"]
        compared = run("compare", "a.json", "--json", cwd=self.folder)
        self.assertEqual(json.loads(compared.stdout)["plans"][0]["step_seconds"], step)

    def test_flags_that_take_more_than_a_device_has_are_refused(self):
        plan = self.folder / "plan.json"
        peak = self.plan("mlp", "--workers", 2, "--slots", 1)["workers"][1]["peak_bytes"]
        self.file("devices.json", {"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 1, "memory": peak}}})
        self.plan("mlp", "--devices", "devices.json", "--slots", 1, "--out", plan)
        answer = run("train", "--plan", plan, "--optimizer", "adam", "--data", "synthetic:64x784x10")
        self.assert_one_error(answer, "worker 1", f"its device has {peak}", code=answer.returncode)
        self.assertNotEqual(answer.returncode, 0)
        answer = run("plan", "mlp", "--workers", 2, "--devices", self.file("devices.json", {
            "kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 1, "memory": 100}}}))
        self.assert_one_error(answer, "worker 1's device", code=answer.returncode)

    def test_bad_files_are_named(self):
        for text, *parts in (("{", "devices.json:1"), ({"workers": {}}, "kerf_devices"),
                             ({"kerf_devices": 1, "workers": {"0": {"speed": 0}, "1": {"speed": 1}}}, "worker 0", '"speed"'),
                             ({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": -2}}}, "worker 1", '"speed"'),
                             ('{"kerf_devices": 1, "workers": {"0": {"speed": NaN}}}', "devices.json:1"),
                             ({"kerf_devices": 1, "workers": {"0": {"speed": 1}}}, "worker 1 is not listed"),
                             ({"kerf_devices": 1, "workers": {str(i): {"speed": 1} for i in range(3)}}, "no worker 2")):
            with self.subTest(text):
                answer = run("plan", "mlp", "--workers", 2, "--devices", self.file("devices.json", text))
                self.assert_one_error(answer, "devices.json", *parts)
        for text, *parts in (("conv1", "places.txt:1"), ("# none\n\nconv1 zero", "places.txt:3", "zero"), ("", "places.txt"),
                             ("cnv1 0", "--place", "conv1"), ("conv1 2", "--place", "0 to 1")):
            with self.subTest(text):
                answer = run("plan", "lenet5", "--workers", 2, "--place", self.file("places.txt", text))
                self.assert_one_error(answer, *parts)
        self.assert_one_error(run("plan", "mlp", "--devices", self.folder / "none.json"), "none.json")

    def test_what_does_not_go_together_is_refused(self):
        places = self.file("places.txt", "fc1 0\n")
        shares = self.file("shares.json", {"kerf_shares": 1, "shares": {}})
        for flags, *parts in ((("--pattern", "even"), "--pattern", "--cut free"),
                              (("--cut", "free", "--pattern", "even", "--shares", shares), "--pattern", "--shares"),
                              (("--cut", "free", "--pattern", "even", "--way", "fc1=batch"), "--pattern", "--way"),
                              (("--cut", "free", "--pattern", "proportional"), "--pattern", "--devices"),
                              (("--cut", "free", "--pattern", "evn"), "--pattern", "block-cyclic"),
                              (("--cut", "layer", "--way", "fc1=batch"), "--way", "--cut layer"),
                              (("--cut", "auto", "--way", "fc1=batch"), "--way", "--cut auto"),
                              (("--way", "fc1=diagonal"), "--way", "batch, feature"),
                              (("--way", "fx1=batch"), "--way", "fc1"),
                              (("--cut", "feature", "--place", places), "--place", "--cut layer"),
                              (("--cut", "free", "--together", "fc1,fc2", "--pattern", "even"), "--together"),
                              (("--cut", "auto", "--apart", "fc1,fc2"), "--apart"),
                              (("--apart", "fc1"), "--apart", "fc1"),
                              (("--apart", "fc1,fc2,fc3"), "--apart"),
                              (("--place", places, "--stages-per-worker", 2), "--stages-per-worker", "--place"),
                              (("--stages-per-worker", 0), "--stages-per-worker")):
            with self.subTest(flags):
                answer = run("plan", "mlp", "--workers", 2, *flags)
                self.assertIn(answer.returncode, (2, 3), answer.stderr)
                self.assert_one_error(answer, *parts, code=answer.returncode)
        plan = self.folder / "plan.json"
        self.plan("mlp", "--workers", 2, "--out", plan)
        self.assert_one_error(run("train", "--plan", plan, "--apart", "fc1,fc2"), "--apart", "made already")


if __name__ == "__main__":
    unittest.main()
