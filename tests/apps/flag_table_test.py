"""No flag of `kerf plan` is taken and then ignored: beside each cut and each mode it is refused by name, or the answer is another."""

import json
import re
import unittest

from kerf_command import KerfTest, run

TRAINED = ("--data", "synthetic:64x784x10", "--steps", 2, "--no-test", "--transport", "inproc")
# What proves more about the same plan changes nothing where all is proved already; what takes less is no less sound; and of stages
# it does not matter how wide a model is, as long as it is that model's file.
# Threads take scratch, which not every processor's convolutions do.
MAY_CHANGE_NOTHING = {("--certify", ""), ("--device", "--check"), ("--width", "--check"), ("--threads", "--check"), ("--threads", "--front")}
# Of the answer: what says that a flag was given, and what no two runs have in common.
NOT_COMPARED = ("asked", "plan_seconds", "out", "picture")


class FlagTable(KerfTest):
    def setUp(self):
        super().setUp()
        self.files = {name: self.folder / name for name in ("out.json", "costs.json", "stage_costs.json", "p.svg")}
        self.write("devices.json", {"kerf_devices": 1, "workers": {str(i): {"speed": 1 + i} for i in range(4)}})
        self.write("shares.json", {"kerf_shares": 1, "shares": {name: {"0": "all"} for name in ("conv1", "conv2", "fc1", "fc2")} |
                                   {"fc3": {"1": "0-2", "2": "3-4", "3": "5-9"}}})
        self.write("places.txt", "conv1 3\nfc3 0\n")
        profile = run("profile", "lenet5", "--rows", 16, "--steps", 2, "--out", self.folder / "profile.json")
        self.assertEqual(profile.returncode, 0, profile.stderr)
        plan = self.answer("lenet5", "--workers", 4)
        self.write("stages.json", {node: min(stage, 2) for node, stage in plan["assignment"].items()})
        # As tight as can be: whatever takes more is unsound.
        common = ("lenet5", "--workers", 2, "--momentum", 0, "--micro-batches", 6)
        peak = max(self.answer(*common)["proved_bytes"])
        self.answer(*common, "--out", self.folder / "plan.json", "--memory", peak)
        self.answer("squeezenet", "--workers", 4, "--graph-out", self.folder / "graph.json")

    def write(self, name, content):
        (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))

    def answer(self, *arguments):
        done = run("plan", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def values(self, base):
        """flag -> what else the command says, so that the answer would be another."""
        cut = base[base.index("--cut") + 1] if "--cut" in base else "layer"
        at = self.folder
        return {
            "--sizes": "784-20-10", "--width": 2, "--classes": 5, "--image-size": 64, "--dim": "T=2", "--train": "*", "--loss": "mse",
            "--head": 3, "--bn": "train", "--freeze": "*", "--cut": "batch" if cut == "feature" else "feature", "--stages": 3 if "--check" in base else 4,
            "--batch": 40, "--slots": 40, "--workers": 2 if "--assign" in base else 3, "--micro-batches": 5, "--schedule": "gpipe",
            "--memory": "1K", "--objective": "forward-flops", "--shares": at / "shares.json", "--devices": at / "devices.json",
            "--pattern": "block-cyclic:3", "--way": "conv1=whole:1", "--place": at / "places.txt", "--together": "conv1,conv2,fc1",
            "--apart": "relu2,pool2", "--stages-per-worker": 2, "--pairs": "off", "--profile": at / "profile.json", "--transport": "tcp",
            "--threads": 64, "--device": "cuda", "--optimizer": "adam", "--momentum": 0.5 if "--check" in base else 0, "--slack": 0.9,
            "--certify": None, "--front": None, "--check": at / "plan.json", "--assign": at / "stages.json", "--hosts": 3,
            "--graph-out": self.files["costs.json"], "--stage-costs": self.files["stage_costs.json"], "--format": "costs", "--from-run": at / "run",
            "--out": self.files["out.json"],
            "--picture": self.files["p.svg"], "--open": 0, "--short": None, "--fit-batch": None, "--why": None}

    def told(self, *arguments):
        """Exit code, the answer as far as it is compared, and the error."""
        for file in self.files.values():
            file.unlink(missing_ok=True)
        done = run("plan", *arguments, "--json")
        answer = json.loads(done.stdout) if done.returncode in (0, 1) and done.stdout else None
        for key in NOT_COMPARED:
            if answer is not None:
                answer.pop(key, None)
        return done.returncode, answer, done.stderr, [file for file in self.files.values() if file.exists()]

    def heeds(self, base, among=None):
        """That each flag is, beside `base`; and which were refused."""
        before = self.told(*base)
        self.assertEqual(before[0], 0, before[2])
        refused = set()
        for flag, value in self.values(base).items():
            if flag in base or (among and flag not in among):
                continue
            with self.subTest(base=base, flag=flag):
                after = self.told(*base, *((flag,) if value is None else (flag, value)))
                if after[2].startswith(f"kerf: error: {flag}: "):
                    self.assertEqual(after[0], 2)
                    refused.add(flag)
                elif not any(flag == each and (not beside or beside in base) for each, beside in MAY_CHANGE_NOTHING):
                    self.assertTrue(after[:2] != before[:2] or after[3], "nothing is different")
        return refused

    def test_every_flag_of_the_help_is_here(self):
        flags = set(re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", run("plan", "--help").stdout, re.MULTILINE))
        self.assertGreater(len(flags), 50)
        self.assertEqual(flags - set(self.values(())), {"--help", "--json"})

    def test_beside_every_cut(self):
        for cut in ("layer", "feature", "batch", "hybrid", "free"):
            refused = self.heeds(("lenet5", "--workers", 4, "--cut", cut))
            for flag, of in (("--slack", "layer"), ("--certify", "layer"), ("--stages", "hybrid"), ("--pattern", "free"), ("--shares", "free"),
                             ("--place", "layer"), ("--front", "layer")):
                self.assertEqual(flag in refused, cut != of, (flag, cut))
            self.assertEqual("--pairs" in refused, cut not in ("feature", "hybrid"))

    def test_beside_the_automatic_cut(self):
        refused = self.heeds(("mlp", "--sizes", "784-32-10", "--workers", 2, "--cut", "auto"),
                             ("--slack", "--certify", "--stages", "--fit-batch", "--pattern", "--way", "--place", "--together", "--apart",
                              "--stages-per-worker", "--front", "--assign", "--graph-out", "--objective", "--out", "--memory"))
        self.assertEqual(len(refused), 13)

    def test_beside_every_mode(self):
        self.train("lenet5", *TRAINED, "--workers", 4, "--batch", 128, "--micro-batches", 8)
        steering = {"--shares", "--devices", "--pattern", "--way", "--place", "--together", "--apart", "--stages-per-worker", "--pairs"}
        writing = {"--out", "--picture", "--open", "--short", "--why"}
        for base, never in ((("lenet5", "--check", self.folder / "plan.json"), steering | writing | {"--profile", "--objective", "--front"}),
                            (("lenet5", "--check", self.folder / "stages.json"), steering | writing | {"--memory", "--workers", "--slots"}),
                            (("lenet5", "--workers", 4, "--front"), steering | writing | {"--slack", "--assign", "--graph-out"}),
                            (("lenet5", "--assign", self.folder / "stages.json"), steering | {"--slack"}),
                            (("lenet5", "--from-run", self.folder / "run"), set()),
                            ((self.folder / "graph.json", "--format", "costs", "--workers", 4), writing | {"--batch", "--schedule"})):
            refused = self.heeds(base)
            self.assertLessEqual(never, refused, base)

    def test_beside_a_plan_that_is_made_already(self):
        for flag in ("--shares", "--devices", "--pattern", "--way", "--place", "--together", "--apart", "--stages-per-worker", "--pairs",
                     "--profile", "--objective"):
            for command in (("train", "--data", "synthetic"), ("eval", "--weights", "w"), ("infer", "--input", "a=b", "--output", "o")):
                with self.subTest(flag=flag, command=command[0]):
                    if command[0] == "eval":
                        (self.folder / "w").write_text("")
                        command = ("eval", "--weights", self.folder / "w")
                    answer = run(*command, "--plan", self.folder / "plan.json", flag, self.values(())[flag])
                    self.assert_one_error(answer, f"{flag}: ", "made already")

    def test_two_that_contradict_each_other(self):
        at = self.folder
        for flags, cut in ((("--pattern", "even", "--shares", at / "shares.json"), "free"), (("--way", "fc1=batch", "--shares", at / "shares.json"), "free"),
                           (("--pattern", "even", "--way", "fc1=batch"), "free"),
                           (("--stages-per-worker", 2, "--place", at / "places.txt"), "layer"),
                           (("--certify", "--devices", at / "devices.json"), "layer"), (("--certify", "--together", "conv1,conv2"), "layer"),
                           (("--fit-batch", "--batch", 8, "--memory", "4M"), "layer")):
            with self.subTest(flags=flags):
                self.assert_one_error(run("plan", "lenet5", "--workers", 4, "--cut", cut, *flags), f"{flags[0]}: ")


if __name__ == "__main__":
    unittest.main()
