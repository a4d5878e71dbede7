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
                             ("cnv1 0", "--place", "conv1"), ("conv1 2", "--place", "0 to 1"), ("conv1 -0", 'places.txt:1: "-0" is no number of a worker'),
                             ("c" * 5000 + " 0", 'places.txt:1: no operator of lenet5 fits "ccc..ccc'), ("c*" + "*" * 5000 + " 2", '"c**..***'),
                             ("conv1 " + "0" * 5000, 'places.txt:1: "000..000')):
            with self.subTest(text[:20]):
                answer = run("plan", "lenet5", "--workers", 2, "--place", self.file("places.txt", text))
                self.assert_one_error(answer, *parts)
                self.assertLess(len(answer.stderr), 500)
        self.assert_one_error(run("plan", "mlp", "--devices", self.folder / "none.json"), "none.json")

    def test_a_worker_without_work_is_refused_and_the_way_out_is_one(self):
        for speeds, cut, told, left in (((1000000, 1), "feature", "leave it out of --devices, with --workers 1", (1000000,)),
                                        ((1000, 1), "feature", "leave it out of --devices, with --workers 1", (1000,)),
                                        ((1000, 1), "batch", "leave it out of --devices, with --workers 1", (1000,)),
                                        ((1000000, 1), "free", "leave it out of --devices, with --workers 1", (1000000,)),
                                        ((1, 1000000, 1000000), "feature", "leave it out of --devices and number the others from 0, with --workers 2", (1000000, 1000000)),
                                        ((1000000, 1, 1000000), "hybrid", "with --workers 2", (1000000, 1000000))):
            with self.subTest(cut=cut, speeds=speeds):
                asked = ("lenet5", "--cut", cut, "--workers", len(speeds), "--devices", self.devices(*speeds))
                answer = run("plan", *asked)
                self.assert_one_error(answer, "would have nothing to compute", told, code=answer.returncode)
                plan = self.plan("lenet5", "--cut", cut, "--workers", len(left), "--devices", self.devices(*left))
                self.assertTrue(all(worker["forward_flops"] > 0 for worker in plan["workers"]))
        plan = self.plan("lenet5", "--cut", "auto", "--workers", 2, "--devices", self.devices(1000, 1))
        self.assertEqual([tried["cut"] for tried in plan["tried"] if tried["cut"].startswith("feature") and "step_seconds" in tried], [])
        self.assertNotEqual(plan["cut"], "feature")

    def test_ways_out_are_some(self):
        for asked, told, then in (
                (("mlp", "--cut", "free", "--pattern", "block-cyclic:300"), ("blocks of 300 units", "use --pattern block-cyclic:255"),
                 ("mlp", "--cut", "free", "--pattern", "block-cyclic:255")),
                (("mlp", "--cut", "free", "--pattern", "block-cyclic:300"), ("use --workers 2 or fewer",),
                 ("mlp", "--cut", "free", "--pattern", "block-cyclic:300", "--workers", 2)),
                (("mlp", "--apart", "fc1,fc2,fc3,relu1", "--workers", 3), ("--apart asks", "give --workers 4"),
                 ("mlp", "--apart", "fc1,fc2,fc3,relu1", "--workers", 4)),
                (("mlp", "--cut", "feature", "--schedule", "chimera"), ("even number of stages", "feature cut has one", "--cut layer --workers 4"),
                 ("mlp", "--cut", "layer", "--schedule", "chimera", "--workers", 4)),
                (("mlp", "--cut", "batch", "--schedule", "dualpipe", "--workers", 2), ("batch cut has one", "give --cut layer"),
                 ("mlp", "--cut", "layer", "--schedule", "dualpipe", "--workers", 2)),
                (("mlp", "--cut", "hybrid", "--schedule", "chimera", "--workers", 4, "--stages", 3), ("not 3", "use 2 or 4", "--stages of a hybrid cut"),
                 ("mlp", "--cut", "hybrid", "--schedule", "chimera", "--workers", 4, "--stages", 2))):
            with self.subTest(asked=asked):
                answer = run("plan", *asked)
                self.assert_one_error(answer, *told, code=answer.returncode)
                self.plan(*then)

    def test_what_is_asked_of_the_choice_is_told(self):
        plan, run_folder = self.folder / "plan.json", self.folder / "run"
        asked = ("lenet5", "--workers", 2, "--cut", "auto", "--slack", 0.25)
        told = self.plan(*asked, "--out", plan)
        self.assertEqual(told["asked"], {"automatic": True, "slack": 0.25})
        self.assertIn("asked: --cut auto --slack 0.25\n", run("plan", *asked).stdout)
        kept = json.loads(plan.read_text())["request"]["steering"]
        self.assertEqual({key: kept[key] for key in ("automatic", "slack")}, told["asked"])
        self.assertEqual(run("plan", "--check", plan).returncode, 0)
        self.assertEqual(run("compare", plan, plan).returncode, 0)
        done = run("train", "--plan", plan, *SMALL[:2], "--steps", 2, "--no-test", "--out", run_folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("asked: --cut auto --slack 0.25\n", run("report", run_folder).stdout)
        # The cut is said now, and nothing is chosen by bytes.
        anew = self.plan("--from-run", run_folder)
        self.assertEqual(anew["cut"], told["cut"])
        self.assertNotIn("slack", anew.get("asked", {}))
        for cut in ("feature", "hybrid", "auto"):
            self.assertTrue(self.plan("mlp", "--cut", cut, "--pairs", "off")["asked"]["without_pairs"], cut)
            self.assertNotIn("without_pairs", self.plan("mlp", "--cut", cut).get("asked", {}), cut)
        self.assertIn("asked: --pairs off\n", run("plan", "mlp", "--cut", "feature", "--pairs", "off").stdout)
        self.assertNotIn("pattern", self.plan("gpt", "--cut", "auto")["asked"], "nobody named one")

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
        much = "c" * 5000
        for flags in (("--way", much), ("--way", much + "=batch"), ("--way", "fc1=" + much), ("--way", much + "=whole:9"), ("--together", much), ("--apart", much + ",fc1"),
                      ("--cut", "free", "--pattern", much), ("--apart", "*" * 5000 + ",fc1")):
            answer = run("plan", "mlp", "--workers", 2, *flags)
            self.assert_one_error(answer, flags[-2], "..")
            self.assertLess(len(answer.stderr), 500)
        plan = self.folder / "plan.json"
        self.plan("mlp", "--workers", 2, "--out", plan)
        self.assert_one_error(run("train", "--plan", plan, "--apart", "fc1,fc2"), "--apart", "made already")


if __name__ == "__main__":
    unittest.main()
