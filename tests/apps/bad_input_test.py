"""Wrong input gets one clear error line, exit code 2, and no stack trace."""

import gzip
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import unittest

from kerf_command import KERF, SLOW, KerfTest, run, write_images

LASSO = ("--x", "x.mtx", "--y", "y.mtx", "--lambda", 1)
MF = ("--ratings", "x.mtx")
LDA = ("--corpus", "x.txt")
CLASSES = ("--data", "x.libsvm")
QUICK = ("--workers", 2, "--steps", 2, "--no-test", "--transport", "inproc")


class DataFiles(KerfTest):
    def setUp(self):
        super().setUp()
        write_images(self.folder, 64)
        self.images = self.folder / "train-images-idx3-ubyte.gz"

    def refused(self, *parts):
        answer = run("train", "lenet5", "--data", f"fashion-mnist:{self.folder}", *QUICK, "--out", self.folder / "out")
        self.assert_one_error(answer, *parts)

    def test_a_missing_folder(self):
        answer = run("train", "--data", "fashion-mnist:/nowhere", *QUICK, "--out", self.folder / "out")
        self.assert_one_error(answer, "/nowhere", "apt-get install dataset-fashion-mnist")

    def test_a_missing_file(self):
        self.images.unlink()
        self.refused(self.images)

    def test_a_truncated_file(self):
        whole = self.images.read_bytes()
        for keep in (len(whole) // 2, len(whole) - 100, len(whole) - 1):
            with self.subTest(keep=keep):
                self.images.write_bytes(whole[:keep])
                self.refused(self.images, "truncated", "copy it anew")

    def test_a_file_damaged_in_the_middle(self):
        data = bytearray(self.images.read_bytes())
        data[len(data) // 2] ^= 0x10
        self.images.write_bytes(data)
        self.refused(self.images)

    def test_a_wrong_magic_number(self):
        with gzip.open(self.images, "wb") as file:
            file.write(b"\x00\x00\x0d\x03" + b"\0" * 12 + b"\0" * 784 * 64)
        self.refused(self.images, "wrong magic number")

    def test_an_unknown_data_set(self):
        self.assert_one_error(run("train", "--data", "imagenet", *QUICK), "imagenet", "fashion-mnist")

    def test_sizes_that_are_too_large(self):
        answer = run("train", "mlp", "--data", "synthetic:99999999999x784x10", *QUICK, "--out", self.folder / "out")
        self.assert_one_error(answer, "--data", "99999999999x784x10", "at most")

    def test_data_that_does_not_fit_the_model(self):
        answer = run("train", "mlp", "--sizes", "20-10-10", "--data", f"fashion-mnist:{self.folder}", *QUICK)
        self.assert_one_error(answer, "784", "20")


class PlanFiles(KerfTest):
    def setUp(self):
        super().setUp()
        self.plan = self.folder / "plan.json"
        made = run("plan", "lenet5", "--workers", 2, "--out", self.plan)
        self.assertEqual(made.returncode, 0, made.stderr)

    def refused(self, *parts, model=("lenet5",), more=()):
        answer = run("train", *model, "--data", "synthetic:64x784x10", "--plan", self.plan, "--steps", 1, "--no-test",
                     *more, "--out", self.folder / "out")
        self.assert_one_error(answer, *parts)

    def test_a_missing_plan(self):
        self.plan.unlink()
        self.refused("plan.json")

    def test_a_plan_truncated_anywhere(self):
        text = self.plan.read_text()
        for keep in (0, 1, len(text) // 3, len(text) // 2, len(text) - 3):
            with self.subTest(keep=keep):
                self.plan.write_text(text[:keep])
                self.refused("plan.json")

    def test_a_corrupt_plan(self):
        plan = json.loads(self.plan.read_text())
        for key in [key for key in plan if key != "checksum"]:
            if key not in ("request", "layouts", "routes", "workers", "bottleneck", "bound"):
                with self.subTest(missing=key):
                    self.plan.write_text(json.dumps({k: v for k, v in plan.items() if k != key}))
                    self.refused("plan.json", key)
            with self.subTest(wrong=key):
                self.plan.write_text(json.dumps({**plan, key: {"nonsense": [1]}}))
                self.refused("plan.json")

    def test_a_boundary_that_is_none(self):
        made = run("plan", "lenet5", "--workers", 3, "--short", "--out", self.plan)
        self.assertEqual(made.returncode, 0, made.stderr)
        plan = json.loads(self.plan.read_text())
        for stage, first, part in ((1, "fc9", "stages[1].first"), (0, "relu1", "begins with image.channels_last"),
                                   (2, "conv1", "later in the model")):
            with self.subTest(stage=stage, first=first):
                stages = [dict(one) for one in plan["stages"]]
                stages[stage]["first"] = first
                self.plan.write_text(json.dumps({**plan, "stages": stages}))
                self.refused("plan.json", part)

    def test_a_request_that_nobody_made(self):
        plan = json.loads(self.plan.read_text())
        del plan["checksum"], plan["workers"]
        for key, value in (("slots", 0), ("slots", 4096), ("threads", -1), ("memory", 0), ("objective", "beauty"),
                           ("mirrored", 1), ("optimizer_states", 10**9), ("momentum", 1), ("momentum", -0.5), ("momentum", 0), ("optimizer", "adamant"), ("optimizer", "adam"), ("colour", "red"), ("source", "resnet")):
            with self.subTest(key=key):
                self.plan.write_text(json.dumps({**plan, "request": {**plan["request"], key: value}}))
                answer = run("train", "--data", "synthetic:64x784x10", "--plan", self.plan, *QUICK[2:], "--out",
                             self.folder / "out")
                self.assert_one_error(answer, "plan.json", str(value) if key == "source" else key)

    def test_a_schedule_that_the_plan_names_and_nobody_has(self):
        file = self.folder / "mine.txt"
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--out", file).returncode, 0)
        self.assertEqual(run("plan", "lenet5", "--schedule", file, "--out", self.plan).returncode, 0)
        file.unlink()
        self.refused("the plan's schedule", "mine.txt")

    def test_a_plan_for_another_model(self):
        self.refused("plan.json", model=("mlp",))

    def test_flags_that_contradict_the_plan(self):
        self.refused("--workers 3", more=("--workers", 3))
        self.refused("--cut feature", more=("--cut", "feature"))
        self.refused("--micro-batches 5", more=("--micro-batches", 5))
        self.refused("--stages 7", more=("--stages", 7))
        self.refused("--objective", more=("--objective", "time"))
        self.refused("--pairs", more=("--pairs", "off"))

    def test_a_memory_cap_that_the_transport_breaks(self):
        """The plan's own peak is for shared memory; tcp needs slots on both sides."""
        cap = max(worker["peak_bytes"] for worker in json.loads(self.plan.read_text())["workers"])
        self.refused("worker", f"memory cap of {cap} bytes", more=("--memory", cap, "--transport", "tcp", "--slots", 20))

    def test_a_transport_that_a_pair_cannot_have(self):
        answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--plan", self.plan, "--steps", 1, "--no-test",
                     "--transport", "cuda", "--out", self.folder / "out")
        self.assertEqual(answer.returncode, 2)
        for part in ("worker 0", "worker 1", "over cuda", "one GPU", "leave out --transport"):
            self.assertIn(part, answer.stderr)

    def test_a_memory_cap_that_the_plan_does_not_meet(self):
        self.refused("worker 0", "memory cap of 1000 bytes", more=("--memory", 1000))

    def test_the_memory_cap_that_is_advised_would_do(self):
        train = ("train", "lenet5", "--data", "synthetic:64x784x10", "--plan", self.plan, "--steps", 1, "--no-test",
                 "--transport", "inproc", "--out", self.folder / "out")
        answer = run(*train, "--memory", 1000)
        cap = int(re.search(r"--memory (\d+) would do", answer.stderr).group(1))
        self.assert_one_error(run(*train, "--memory", cap - 1), f"1 bytes more than the memory cap of {cap - 1} bytes")
        self.assertEqual(run(*train, "--memory", cap).returncode, 0)

    def test_a_schedule_that_a_plan_has_no_memory_for_is_refuted(self):
        """1f1b keeps fewer micro-batches than gpipe."""
        def peaks(*more):
            return json.loads(run("schedule", "--plan", self.plan, *more, "--json").stdout)["peak_bytes"]
        cap = max(peaks("1f1b"))
        over = next(worker for worker, bytes in enumerate(peaks("gpipe")) if bytes > cap)
        plan = json.loads(self.plan.read_text())
        del plan["checksum"]
        plan["request"]["memory"] = cap
        self.plan.write_text(json.dumps(plan))
        self.assertEqual(run("schedule", "1f1b", "--plan", self.plan).returncode, 0)
        answer = run("schedule", "gpipe", "--plan", self.plan)
        self.assert_one_error(answer, "refuted", f"worker {over} ", f"memory cap of {cap} bytes", code=1)
        self.assertNotIn("proved", answer.stdout)
        self.assertFalse(json.loads(run("schedule", "gpipe", "--plan", self.plan, "--json").stdout)["verified"])


class PlansByHand(KerfTest):
    """A plan in which somebody changed one thing: what is wrong is named, `kerf plan --check` says so, and no run begins."""

    def setUp(self):
        super().setUp()
        self.file = self.folder / "plan.json"
        self.plans = {}
        for cut, model in (("feature", ("mlp", "--sizes", "12-16-16-12")), ("layer", ("lenet5",))):
            made = run("plan", *model, "--cut", cut, "--workers", 2, "--out", self.file)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.plans[cut] = json.loads(self.file.read_text())
            del self.plans[cut]["checksum"]

    def refused(self, cut, path, value, code, *parts):
        """`code`: of --check, 1 where the file says what a plan says, and it is unsound."""
        plan = json.loads(json.dumps(self.plans[cut]))
        *path, last = path
        inner = plan
        for key in path:
            inner = inner[key]
        inner[last] = value
        self.file.write_text(json.dumps(plan))
        with self.subTest(path=path, last=last, value=value):
            checked = run("plan", "--check", self.file)
            self.assertEqual(checked.returncode, code, checked.stdout + checked.stderr)
            for part in parts:
                self.assertIn(part, checked.stdout + checked.stderr)
            rows = "synthetic:64x12x12" if cut == "feature" else "synthetic:64x784x10"
            out = self.folder / "out"
            self.assert_one_error(run("train", "--plan", self.file, "--data", rows, *QUICK[2:], "--out", out), "plan.json", *parts)
            self.assertEqual(list(out.iterdir()) if out.exists() else [], [])

    def test_neurons(self):
        def layout(part):
            return ("layouts", "fc1.output", part, "box")
        self.refused("feature", layout(0), ["all", "0-6"], 1, "fc1.output", "no part holds 7 of axis 1")
        self.refused("feature", layout(0), ["all", "0-8"], 1, "fc1.output", "parts 0 and 1 overlap in [all, 8]")
        self.refused("feature", layout(1), ["all", "8-16"], 2, "fc1.output", "8-16 of axis 1, whose indices end at 15")
        self.refused("feature", layout(1), ["all", "8-15,9"], 2, "fc1.output", "index 9 is there twice")
        self.refused("feature", ("divisions", "fc2", 0, "box"), ["all", "all", "0-6"], 1, "fc2", "no part holds 7 of axis 2")
        self.refused("feature", ("divisions", "fc2", 0, "box"), ["all", "all", "0-8"], 1, "fc2", "overlap in [all, all, 8]")
        self.refused("feature", ("divisions", "fc2", 1, "box"), ["all", "all", "8-16"], 2, "fc2", "whose indices end at 15")
        self.refused("feature", ("routes",), self.plans["feature"]["routes"][1:], 1, "route of fc2.output from part 1 to part 0 is missing")

    def test_operators_and_workers(self):
        first, second = (stage["nodes"] for stage in self.plans["layer"]["stages"])
        self.refused("layer", ("stages", 0, "nodes"), first[:-1], 1, f"node {first[-1]} is in 0 stages")
        self.refused("layer", ("stages", 0, "nodes"), [*first, second[0]], 1, f"node {second[0]} is in 2 stages")
        self.refused("layer", ("stages", 0, "nodes"), [*first, "fc9"], 2, 'no node "fc9"')
        self.refused("layer", ("stages",), self.plans["layer"]["stages"][::-1], 1, "stage 1 feeds stage 0")
        self.refused("feature", ("divisions", "fc9"), [{"part": 0, "box": "all"}], 2, 'no node "fc9"')
        self.refused("feature", ("binding",), [0, 9], 1, "it binds parts to 0,9")
        self.refused("feature", ("binding",), [0, -1], 2, "-1 is no number of a part or worker")
        self.refused("feature", ("layouts", "fc1.output", 0, "part"), 7, 1, "fc1.output", "part 7")
        self.refused("feature", ("model",), "m\0lp", 1, r"another model: m\x00lp with fingerprint")

    def test_names_of_megabytes_are_told_by_their_ends(self):
        self.file.write_text(json.dumps({**self.plans["layer"], "model": "a" * 5_000_000}))
        for answer in (run("plan", "--check", self.file), run("plan", "--check", self.file, "--json"), run("train", "--plan", self.file)):
            self.assertLess(len(answer.stdout + answer.stderr), 20_000)
            self.assertIn("characters left out", answer.stdout + answer.stderr)
            self.assertIn("--out FILE", answer.stdout + answer.stderr)
        places = self.folder / "places.txt"
        places.write_text("c" * 5_000_000 + " 0\n")
        answer = run("plan", "lenet5", "--workers", 2, "--place", places)
        self.assert_one_error(answer, "--place: no operator of lenet5 fits", "the nearest names are")


class Requests(KerfTest):
    def test_a_schedule_that_does_not_train(self):
        self.assert_one_error(run("train", "lenet5", "--data", "synthetic", "--steps", 1, "--schedule", "forward-only",
                                  "--out", self.folder / "out"), "schedule forward-only", "no backward")

    def test_more_memory_than_the_host_has(self):
        self.assert_one_error(run("train", "mlp", "--sizes", "784-16777216-16777216-10", "--data", "synthetic", "--steps", 1,
                                  "--out", self.folder / "out"), "together", "this host has")
        self.assert_one_error(run("run", "least-squares", "--rows", 10000000, "--columns", 100000), "this host has")

    def test_more_workers_than_operators(self):
        self.assert_one_error(run("plan", "lenet5", "--workers", 50), "50")
        self.assert_one_error(run("train", "lenet5", "--workers", 50, "--data", "synthetic"), "50")

    def test_zero_micro_batches(self):
        for command in ("plan", "train"):
            self.assert_one_error(run(command, "lenet5", "--micro-batches", 0), "--micro-batches")
        self.assert_one_error(run("schedule", "gpipe", "--micro-batches", 0), "--micro-batches")

    def test_numbers_out_of_range(self):
        for flag in (("--workers", 0), ("--workers", -1), ("--batch", 0), ("--threads", 0), ("--epochs", 0), ("--lr", 0),
                     ("--lr", "nan"), ("--momentum", 1), ("--steps", -2), ("--workers", "three"), ("--slots", 0)):
            with self.subTest(flag=flag):
                answer = run("train", "lenet5", "--data", "synthetic:64x784x10", *flag, "--out", self.folder / "out")
                self.assert_one_error(answer, flag[0])
        self.assert_one_error(run("train", "--lr", "nan"), "--lr: the learning rate is nan")
        self.assert_one_error(run("train", "--momentum", 1), "--momentum: 1 is not within [0, 1)")
        self.assert_one_error(run("train", "--optimizer", "adamant"), "--optimizer: ", '"adamant"', "sgd, adagrad, adam and adamw")
        adagrad, adam = ("--optimizer", "adagrad"), ("--optimizer", "adam")
        for flags, where, what in (
                ((*adam, "--momentum", 0.5), "--momentum", "not of adam"), (("--beta1", 0.5), "--beta1", "not of sgd"),
                ((*adagrad, "--momentum", 0.5), "--momentum", "not of adagrad"), ((*adagrad, "--beta1", 0.5), "--beta1", "not of adagrad"),
                ((*adagrad, "--eps", 0), "--eps", "positive"), ((*adagrad, "--eps", "nan"), "--eps", "positive"), (("--eps", 1e-9), "--eps", "not of sgd"),
                ((*adagrad, "--nesterov"), "--nesterov", "not of adagrad"),
                ((*adam, "--beta2", 1), "--beta2", "less than 1"), ((*adam, "--eps", 0), "--eps", "positive"),
                (("--nesterov", "--momentum", 0), "--nesterov", "above 0"), (("--weight-decay", -1), "--weight-decay", "at least 0"),
                (("--no-decay", "*.bias"), "--no-decay", "nothing decays"),
                (("--optimizer", "adamw", "--no-decay", "*.bais"), "--no-decay", "no parameter of lenet5 has a name like *.bais"),
                (("--clip-norm", 0), "--clip-norm", "not positive"),
                (("--lr-schedule", "stairs"), "--lr-schedule", "step:EVERY:FACTOR"), (("--warm-up", -1), "--warm-up", "whole number"),
                (("--early-stop", 0), "--early-stop", "from 1 to"), (("--early-stop", 2, "--no-test"), "--early-stop", "--no-test")):
            with self.subTest(flags=flags):
                answer = run("train", "lenet5", "--data", "synthetic:64x784x10", *flags, "--out", self.folder / "out")
                self.assert_one_error(answer, f"{where}: ", what)

    def test_whole_numbers_are_decimal(self):
        """CLI11 reads 010 as eight and 0x3 as three."""
        flags = {"train": ("--workers", "--stages", "--batch", "--micro-batches", "--slots", "--threads", "--epochs", "--steps",
                           "--trace-steps", "--seed", "--replicas", "--server-groups", "--push-every", "--fetch-every", "--history", "--keep", "--buddy-every"),
                 "plan": ("--workers", "--threads"), "eval": ("--workers", "--threads"),
                 "schedule": ("--workers", "--micro-batches", "--threads"), "worker": ("--index",),
                 "run": ("--rows", "--columns", "--block", "--sweeps", "--workers", "--seed"),
                 "lasso": ("--set-size", "--depth", "--workers", "--seed", "--max-passes"),
                 "mf": ("--rank", "--iterations", "--blocks", "--workers", "--seed"),
                 "lda": ("--topics", "--iterations", "--blocks", "--workers", "--seed", "--snapshot-rounds", "--buddy-every"),
                 "logistic": ("--sweeps", "--workers", "--seed", "--max-passes"), "svm": ("--sweeps", "--workers", "--seed", "--max-passes")}
        for command, names in flags.items():
            for flag in names:
                for value in ("010", "0x3", "1e3"):
                    with self.subTest(command=command, flag=flag, value=value):
                        needed = {"run": ("least-squares",), "eval": ("--weights", "w"), "lasso": LASSO, "mf": MF, "lda": LDA, "logistic": CLASSES,
                                  "svm": CLASSES}.get(command, ())
                        self.assert_one_error(run(command, *needed, flag, value), f"{flag}: ", f'"{value}" is no whole number')

    def test_numbers_beyond_a_range_are_told_it(self):
        for command, flag, values, what in (
                ("train", "--spares", ("x", "-1", 1025), "whole number from 0 to 1024"), ("train", "--workers", ("x", 0, 1025), "whole number from 1 to 1024"),
                ("schedule", "--workers", (0, 65537), "whole number from 1 to 65536"), ("train", "--keep", ("-1", 0), "whole number from 1 to 9223372036854775807"),
                ("train", "--keep-workers", ("x", 0, 86401), "whole number from 1 to 86400"), ("train", "--threads", ("x", 0, 1025), "whole number from 1 to 1024"),
                ("train", "--epochs", (0, 2 ** 31), f"whole number from 1 to {2 ** 31 - 1}"), ("worker", "--patience", ("x", 0, 86401), "whole number from 1 to 86400"),
                ("worker", "--index", ("-1", 1024), "whole number from 0 to 1023"), ("schedule", "--jitter", ("x", "-1", "nan", "1e7"), "number from 0 to 1000000")):
            for value in values:
                with self.subTest(command=command, flag=flag, value=value):
                    self.assert_one_error(run(command, flag, value), f'{flag}: "{value}" is no {what}')

    def test_flags_that_would_do_nothing(self):
        self.assert_one_error(run("run", "least-squares", "--threads", 7), "--threads")
        self.assert_one_error(run("train", "mlp", "--data", "synthetic:64x784x10", "--listen", "tcp://127.0.0.1:*", "--device",
                                  "cpu", "--out", self.folder / "out"), "--device: ", "kerf worker --device")

    def test_a_buddy_where_nothing_is_kept(self):
        for flags, what in (((0,), "from 1 to"), ((-1,), "whole number"), ((5, "--no-restart"), "ends the run"), ((5, "--transport", "inproc"), "threads"),
                            ((5, "--schedule", "pipedream", "--save-every", 10), "pipedream never does"), ((5, "--memory", "1700K"), "no room for what workers hold: worker")):
            with self.subTest(flags=flags):
                answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 2, "--no-test", "--buddy-every", *flags, "--out", self.folder / "out")
                self.assert_one_error(answer, "--buddy-every: ", what)
        for flags, what in (((0,), "from 1 to"), ((5, "--no-restart"), "ends the run")):
            with self.subTest(program=flags):
                self.assert_one_error(run("lasso", *LASSO, "--buddy-every", *flags), "--buddy-every: ", what)

    def test_whole_numbers_are_neither_wrapped_nor_cut(self):
        for flag in ("--seed", "--steps"):
            for value in ("-1", "18446744073709551616", "1.5", "x"):
                with self.subTest(flag=flag, value=value):
                    answer = run("train", "mlp", "--data", "synthetic:64x784x10", flag, value, "--out", self.folder / "out")
                    self.assert_one_error(answer, f"{flag}: ", value)
        self.assert_one_error(run("run", "least-squares", "--seed", -1), "--seed")
        self.assert_one_error(run("run", "least-squares", "--columns", 400, "--block", 362), "--block: 362", "361",
                              "1048576 bytes")
        self.train("mlp", "--data", "synthetic:64x784x10", *QUICK, "--seed", 2**64 - 1)

    def test_no_option_takes_an_empty_value(self):
        """An unset variable of a script is not zero, and not a default."""
        least = {"plan": 44, "train": 44, "eval": 30, "infer": 30, "run": 8, "lasso": 20, "mf": 22, "lda": 22, "logistic": 21, "svm": 22, "predict": 4,
                 "schedule": 20, "profile": 15, "export": 12, "compare": 0, "checkpoint": 2,
                 "worker": 3}
        for command, count in least.items():
            text = run(command, "--help").stdout
            flags = set(re.findall(r"^ +(--[a-z0-9-]+)", text, re.MULTILINE))
            flags -= {"--balance", "--certify", "--encrypt-data", "--external-data", "--fit-batch", "--front", "--help", "--json", "--nesterov", "--no-restart", "--no-shuffle", "--no-test", "--recompute", "--shrink",
                      "--plan" if command == "report" else "", "--prune", "--rebalance", "--short", "--verify", "--why"}
            self.assertGreaterEqual(len(flags), count, command)
            for flag in sorted(flags):
                with self.subTest(command=command, flag=flag):
                    needed = {"run": ("least-squares",), "lasso": LASSO, "mf": MF, "lda": LDA, "logistic": CLASSES, "svm": CLASSES,
                              "predict": ("--model", "a", "--data", "b"), "eval": ("--weights", "w"), "compare": ("a",), "export": ("--out", "a"),
                              "infer": ("--input", "a=b", "--output", "c")}.get(command, ())
                    self.assert_one_error(run(command, *needed, flag, ""), f"{flag}: ")
        for flag in ("--steps", "--seed", "--momentum", "--workers", "--plan", "--weights", "--listen", "--picture",
                     "--shares", "--out", "--sizes", "--memory"):
            with self.subTest(flag=flag):
                self.assert_one_error(run("train", flag, ""), f"{flag}: ")
        self.assert_one_error(run("plan", ""), "MODEL: ")

    def test_sizes_in_bytes(self):
        for good in ("65536000", "64m", "64M", "64MB", "0.1GiB", "1.5G"):
            with self.subTest(good=good):
                self.assertEqual(run("plan", "mlp", "--memory", good).returncode, 0)
        for bad in ("99999999999999999999", "1e9", "M", "-1M", "500X", "1.5.5G", "64Mx", "inf", "9000P"):
            with self.subTest(bad=bad):
                self.assert_one_error(run("plan", "mlp", "--memory", bad), "--memory: ", f'"{bad}"', "1.5G")
        self.assert_one_error(run("plan", "mlp", "--memory", "1.5K"), "1536 bytes")

    def test_names_that_nobody_knows_are_answered_with_those_there_are(self):
        for flag, known in ((("--cut", "diagonal"), "layer"), (("--schedule", "zigzag"), "1f1b"),
                            (("--transport", "pigeon"), "shm"), (("--optimizer", "adamant"), "sgd")):
            with self.subTest(flag=flag):
                answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--steps", 1, *flag, "--out",
                             self.folder / "out")
                self.assert_one_error(answer, flag[1], known)
                if flag[0] != "--optimizer":
                    self.assertIn(flag[0], answer.stderr)
        self.assert_one_error(run("train", "resnet"), "resnet", "lenet5")
        self.assert_one_error(run("plan", "mlp", "--sizes", "784-x-10"), "--sizes")
        self.assert_one_error(run("plan", "lenet5", "--objective", "beauty"), "beauty")

    def test_an_unknown_flag_and_an_unknown_command(self):
        self.assert_one_error(run("train", "--colour", "red"), "--colour")
        self.assert_one_error(run("fly"), "fly")
        self.assert_one_error(run(), "train")

    def test_flags_that_the_cut_would_ignore(self):
        self.assert_one_error(run("plan", "lenet5", "--stages", 2), "--stages")

    def test_a_memory_cap_that_cannot_be_met_names_stage_cap_bytes_over_and_what_fits(self):
        answer = run("plan", "lenet5", "--workers", 2, "--memory", 65536)
        self.assert_one_error(answer, "stage 0", "65536 bytes", "more than", "--memory")

    def test_a_layout_that_an_operator_cannot_honour_is_refused_by_name(self):
        shares = self.folder / "shares.json"
        for text in ("", "{", "[]", '{"kerf_shares": 2}', '{"kerf_shares": 1, "shares": {"fc9": {"0": "all"}}}',
                     '{"kerf_shares": 1, "shares": {"fc1": {"0": "0-3"}}}',
                     '{"kerf_shares": 1, "shares": {"fc1": {"7": "all"}}}'):
            with self.subTest(text=text):
                shares.write_text(text)
                answer = run("plan", "mlp", "--cut", "free", "--shares", shares, "--workers", 2)
                self.assert_one_error(answer, "shares.json")

    def test_missing_weights(self):
        self.assert_one_error(run("eval", "lenet5", "--weights", "/nowhere/w.safetensors"), "--weights")

    def test_weights_of_another_model(self):
        self.train("lenet5", "--data", "synthetic:64x784x10", "--workers", 1, "--steps", 0, "--no-test")
        weights = self.folder / "run" / "weights.safetensors"
        for command in (("eval", "--data", "synthetic:64x784x10"), ("train", "--steps", 0, "--out", self.folder / "other"),
                        ("export", "--out", self.folder / "lenet5.onnx")):
            with self.subTest(command=command[0]):
                self.assert_one_error(run(command[0], "lenet5-bn", *command[1:], "--weights", weights),
                                      "weights.safetensors: it lacks 8 of the 18 tensors of lenet5-bn: bn1.weight")

    def test_truncated_weights(self):
        weights = self.folder / "weights.safetensors"
        weights.write_bytes(b"\x10\0\0\0\0\0\0\0{}")
        for transport in ("inproc", "shm"):
            with self.subTest(transport=transport):
                answer = run("eval", "lenet5", "--data", "synthetic:64x784x10", "--weights", weights, "--transport",
                             transport)
                self.assert_one_error(answer, "weights.safetensors")

    def test_weights_that_are_no_numbers_are_not_blamed_on_the_learning_rate(self):
        common = ("--data", "synthetic:64x784x10", "--transport", "inproc")
        self.train("mlp", *common, "--workers", 1, "--steps", 0, "--no-test")
        weights = self.folder / "run" / "weights.safetensors"
        data = weights.read_bytes()
        head = 8 + int.from_bytes(data[:8], "little")
        weights.write_bytes(data[:head] + b"\x00\x00\xc0\x7f" * ((len(data) - head) // 4))
        answer = run("eval", "mlp", *common, "--weights", weights)
        self.assert_one_error(answer, "the loss of these weights is no finite number")
        self.assertNotIn("--lr", answer.stderr)

    def test_a_learning_rate_that_is_too_large(self):
        for workers in (1, 2):
            with self.subTest(workers=workers):
                answer = run("train", "mlp", "--data", "synthetic:256x784x10", "--batch", 16, "--lr", 1e30, "--workers", workers,
                             "--transport", "inproc", "--steps", 30, "--out", self.folder / "out")
                self.assert_one_error(answer, "is no longer a finite number", "--lr", "step 1", "10 steps")

    def test_devices_that_are_not_there(self):
        for devices in ("cuda:99", "cpu,cuda:99", "gpu", "cpu,,cpu", "CPU", "cuda:", ","):
            with self.subTest(devices=devices):
                name = next(name for name in devices.split(",") if name != "cpu")
                answer = run("train", "--data", "synthetic:64x784x10", "--workers", 1, "--steps", 1, "--device", devices,
                             "--out", self.folder / "out")
                self.assert_one_error(answer, "--device: ", name, "cpu")
        self.assert_one_error(run("worker", "--connect", "tcp://127.0.0.1:1", "--device", "cuda:99"), "--device: ", "cuda:99")
        self.assert_one_error(run("worker", "--connect", "tcp://127.0.0.1:1", "--device", "cpu,cpu"), "--device: ", "--index")
        for planned in ("gpu", "CPU", "cuda:", "cuda:x", "cpu,,cpu"):
            self.assert_one_error(run("plan", "mlp", "--device", planned), "--device: ", "there is no device")

    def test_no_gpu_is_told_with_the_reason(self):
        cuda = json.loads(run("devices", "--json").stdout)["cuda"]
        if cuda["devices"] > 0:
            self.skipTest("this host has a GPU")
        answer = run("train", "--data", "synthetic:64x784x10", "--workers", 1, "--steps", 1, "--device", "cuda",
                     "--out", self.folder / "out")
        self.assert_one_error(answer, "--device: cuda cannot be had: ", cuda["reason"], "use --device cpu")

    def test_a_refuted_schedule(self):
        file = self.folder / "bad.txt"
        made = run("schedule", "1f1b", "--workers", 2, "--micro-batches", 2, "--out", file)
        self.assertEqual(made.returncode, 0, made.stderr)
        sound = file.read_text()
        for text, part in ((sound.replace("1B1", "1B0"), "1B"), (sound.replace("row 1", "row 7"), "bad.txt:"),
                           ("", "bad.txt"), (sound.replace("0F1", "0Q1"), "bad.txt:")):
            with self.subTest(part=part):
                self.assertNotEqual(text, sound)
                file.write_text(text)
                answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--workers", 2, "--micro-batches", 2,
                             "--schedule", file, "--steps", 1, "--out", self.folder / "out")
                self.assert_one_error(answer, part)


class Addresses(KerfTest):
    def refused(self, address, *parts):
        answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 1, "--listen",
                     address, "--out", self.folder / "out", timeout=20)
        self.assert_one_error(answer, *parts)

    def test_an_address_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refused(f"tcp://127.0.0.1:{port}", f"127.0.0.1:{port}", "use")

    def test_an_address_beyond_this_host(self):
        self.refused("tcp://0.0.0.0:5555", "0.0.0.0")
        self.refused("tcp://192.0.2.1:5555", "192.0.2.1")

    def test_a_meeting_at_an_address_where_each_host_finds_itself(self):
        tasks = {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
        for more in ({"LOCAL_WORLD_SIZE": "2"}, {"RANK": "1"}):
            answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 2, "--launcher", "torchrun", "--out", self.folder / "out", env={**os.environ, **tasks, **more})
            self.assert_one_error(answer, "MASTER_ADDR: ", "localhost", "127.0.0.1", "--listen tcp://HOST:PORT")

    def test_a_port_that_tasks_of_a_launcher_cannot_know(self):
        step = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "SLURM_LOCALID": "1"}
        train = ("train", "lenet5", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 2, "--out", self.folder / "out")
        for address in ("tcp://127.0.0.1:0", "tcp://127.0.0.1:*"):
            for more, parts in (((), ("--listen: 3 tasks were started", "leave it out", "--launcher env")),
                                (("--launcher", "slurm"), ("--listen: each task has to know the port", "tcp://HOST:5555"))):
                with self.subTest(address=address, more=more):
                    answer = run(*train, "--listen", address, *more, env={**os.environ, **step}, timeout=20)
                    self.assert_one_error(answer, *parts)

    def test_a_device_where_the_file_of_hosts_has_one_for_each(self):
        hosts = self.folder / "hosts.txt"
        hosts.write_text("node0\nnode1\n")
        answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 1, "--hosts", hosts, "--listen", "tcp://127.0.0.1:*",
                     "--device", "cpu", "--out", self.folder / "out", timeout=20)
        self.assert_one_error(answer, "--device: ", "--hosts", "HOST device=DEVICE")

    def test_a_malformed_address(self):
        self.refused("somewhere", "somewhere")

    def test_a_name_of_no_host(self):
        keys = self.folder / "keys"
        self.assertEqual(run("keys", "make", keys).returncode, 0)
        answer = run("train", "lenet5", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 1, "--listen",
                     "tcp://nosuch.invalid:5555", "--keys", keys, "--out", self.folder / "out", timeout=60)
        self.assert_one_error(answer, "no way to host 'nosuch.invalid'")

    def test_a_command_that_needs_another(self):
        self.assert_one_error(run("keys"), "keys: name a command: make;")
        self.assert_one_error(run("keys", "break"), 'keys: there is no "break"; there are make;')

    def test_what_was_not_expected_is_told_as_it_was_given(self):
        self.assert_one_error(run("plan", "lenet5", "--no-such-flag", 3), "not expected: --no-such-flag 3")

    def test_a_worker_needs_an_address_of_this_host(self):
        for arguments in ((), ("--connect",), ("--connect", "tcp://192.0.2.1:5"), ("--connect", "nonsense"),
                          ("--bind", "tcp://127.0.0.1:1"), ("--connect", "tcp://127.0.0.1:1", "--index", "x"),
                          ("--connect", "tcp://127.0.0.1:1", "--index", -2)):
            with self.subTest(arguments=arguments):
                self.assert_one_error(run("worker", *arguments, timeout=20))
        for arguments in (("extra",), ("--connect", "tcp://127.0.0.1:1", "extra")):
            answer = run("worker", *arguments, timeout=20)
            self.assert_one_error(answer, "not expected: extra")


class Reports(KerfTest):
    """run.json is read back strictly: an error names the file and the member at fault."""

    def setUp(self):
        super().setUp()
        self.report = self.train("mlp", "--data", "synthetic:64x784x10", *QUICK)
        self.file = self.folder / "run" / "run.json"

    def refused(self, report, *parts):
        self.file.write_text(report if isinstance(report, str) else json.dumps(report))
        for more in ((), ("--json",), ("--plan",)):
            self.assert_one_error(run("report", self.folder / "run", *more), "run.json", *parts)

    def test_no_folder_and_no_report(self):
        self.file.unlink()
        self.assert_one_error(run("report", self.folder / "run"), "run.json")
        self.assert_one_error(run("report", "/nowhere"), "/nowhere")

    def test_a_truncated_report(self):
        text = self.file.read_text()
        for keep in (0, 1, len(text) // 2, len(text) - 3):
            self.refused(text[:keep])

    def test_a_corrupt_report(self):
        derived = ("model", "steps", "accuracy", "tokens_per_second", "predicted", "counted", "equal", "unanswered_tasks")
        newer = ("kind", "data", "data_encrypted", "restarts", "repeated_tasks", "repeated_messages", "repeated_bytes", "recoveries", "rebalances", "slow", "gradient_norms", "learning_rates", "optimizer", "skipped", "labels_per_row", "label_axes",
                 "process_allowance_bytes", "traced", "untraced", "same_bits", "staleness", "drains", "drain_period", "replicas", "lbfgs", "checkpoints", "kept")
        for key in self.report:
            if key not in (*derived, *newer):
                with self.subTest(missing=key):
                    self.refused({k: v for k, v in self.report.items() if k != key}, key)
            with self.subTest(wrong=key):
                self.refused({**self.report, key: {"nonsense": [1]}}, key)
        self.refused({**self.report, "colour": "red"}, "colour")

    def test_figures_that_contradict_each_other(self):
        self.refused({**self.report, "steps": 7}, '"steps" is 7', "make it 2")
        self.refused({**self.report, "equal": False}, "equal")
        self.refused({**self.report, "counted": {"messages": 1, "bytes": 1}}, "counted")
        workers = [dict(worker) for worker in self.report["workers"]]
        workers[1]["pid"] = "many"
        self.refused({**self.report, "workers": workers}, "run.json: workers[1].pid", "whole number")
        workers[1]["pid"], workers[1]["proved_bytes"] = 1, "many"
        self.refused({**self.report, "workers": workers}, "run.json: workers[1].proved_bytes")


class Output(KerfTest):
    def test_a_full_disk_behind_the_standard_output_is_noticed(self):
        weights = self.folder / "run" / "weights.safetensors"
        self.train("mlp", "--data", "synthetic:64x784x10", *QUICK)
        common = ("--data", "synthetic:64x784x10", "--transport", "inproc")
        for command in (("plan", "mlp", "--json"), ("schedule", "1f1b"), ("devices",), ("report", self.folder / "run"), ("--help",), ("plan", "--help"),
                        ("--version",), ("run", "least-squares", "--rows", 50, "--columns", 5, "--block", 5),
                        ("eval", "mlp", *common, "--weights", weights),
                        ("train", "mlp", *common, *QUICK, "--json", "--out", self.folder / "out")):
            with self.subTest(command=command), open("/dev/full", "w", encoding="utf-8") as full:
                answer = subprocess.run([KERF, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True,
                                        timeout=60 * SLOW, check=False)
                self.assertEqual(answer.returncode, 1, answer.stderr)
                self.assertIn("kerf: error: the standard output cannot be written", answer.stderr.splitlines()[-1])

    def test_a_limit_on_the_size_of_files(self):
        plan = self.folder / "plan.json"
        answer = run("plan", "mlp", "--out", plan, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)))
        self.assert_one_error(answer, "plan.json", "File too large")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_names_that_are_too_long(self):
        for arguments in (("plan", "--out", "a" * 300), ("plan", "--schedule", "a" * 300),
                          ("train", "--weights", "a" * 300), ("train", "--data", "fashion-mnist:" + "a" * 300),
                          ("train", *QUICK, "--data", "synthetic", "--out", "a" * 300), ("schedule", "a/" * 3000)):
            with self.subTest(arguments=arguments[0] + arguments[1]):
                self.assert_one_error(run(*arguments, cwd=self.folder), "aaa" if arguments[0] != "schedule" else "a/a/",
                                      "File name too long")

    def test_control_characters_are_shown_not_obeyed(self):
        self.assert_one_error(run("plan", "x\n\x1b[31m\x7f"), r"x\x0a\x1b[31m\x7f")
        self.assert_one_error(run("x\r\t"), r'"x\x0d\x09"')
        self.assert_one_error(run("plan", "mlp", "--schedule", "größe"), '"größe"')
        # Of files, and on the standard output.
        plan = self.folder / "plan.json"
        self.assertEqual(run("plan", "mlp", "--workers", 2, "--out", plan).returncode, 0)
        plan.write_text(json.dumps({**json.loads(plan.read_text()), "fingerprint": "\x1b]0;x\x07\u009b"}))
        answer = run("plan", "mlp", "--check", plan)
        self.assertEqual(answer.returncode, 1)
        self.assertIn(r"fingerprint \x1b]0;x\x07\xc2\x9b, not", answer.stdout)
        report = self.train("mlp", "--data", "synthetic:64x784x10", *QUICK)
        report["plan"]["stages"][0]["nodes"][0] = "\x1b]0;x\x07\nfake line"
        report["routes"][0]["value"] = report["plan"]["routes"][0]["value"] = "\x1b[31m\rfc"
        report["plan"]["model"] = "\x1b[2Jmlp"
        del report["model"]
        report["skipped"] = [{"step": 1, "cause": "\x1b[2J"}]
        (self.folder / "run" / "run.json").write_text(json.dumps(report))
        for command in (("report", self.folder / "run"), ("report", self.folder / "run", "--plan")):
            answer = run(*command)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertNotRegex(answer.stdout, r"[\x00-\x09\x0b-\x1f\x7f]")
            self.assertIn(r"\x1b", answer.stdout)
            self.assertNotIn("\nfake", answer.stdout)

    def test_an_output_folder_that_is_a_file(self):
        file = self.folder / "file"
        file.write_text("here already")
        answer = run("train", "lenet5", "--data", "synthetic:64x784x10", *QUICK, "--out", file)
        self.assert_one_error(answer, "file")
        self.assertEqual(file.read_text(), "here already")

    def fails_late(self, out, *more):
        """After some steps, when everything that a run begins with is there."""
        answer = run("train", "mlp", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 6, "--no-test", "--transport",
                     "inproc", "--lr", 1e30, "--out", out, *more)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("no longer a finite number", answer.stderr)

    def test_a_failed_run_leaves_nothing(self):
        out = self.folder / "out"
        self.fails_late(out)
        self.assertEqual(list(out.iterdir()), [])

    def test_a_failed_run_leaves_the_folder_of_an_earlier_one_as_it_was(self):
        out = self.folder / "run"
        self.train("mlp", "--data", "synthetic:64x784x10", *QUICK)
        earlier = {path.name: path.read_bytes() for path in out.iterdir()}
        self.fails_late(out, "--cut", "feature")
        self.assertEqual({path.name: path.read_bytes() for path in out.iterdir()}, earlier)

    def test_a_picture_that_cannot_be_drawn_is_told_before_the_run(self):
        answer = run("train", "mlp", "--data", "synthetic:64x784x10", *QUICK, "--picture", self.folder / "no" / "cut.svg",
                     "--out", self.folder / "out")
        self.assert_one_error(answer, "cut.svg")
        self.assertEqual(list((self.folder / "out").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
