"""Every subcommand: help that teaches, JSON beside tables, files where they were promised."""

import json
import os
import pty
import subprocess
import unittest

from kerf_command import KERF, KerfTest, read_safetensors, run, write_images

COMMANDS = ("plan", "compare", "profile", "train", "eval", "infer", "export", "lasso", "lda", "logistic", "svm", "mf", "predict", "run", "report", "worker", "schedule",
            "bench", "devices", "data", "models", "keys", "checkpoint")
BRIEFLY = ("--steps", 2, "--no-test", "--transport", "inproc")
SYNTHETIC = ("--data", "synthetic:256x784x10")


class Help(KerfTest):
    def test_every_default_schedule_is_the_one_that_is_taken(self):
        for command, name in (("plan", "1f1b"), ("train", "1f1b"), ("eval", "forward-only")):
            self.assertIn(f"or a file (default {name})", " ".join(run(command, "--help").stdout.split()))
        self.assertIn("ampnet, forward-only or a file", " ".join(run("infer", "--help").stdout.split()))

    def test_help_says_of_which_cuts_a_flag_is(self):
        text = " ".join(run("plan", "--help").stdout.split())
        for part in ("--slack S Of layer and auto cuts: ", "--shares FILE Of free and auto cuts: ", "--pairs on|off Of feature, hybrid and auto cuts: "):
            self.assertIn(part, text)

    def test_every_help_opens_with_a_sentence_and_ends_with_examples(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                answer = run(command, "--help")
                self.assertEqual(answer.returncode, 0)
                self.assertRegex(answer.stdout.splitlines()[0], r"^[A-Z].*\.$")
                examples = answer.stdout.split("Examples:")[1].strip().splitlines()
                self.assertIn(len([line for line in examples if line.strip().startswith("kerf ")]), range(2, 10))

    def test_the_top_lists_the_commands(self):
        answer = run("--help")
        for command in COMMANDS:
            self.assertIn(command, answer.stdout)
        self.assertRegex(run("--version").stdout, r"^kerf \d+\.\d+\.\d+\n$")


class Plan(KerfTest):
    def test_json_has_what_outsiders_rely_on(self):
        parameters = {model["name"]: model["parameters"] for model in json.loads(run("models", "--json").stdout)["models"]}
        for cut, model in (("layer", "lenet5"), ("feature", "mlp"), ("batch", "mlp"), ("hybrid", "mlp"), ("free", "lenet5")):
            with self.subTest(cut=cut):
                alone = json.loads(run("plan", model, "--workers", 1, "--json").stdout)["workers"][0]
                self.assertEqual((alone["messages"], alone["bytes_in"], alone["bytes_out"]), (0, 0, 0))
                answer = run("plan", model, "--cut", cut, "--workers", 4, "--json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                plan = json.loads(answer.stdout)
                self.assertEqual(plan["cut"], cut)
                self.assertEqual([worker["worker"] for worker in plan["workers"]], [0, 1, 2, 3])
                total = {key: sum(worker[key] for worker in plan["workers"])
                         for key in ("forward_flops", "weight_bytes", "messages")}
                self.assertEqual(total["forward_flops"], alone["forward_flops"], "divided, and nothing twice")
                self.assertEqual(total["weight_bytes"], 4 * parameters[model])
                for worker in plan["workers"]:
                    for key, end in (("bytes_in", "to"), ("bytes_out", "from")):
                        there = [route["bytes"] for route in plan["routes"] if route[end] == worker["worker"]]
                        self.assertEqual(worker[key], sum(there))
                    self.assertGreater(worker["messages"], 0)
                    # At the peak it has weights, their gradients and their momentum, beside activations.
                    self.assertGreaterEqual(worker["peak_bytes"], 3 * worker["weight_bytes"] + worker["activation_bytes"])
                self.assertTrue(plan["acyclic"])
                self.assertEqual(plan["lower_bound"], plan["certificate"]["value"])
                self.assertIn(plan["certificate"]["kind"], ("exact", "bound"))
                self.assertTrue(plan["certificate"]["witness"])
                self.assertAlmostEqual(plan["gap"], plan["bottleneck"] / plan["lower_bound"] - 1)
                self.assertGreater(plan["plan_seconds"], 0)
                self.assertEqual(plan["assignment"], {node: i for i, stage in enumerate(plan["stages"]) for node in stage["nodes"]})
                forward = [route["bytes"] for route in plan["routes"] if not (route["gradient"] or route["of_weights"])]
                self.assertEqual(plan["cut_bytes"], sum(forward), "weights cut nothing")
                for key in ("messages", "bytes"):
                    self.assertEqual(sum(route[key] for route in plan["routes"]), sum(part[key] for part in plan["per_step"].values()))
                self.assertEqual(total["messages"], sum(route["messages"] for route in plan["routes"]))

    def test_a_plan_is_the_same_whether_it_is_made_or_read(self):
        plan, picture = self.folder / "plan.json", self.folder / "plan.svg"
        answer = run("plan", "lenet5", "--workers", 2, "--out", plan, "--picture", picture)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for path in (plan, picture):
            self.assertIn(str(path), answer.stdout)
        told = json.loads(run("plan", "lenet5", "--workers", 2, "--out", plan, "--picture", picture, "--json").stdout)
        self.assertEqual((told["out"], told["picture"]), (str(plan), str(picture)))
        self.assertTrue(picture.read_text().lstrip().startswith("<"))
        report = self.train("lenet5", *SYNTHETIC, "--plan", plan, "--steps", 2, "--no-test", "--transport", "inproc")
        self.assertEqual((self.folder / "run" / "plan.json").read_text(), plan.read_text())
        self.assertEqual(len(report["workers"]), 2)

    def test_a_plan_under_another_schedule_is_kept_with_what_it_takes_then(self):
        plan = self.folder / "plan.json"
        flags = ("mlp", "--workers", 2, "--transport", "inproc", "--micro-batches", 8)
        self.assertEqual(run("plan", *flags, "--schedule", "1f1b", "--out", plan).returncode, 0)
        gpipe = json.loads(run("plan", *flags, "--schedule", "gpipe", "--json").stdout)
        report = self.train("mlp", *SYNTHETIC, "--plan", plan, "--schedule", "gpipe", "--steps", 1, "--no-test", "--transport",
                            "inproc")
        kept = json.loads((self.folder / "run" / "plan.json").read_text())
        self.assertEqual((report["plan"]["schedule"], kept["schedule"]), ("gpipe", "gpipe"))
        self.assertEqual([worker["peak_bytes"] for worker in report["plan"]["workers"]],
                         [worker["peak_bytes"] for worker in gpipe["workers"]])

    def test_a_plan_for_forward_passes_alone_costs_no_gradients(self):
        plan = self.folder / "plan.json"
        flags = ("mlp", "--workers", 2, "--transport", "inproc", "--micro-batches", 8)
        training = json.loads(run("plan", *flags, "--json").stdout)
        answer = run("plan", *flags, "--schedule", "forward-only", "--out", plan, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        told = json.loads(answer.stdout)
        self.assertEqual(json.loads(plan.read_text())["request"]["trains"], False)
        self.assertEqual(run("plan", "mlp", "--check", plan).returncode, 0)
        self.assertEqual([route["messages"] for route in told["routes"] if route["gradient"]], [0] * sum(r["gradient"] for r in told["routes"]))
        peak = max(worker["peak_bytes"] for worker in told["workers"])
        least = max(worker["peak_bytes"] for worker in training["workers"]) // 2
        self.assertLess(peak, least, "neither gradients nor momentum")
        # So much is enough for who evaluates; who trains by that plan is told what that takes.
        self.train("mlp", *SYNTHETIC, "--steps", 1, "--no-test", out="trained")
        weights = self.folder / "trained" / "weights.safetensors"
        answer = run("eval", *flags, *SYNTHETIC, "--weights", weights, "--memory", peak)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        report = self.train("mlp", *SYNTHETIC, "--plan", plan, "--schedule", "1f1b", "--steps", 1, "--no-test", "--transport", "inproc")
        self.assertGreater(max(worker["peak_bytes"] for worker in report["plan"]["workers"]), least)
        self.assertNotIn("trains", json.loads((self.folder / "run" / "plan.json").read_text())["request"])
        # And a plan for training is evaluated within less.
        self.assertEqual(run("plan", *flags, "--out", plan).returncode, 0)
        answer = run("eval", *SYNTHETIC, "--plan", plan, "--weights", weights, "--memory", least)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_what_was_inserted_is_told_by_its_names(self):
        for flags, words in ((("--cut", "layer"), ("bridge",)), (("--cut", "feature"), ("bridge", "concat", "sum"))):
            with self.subTest(flags=flags):
                report = json.loads(run("plan", "mlp", "--workers", 2, *flags, "--json").stdout)
                self.assertEqual(set(report["connectors"]), {"bridge", "slice", "concat", "sum"})
                for word, count in report["connectors"].items():
                    self.assertEqual(count, sum(word in route["connectors"].split(" -> ") for route in report["routes"]))
                picture = self.folder / "plan.svg"
                text = run("plan", "mlp", "--workers", 2, *flags, "--picture", picture).stdout
                for word in words:
                    self.assertGreater(report["connectors"][word], 0)
                    self.assertIn(word, text)
                    self.assertIn(word, picture.read_text())

    def test_a_plan_keeps_its_request(self):
        plan = self.folder / "plan.json"
        flags = ("--sizes", "784-64-64-10", "--workers", 2, "--transport", "tcp", "--slots", 5, "--threads", 2, "--memory",
                 "64M", "--momentum", 0)
        self.assertEqual(run("plan", "mlp", *flags, "--out", plan).returncode, 0)
        self.assertEqual(json.loads(plan.read_text())["request"],
                         {"source": "mlp 784-64-64-10", "memory": 64 << 20, "objective": "time", "slots": 5, "mirrored": True,
                          "optimizer_states": 0, "threads": 2, "momentum": 0})
        # Under another schedule it is predicted as what it was made for, and the model is its own.
        made = json.loads(run("plan", "mlp", *flags, "--schedule", "gpipe", "--json").stdout)
        self.train(*SYNTHETIC, "--plan", plan, "--schedule", "gpipe", "--steps", 1, "--no-test")
        kept = json.loads((self.folder / "run" / "plan.json").read_text())
        self.assertEqual([worker["peak_bytes"] for worker in kept["workers"]],
                         [worker["peak_bytes"] for worker in made["workers"]])
        # A flag goes before it; the cap holds for the run.
        self.train(*SYNTHETIC, "--plan", plan, "--slots", 1, "--steps", 1, "--no-test", out="other")
        self.assertEqual(json.loads((self.folder / "other" / "plan.json").read_text())["request"]["slots"], 1)
        text = plan.read_text().replace(f'"memory": {64 << 20}', '"memory": 4096')
        plan.write_text("".join(line for line in text.splitlines(True) if '"checksum"' not in line).replace(
            json.loads(text)["checksum"], ""))
        capped = json.loads(text)
        del capped["checksum"]
        plan.write_text(json.dumps(capped))
        self.assert_one_error(run("train", *SYNTHETIC, "--plan", plan, "--steps", 1, "--no-test", "--out",
                                  self.folder / "capped"), "memory cap of 4096 bytes")

    def test_a_plan_is_trained_with_the_momentum_that_it_was_made_for(self):
        def losses(*more, out):
            return self.train("mlp", *SYNTHETIC, "--steps", 6, "--no-test", "--transport", "inproc", *more, out=out)["losses"]
        plan, flags = self.folder / "plan.json", ("--workers", 2)
        by_flag = {momentum: losses(*flags, "--momentum", momentum, out=f"flag {momentum}") for momentum in (0, 0.5, 0.9)}
        self.assertEqual(losses(*flags, out="default"), by_flag[0.9])
        for momentum in (0, 0.5):
            self.assertNotEqual(by_flag[momentum], by_flag[0.9])
            self.assertEqual(run("plan", "mlp", *flags, "--momentum", momentum, "--out", plan).returncode, 0)
            self.assertEqual(losses("--plan", plan, out="planned"), by_flag[momentum])
            # Also from the folder of a run.
            self.assertEqual(losses("--plan", self.folder / f"flag {momentum}", out="again"), by_flag[momentum])
        # As an earlier version wrote it: no state, so no momentum.
        self.assertEqual(run("plan", "mlp", *flags, "--momentum", 0, "--out", plan).returncode, 0)
        old = json.loads(plan.read_text())
        del old["checksum"], old["request"]["momentum"]
        plan.write_text(json.dumps(old))
        self.assertEqual(losses("--plan", plan, out="old"), by_flag[0])
        # Said otherwise, it is told and kept.
        answer = run("train", "mlp", *SYNTHETIC, "--steps", 6, "--no-test", "--transport", "inproc", "--plan", plan, "--momentum",
                     0.5, "--json", "--out", self.folder / "other")
        self.assertEqual(json.loads(answer.stdout)["losses"], by_flag[0.5])
        self.assertIn("--momentum 0.5 takes more optimizer state than the plan was made for", answer.stderr)
        request = json.loads((self.folder / "other" / "plan.json").read_text())["request"]
        self.assertEqual((request["momentum"], request["optimizer_states"]), (0.5, 1))

    def test_a_plan_is_trained_with_the_optimizer_that_it_was_made_for(self):
        flags = (*SYNTHETIC, "--steps", 3, "--no-test", "--transport", "inproc", "--json")
        plan = self.folder / "plan.json"
        plain = json.loads(run("plan", "mlp", "--workers", 2, "--momentum", 0, "--json").stdout)
        for optimizer, states, told in (("adagrad", 1, "adagrad, rate 0.01, epsilon 1e-10"),
                                        ("adam", 2, "adam, rate 0.001, betas 0.9 and 0.999, epsilon 1e-08")):
            given = ("--workers", 2, "--optimizer", optimizer, "--momentum", 0)  # which is of sgd: the plan keeps none
            made = json.loads(run("plan", "mlp", *given, "--out", plan, "--json").stdout)
            for with_states, sgd in zip(made["workers"], plain["workers"], strict=True):
                self.assertGreater(with_states["peak_bytes"], sgd["peak_bytes"])
            request = json.loads(plan.read_text())["request"]
            self.assertEqual((request["optimizer"], request["optimizer_states"]), (optimizer, states))
            by_plan = json.loads(run("train", *flags, "--plan", plan, "--out", self.folder / f"{optimizer} planned").stdout)
            by_flag = json.loads(run("train", "mlp", *flags, *given, "--out", self.folder / optimizer).stdout)
            self.assertEqual(by_plan["losses"], by_flag["losses"])
            self.assertEqual(by_plan["optimizer"], told)
            for worker in by_plan["workers"]:
                self.assertEqual(worker["peak_bytes"], worker["proved_bytes"])
        again = run("train", *flags, "--plan", plan, "--optimizer", "sgd", "--out", self.folder / "c")
        self.assertIn("--momentum 0.9 takes less optimizer state than the plan was made for", again.stderr)
        self.assertIn("Nesterov momentum 0.9", json.loads(run("train", "mlp", *flags, "--nesterov", "--out", self.folder / "d").stdout)
                      ["optimizer"])

    def test_rates_follow_their_schedule_and_early_stop_keeps_the_best(self):
        report = self.train("mlp", *SYNTHETIC, "--workers", 2, "--transport", "inproc", "--steps", 6, "--lr", 0.1, "--lr-schedule",
                            "step:2:0.5", "--warm-up", 2, "--no-test")
        self.assertEqual(report["learning_rates"], [0.05, 0.1, 0.1, 0.1, 0.05, 0.05])
        report = self.train("mlp", *SYNTHETIC, "--workers", 2, "--transport", "inproc", "--epochs", 60, "--lr", 2, "--early-stop", 2,
                            "--clip-norm", 1)
        losses = [evaluation["loss"] for evaluation in report["evaluations"]]
        best = losses.index(min(losses))
        self.assertLess(best + 3, 61)
        self.assertEqual(len(losses), best + 3)
        self.assertEqual([evaluation["kept"] for evaluation in report["evaluations"]], [i == best for i in range(len(losses))])
        found = json.loads(run("eval", "mlp", "--data", report["data"], "--weights", self.folder / "run" / "weights.safetensors",
                               "--batch", report["plan"]["batch"], "--micro-batches", report["plan"]["micro_batches"], "--json").stdout)
        self.assertEqual((found["loss"], found["accuracy"]), (losses[best], report["accuracy"]))
        self.assertEqual(found["top5"], report["evaluations"][best]["top5"])
        self.assertIsNone(found["perplexity"])

    def test_messages_take_memory_on_both_sides_where_they_travel(self):
        def peaks(*more):
            answer = run("plan", "lenet5", "--workers", 3, *more, "--json")
            return [worker["peak_bytes"] for worker in json.loads(answer.stdout)["workers"]]
        for here, there in zip(peaks("--transport", "shm"), peaks("--transport", "tcp")):
            self.assertLess(here, there)
        # A GPU exports whole blocks of 2 MiB.
        for here, there in zip(peaks("--transport", "shm"), peaks("--transport", "cuda")):
            self.assertLess(here + (1 << 20), there)
        one, four = peaks(), peaks("--threads", 4)
        self.assertTrue(all(less <= more for less, more in zip(one, four)))
        self.assertGreater(sum(four), sum(one), "each thread takes scratch memory")

    def test_messages_of_one_to_all_chains(self):
        """(L-1)*2 for the layer cut, (L-1)*F*(F-1)*2 for feature, (L-1)*F*F*2 for hybrid, times micro-batches."""
        sizes, layers, micro_batches = "512-512-512-512-512", 4, 8

        def between(*flags):
            answer = run("plan", "mlp", "--sizes", sizes, "--micro-batches", micro_batches, "--json", *flags)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            return json.loads(answer.stdout)["per_step"]["between_layers"]["messages"]

        for stages in (2, 3, 4):
            self.assertEqual(between("--cut", "layer", "--workers", stages), (stages - 1) * 2 * micro_batches)
        for parts in (2, 3, 4):
            self.assertEqual(between("--cut", "feature", "--pairs", "off", "--workers", parts),
                             (layers - 1) * parts * (parts - 1) * 2 * micro_batches)
        for parts in (1, 2, 3):
            self.assertEqual(between("--cut", "hybrid", "--pairs", "off", "--stages", layers, "--workers", layers * parts),
                             (layers - 1) * parts * parts * 2 * micro_batches)

    def test_no_colour_reaches_a_pipe(self):
        for arguments in (("plan", "lenet5"), ("devices",), ("schedule", "1f1b")):
            self.assertNotIn("\x1b", run(*arguments).stdout)


    def test_only_a_terminal_that_obeys_escapes_gets_them(self):
        def escapes(**environment):
            ours, theirs = pty.openpty()
            with open(ours, "rb", buffering=0) as screen, open(theirs, "wb", buffering=0) as terminal:
                keep = {key: value for key, value in os.environ.items() if key not in ("TERM", "NO_COLOR")}
                subprocess.run([KERF, "plan", "mlp"], stdout=terminal, env={**keep, **environment}, check=True)
                terminal.write(b"#")
                shown = b""
                while b"#" not in shown:
                    shown += screen.read(4096)
            return b"\x1b" in shown
        self.assertTrue(escapes(TERM="xterm"))
        for environment in ({"TERM": "dumb"}, {"TERM": ""}, {}, {"TERM": "xterm", "NO_COLOR": "1"}):
            self.assertFalse(escapes(**environment), environment)


class PlansByHand(KerfTest):
    """A plan's text holds what was decided; what follows from it may be left out."""

    FOLLOWS = ("layouts", "routes", "workers", "bottleneck", "bound", "checksum")

    def setUp(self):
        super().setUp()
        self.plan = self.folder / "plan.json"
        self.common = ("lenet5", *SYNTHETIC, *BRIEFLY, "--plan", self.plan)

    def test_without_routes_and_predictions(self):
        self.assertEqual(run("plan", "lenet5", "--workers", 3, "--out", self.plan).returncode, 0)
        whole = json.loads(self.plan.read_text())
        expected = self.train(*self.common, out="whole")
        for absent in (("routes",), ("workers", "checksum"), ("routes", "workers", "bottleneck", "bound"), self.FOLLOWS,
                       (*self.FOLLOWS, "request")):
            with self.subTest(absent=absent):
                self.plan.write_text(json.dumps({key: value for key, value in whole.items() if key not in absent}))
                report = self.train(*self.common, out="part")
                self.assertEqual(report["losses"], expected["losses"])
                for key in ("workers", "routes", "stages"):
                    self.assertEqual(report["plan"][key], expected["plan"][key], key)
                kept = json.loads((self.folder / "part" / "plan.json").read_text())
                untold = {"request", *({"bound"} & set(absent))}  # a bound follows from nothing
                self.assertEqual(set(kept) - untold, set(whole) - untold)
                self.assertEqual("bound" in kept, "bound" not in absent)
                self.assertEqual(report["plan"]["gap"] is None, "bound" in absent)

    def test_a_boundary_is_moved_by_editing_one_line(self):
        self.assertEqual(run("plan", "lenet5", "--workers", 2, "--short", "--out", self.plan).returncode, 0)
        before = self.train(*self.common, out="before")
        lines = self.plan.read_text().splitlines(True)
        (at,) = [number for number, line in enumerate(lines) if '"parts": [1]' in line]
        nodes = [node for stage in before["plan"]["stages"] for node in stage["nodes"]]
        first = before["plan"]["stages"][1]["nodes"][0]
        moved = nodes[nodes.index(first) - 1]
        lines[at] = lines[at].replace(f'"{first}"', f'"{moved}"')
        self.plan.write_text("".join(lines))
        after = self.train(*self.common, out="after")
        self.assertEqual(after["losses"], before["losses"], "bit for bit")
        self.assertTrue(after["equal"])
        self.assertEqual(after["plan"]["stages"][1]["nodes"], [moved, *before["plan"]["stages"][1]["nodes"]])

    def test_short_plans_of_groups_say_no_more_than_needed(self):
        for cut in ("feature", "batch", "hybrid"):
            with self.subTest(cut=cut):
                made = run("plan", "mlp", "--cut", cut, "--workers", 4, "--short", "--out", self.plan, "--json")
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertFalse(set(self.FOLLOWS) & set(json.loads(self.plan.read_text())))
                report = self.train("mlp", *SYNTHETIC, *BRIEFLY, "--plan", self.plan)
                for key in ("workers", "routes", "stages"):
                    self.assertEqual(report["plan"][key], json.loads(made.stdout)[key])
        self.assert_one_error(run("plan", "mlp", "--short"), "--short", "--out")


class Parts(KerfTest):
    """What each worker of each stage takes: of one stage it is the worker's own; of several they add up to it."""

    SUMS = ("forward_flops", "weight_bytes", "activation_bytes", "messages", "bytes_in", "bytes_out")

    def plan(self, *flags):
        done = run("plan", "lenet5", *flags, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_of_each_cut_they_add_up_to_the_workers(self):
        schedule = self.folder / "v.txt"
        schedule.write_text("kerf-schedule 1\nname v\nworkers 2\nmicro-batches 2\n"
                            "stage 0 on 0\nstage 1 on 1\nstage 2 on 1\nstage 3 on 0\n"
                            "row 0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0U 3U\n"
                            "row 1: 1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1U 2U\n")
        for flags in (("--workers", 3), ("--cut", "feature", "--workers", 3), ("--cut", "batch", "--workers", 2),
                      ("--cut", "hybrid", "--workers", 4), ("--schedule", schedule)):
            with self.subTest(flags=flags):
                plan = self.plan(*flags)
                places = [(part["stage"], part["worker"]) for part in plan["parts"]]
                self.assertEqual(places, [(s, w) for s, stage in enumerate(plan["stages"]) for w in stage["workers"]])
                for worker in plan["workers"]:
                    mine = [part for part in plan["parts"] if part["worker"] == worker["worker"]]
                    for key in self.SUMS:
                        self.assertEqual(sum(part[key] for part in mine), worker[key], key)
                    self.assertAlmostEqual(sum(part["seconds"] for part in mine), worker["seconds"])
                if plan["cut"] == "layer":
                    self.assertEqual([part["operators"] for part in plan["parts"]],
                                     [len(stage["nodes"]) for stage in plan["stages"]])

    def test_the_table_has_a_row_for_each_and_one_for_a_worker_of_several(self):
        text = run("plan", "lenet5", "--workers", 3).stdout.splitlines()
        head = next(line for line in text if line.startswith("worker")).split()
        for word in ("stage", "operators", "forward", "weights", "activations", "peak", "out", "in", "time/step"):
            self.assertIn(word, head)
        rows = [line.split()[:3] for line in text if line[:1].isdigit()]
        stages = self.plan("--workers", 3)["stages"]
        self.assertEqual(rows, [[str(s), str(s), str(len(stage["nodes"]))] for s, stage in enumerate(stages)])

    def test_long_stages_are_told_by_their_ends(self):
        text = run("plan", "resnet18", "--workers", 2).stdout
        nodes = json.loads(run("plan", "resnet18", "--workers", 2, "--json").stdout)["stages"][1]["nodes"]
        line = next(line for line in text.splitlines() if line.startswith("stage 1 on 1: "))
        self.assertIn(f"{nodes[0]} {nodes[1]} ", line)
        self.assertTrue(line.endswith(f"{nodes[-1]} ({len(nodes)} operators)"), line)


class FitBatch(KerfTest):
    def test_one_more_row_a_micro_batch_would_not_fit(self):
        flags = ("plan", "lenet5", "--workers", 2, "--micro-batches", 4, "--memory", "4M", "--json")
        done = run(*flags, "--fit-batch")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual(plan["batch"] % 4, 0)
        self.assertLessEqual(max(worker["peak_bytes"] for worker in plan["workers"]), 4 << 20)
        self.assertEqual(run(*flags, "--batch", plan["batch"]).returncode, 0)
        self.assert_one_error(run(*flags, "--batch", plan["batch"] + 4), "no plan fits")

    def test_a_cut_by_samples_begins_with_a_row_for_each_worker(self):
        flags = ("plan", "mlp", "--cut", "batch", "--workers", 3, "--micro-batches", 4, "--memory", "24M", "--json")
        done = run(*flags, "--fit-batch")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["batch"]
        self.assertGreaterEqual(rows, 3 * 4)
        self.assert_one_error(run(*flags, "--batch", rows + 4), "no plan fits")
        self.assert_one_error(run(*flags[:-2], "1M", "--fit-batch"), "no plan fits")

    def test_caps_may_be_the_devices_own(self):
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1, "memory": 4 << 20}, "1": {"speed": 1, "memory": 2 << 20}}}))
        flags = ("plan", "lenet5", "--workers", 2, "--micro-batches", 4, "--devices", devices, "--json")
        done = run(*flags, "--fit-batch")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["batch"]
        self.assertEqual(run(*flags, "--batch", rows).returncode, 0)
        self.assert_one_error(run(*flags, "--batch", rows + 4), "no plan fits")

    def test_it_wants_a_cap_and_no_batch(self):
        self.assert_one_error(run("plan", "lenet5", "--fit-batch"), "--fit-batch", "--memory")
        self.assert_one_error(run("plan", "lenet5", "--fit-batch", "--memory", "4M", "--batch", 8), "--fit-batch", "--batch")
        self.assert_one_error(run("plan", "lenet5", "--fit-batch", "--memory", "1000"), "no plan fits")


class Why(KerfTest):
    def test_it_tells_what_moving_a_boundary_would_cost(self):
        done = run("plan", "lenet5", "--workers", 3, "--why", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual([(each["before"], each["after"]) for each in plan["why"]], [(0, 1), (1, 2)])
        for boundary in plan["why"]:
            self.assertTrue(boundary["crossing"])
            for move in boundary["moves"]:
                self.assertGreaterEqual(move["bottleneck"], plan["bottleneck"])
                elsewhere = plan["stages"][boundary["before"] + boundary["after"] - move["to"]]["nodes"]
                self.assertLessEqual(set(move["operators"]), set(elsewhere))
        text = run("plan", "lenet5", "--workers", 3, "--why").stdout
        for boundary in plan["why"]:
            self.assertIn(boundary["crossing"][0], text)
            for move in boundary["moves"]:
                self.assertIn(f"{move['operators'][0]}", text)
                self.assertIn(f"to stage {move['to']}", text)
        self.assertIn("one stage", run("plan", "lenet5", "--cut", "feature", "--why").stdout)
        self.assertNotIn("why", json.loads(run("plan", "lenet5", "--json").stdout))

    def test_a_stage_of_a_large_picture_is_opened(self):
        picture = self.folder / "p.svg"
        flags = ("plan", "densenet121", "--width", 0.125, "--image-size", 64, "--workers", 3, "--picture", picture)
        self.assertEqual(run(*flags, "--open", 1).returncode, 0)
        self.assertIn("stage 1 is opened", picture.read_text())
        self.assert_one_error(run(*flags, "--open", 3), "--open", "no stage 3", "0 to 2")
        self.assert_one_error(run("plan", "lenet5", "--open", 0), "--open", "--picture")


class Profile(KerfTest):
    NET = ("mlp", "--sizes", "784-256-256-10")

    def profile(self, name="p.json"):
        file = self.folder / name
        answer = run("profile", *self.NET, "--rows", 32, "--steps", 4, "--out", file, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(file.read_text()), json.loads(answer.stdout))
        return file, json.loads(answer.stdout)

    def plan(self, *arguments):
        answer = run("plan", *self.NET, "--workers", 2, "--micro-batches", 4, "--json", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def test_a_plan_takes_as_long_as_was_measured(self):
        file, told = self.profile()
        self.assertEqual(set(told["seconds"]), {"fc1", "relu1", "fc2", "relu2", "fc3", "loss"})
        for seconds in told["seconds"].values():
            self.assertGreater(seconds["measured"]["forward"], 0)
        self.assertEqual(told["seconds"]["fc1"]["measured"]["input_gradient"], 0)
        measured = sum(sum(each["measured"].values()) for each in told["seconds"].values())
        plan = self.plan("--batch", 128, "--profile", file)
        seconds = sum(worker["seconds"] for worker in plan["workers"])
        self.assertAlmostEqual(seconds, 4 * measured, delta=1e-6 * seconds)  # of 32 rows each
        cut_by_hand = {**told, "profile": {"operators": {"fc3": [1e6, 1, 1]}}}
        file.write_text(json.dumps(cut_by_hand))
        self.assertEqual(self.plan("--profile", file)["stages"][1]["nodes"], ["fc3", "loss"])

    def test_a_plan_keeps_the_profile_that_it_was_made_by(self):
        file, _ = self.profile()
        out = self.folder / "plan.json"
        plan = self.plan("--profile", file, "--out", out)
        file.unlink()
        report = self.train("--plan", out, *SYNTHETIC, "--steps", 2)
        self.assertEqual([worker["predicted_step_seconds"] for worker in report["workers"]],
                         [worker["seconds"] for worker in plan["workers"]])

    def test_a_run_is_planned_anew_by_what_it_measured(self):
        self.train(*self.NET, *SYNTHETIC, "--workers", 2, "--micro-batches", 4, "--steps", 4)
        folder = self.folder / "run"
        profile = json.loads((folder / "profile.json").read_text())
        profile["profile"] = {"operators": {"fc3": [1e6, 1e6, 1e6]}}
        (folder / "profile.json").write_text(json.dumps(profile))
        before = json.loads((folder / "plan.json").read_text())
        answer = run("plan", *self.NET, "--from-run", folder, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        anew = json.loads(answer.stdout)
        self.assertEqual((anew["batch"], anew["micro_batches"], len(anew["workers"])),
                         (before["batch"], 4, 2))
        self.assertEqual(anew["stages"][1]["nodes"], ["fc3", "loss"])
        self.assertLessEqual(max(worker["seconds"] for worker in anew["workers"]),
                             max(worker["seconds"] for worker in anew["from_run"]["before"]))
        had = [name for name in before["stages"][1]["nodes"] if name.startswith("fc") and name != "fc3"]
        moved = anew["from_run"]["moved"]
        self.assertEqual([(each["name"], each["to"]) for each in moved],
                         [(f"{name}.{part}", 0) for name in had for part in ("weight", "bias")])
        self.assertEqual([each["bytes"] for each in moved if each["name"] == "fc2.weight"], [256 * 256 * 4])
        text = run("plan", "--from-run", folder).stdout  # whose model is the run's
        self.assertIn("of weights would move", text)
        self.assertEqual(run("plan", *self.NET, "--from-run", folder).stdout, text)

    def test_a_run_is_planned_anew_as_it_was_asked(self):
        again, run_folder = self.folder / "again.json", self.folder / "run"
        asked = ("--workers", 2, "--batch", 64, "--micro-batches", 4, "--objective", "forward-flops", "--slots", 8, "--threads", 2,
                 "--momentum", 0, "--memory", "64M", "--transport", "ipc", "--together", "conv1,conv2", "--slack", 0.25)
        made = run("plan", "lenet5", *asked, "--out", self.folder / "plan.json")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.train("--plan", self.folder / "plan.json", *SYNTHETIC, "--transport", "ipc", "--steps", 2, "--no-test")
        kept = json.loads((run_folder / "plan.json").read_text())

        def request(*flags):
            done = run("plan", "--from-run", run_folder, *flags, "--out", again, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            plan = json.loads(again.read_text())
            plan["request"].pop("profile")
            return plan
        plan = request()
        self.assertEqual(plan["request"], kept["request"])
        for key in ("cut", "batch", "micro_batches", "schedule", "binding"):
            self.assertEqual(plan[key], kept[key])
        # A flag goes before what the run was asked, and leaves the rest of it.
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 2}}}))
        steering = kept["request"]["steering"]
        self.assertEqual(request("--devices", devices)["request"]["steering"], steering)
        self.assertEqual(request("--apart", "conv1,fc2")["request"]["steering"], {"together": steering["together"], "apart": [["conv1", "fc2"]],
                                                                                    "slack": 0.25})
        self.assertEqual(request("--together", "fc1,fc2", "--slots", 3)["request"]["slots"], 3)
        self.assertNotIn("steering", request("--cut", "feature")["request"])
        self.assertIn("--together conv1,conv2 --slack 0.25\n", run("report", run_folder).stdout)
        self.assertEqual(json.loads(run("report", run_folder, "--json", "--plan").stdout)["asked"], steering)
        self.assertEqual(json.loads((run_folder / "run.json").read_text())["asked"], steering)
        self.assertIn(f"by what {run_folder} measured", run("plan", "--from-run", run_folder).stdout)

    def test_a_run_by_a_schedule_of_its_own_is_planned_for_that(self):
        file, out = self.folder / "mine.txt", self.folder / "out.json"
        file.write_text("kerf-schedule 1\nname v\nworkers 2\nmicro-batches 2\n"
                        "stage 0 on 0\nstage 1 on 1\nstage 2 on 1\nstage 3 on 0\n"
                        "row 0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0U 3U\n"
                        "row 1: 1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1U 2U\n")
        self.train("lenet5", *SYNTHETIC, *BRIEFLY, "--schedule", file)
        folder = self.folder / "run"
        done = run("plan", "--from-run", folder, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual([stage["workers"] for stage in plan["stages"]], [[0], [1], [1], [0]])
        self.assertEqual(plan["schedule"], str(folder / "schedule.txt"))
        for flags in (("--workers", 3), ("--micro-batches", 4), ("--cut", "feature"), ("--stages-per-worker", 2)):
            self.assert_one_error(run("plan", "--from-run", folder, *flags, "--out", out), "--from-run: ", "--schedule")
        self.assertFalse(out.exists())
        done = run("plan", "--from-run", folder, "--workers", 3, "--schedule", "gpipe", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_free_cuts_are_planned_anew_by_what_made_them(self):
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 2}}}))
        for name, flags in (("ways", ("--way", "fc1=batch", "--way", "fc2=feature")), ("pattern", ("--cut", "free", "--pattern", "even")),
                            ("devices", ("--cut", "free", "--devices", devices)), ("others", ("--cut", "batch", "--way", "fc2=feature"))):
            with self.subTest(name):
                self.train(*self.NET, *SYNTHETIC, *flags, "--workers", 2, "--steps", 2, "--no-test", out=name)
                kept = json.loads((self.folder / name / "plan.json").read_text())
                done = run("plan", "--from-run", self.folder / name, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                anew = json.loads(done.stdout)
                self.assertEqual(anew["cut"], "free")
                asked = {**kept["request"].get("steering", {}), **{key: value for key, value in kept["request"].items() if key == "devices"}}
                self.assertEqual(anew["asked"], asked)
        done = run("plan", "--from-run", self.folder / "ways", "--way", "fc*=feature", "--json")
        self.assertEqual(json.loads(done.stdout)["asked"]["ways"], [{"nodes": "fc*", "way": "feature"}])

    def test_the_median_is_of_as_many_steps_as_it_says(self):
        for steps, told in ((4, "the median of 3 steps"), (1, "the median of 1 step\n")):
            done = run("profile", *self.NET, "--rows", 8, "--steps", steps, "--out", self.folder / "p.json")
            self.assertIn(told, done.stdout)

    def test_a_run_that_shares_cut_leaves_nothing_to_plan_anew(self):
        shares = self.folder / "shares.json"
        shares.write_text(json.dumps({"kerf_shares": 1, "shares": {"fc1": {"0": "all"}, "fc2": {"1": "all"}}}))
        self.train(*self.NET, *SYNTHETIC, "--cut", "free", "--shares", shares, "--workers", 2, "--steps", 2)
        folder = self.folder / "run"
        self.assert_one_error(run("plan", "--from-run", folder), "--from-run", "--cut", "--shares")
        self.assertEqual(run("plan", "--from-run", folder, "--cut", "layer").returncode, 0)
        self.assertEqual(run("plan", "--from-run", folder, "--way", "fc*=feature").returncode, 0)

    def test_what_is_no_profile_of_the_model_is_named(self):
        file, told = self.profile()
        other = run("plan", "mlp", "--profile", file)
        self.assertEqual(other.returncode, 2)
        self.assertIn("this profile is of another model", other.stderr)
        for wrong, complaint in (({"kerf_profile": 2}, "version"), ({"more": 1}, "more"),
                                 ({"profile": {"operators": {"fc1": [1, 0, 1]}}}, "profile.operators.fc1: 0"),
                                 ({"profile": {"operators": {"fc1": [1, 1]}}}, "three numbers"),
                                 ({"profile": {"operators": []}}, "operators"),
                                 ({"profile": {}}, "operators")):
            with self.subTest(wrong=wrong):
                file.write_text(json.dumps({**told, **wrong}))
                answer = run("plan", *self.NET, "--profile", file)
                self.assertEqual(answer.returncode, 2, answer.stderr)
                self.assertIn(str(file), answer.stderr)
                self.assertIn(complaint, answer.stderr)


class Automatic(KerfTest):
    """The automatic cut becomes one of the others, and says what it tried."""

    def test_it_is_the_candidate_of_the_shortest_step_and_its_plan_is_read_again(self):
        path = self.folder / "plan.json"
        told = run("plan", "lenet5", "--cut", "auto", "--workers", 2, "--out", path, "--json")
        self.assertEqual(told.returncode, 0, told.stderr)
        plan = json.loads(told.stdout)
        self.assertLessEqual({"layer", "layer, by step", "feature", "hybrid in 2 stages"}, {each["cut"] for each in plan["tried"]})
        self.assertEqual(plan["step_seconds"], min(each["step_seconds"] for each in plan["tried"] if "step_seconds" in each))
        self.assertNotEqual(plan["cut"], "auto")
        compared = run("compare", path, "--json")
        self.assertEqual(compared.returncode, 0, compared.stderr)
        self.assertEqual(json.loads(compared.stdout)["plans"][0]["step_seconds"], plan["step_seconds"])

    def test_what_contradicts_it_is_refused(self):
        for flags in (("--objective", "forward-flops"), ("--fit-batch", "--memory", "1G"), ("--stages", 2)):
            refused = run("plan", "lenet5", "--cut", "auto", *flags)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(flags[0], refused.stderr)


class Compare(KerfTest):
    """Plans side by side say what each says by itself."""

    def plan(self, name, *flags):
        path = self.folder / name
        told = run("plan", *flags, "--out", path, "--json")
        self.assertEqual(told.returncode, 0, told.stderr)
        return path, json.loads(told.stdout)

    def test_each_line_is_what_the_plan_said(self):
        plans = [self.plan("layers.json", "lenet5", "--workers", 3),
                 self.plan("features.json", "lenet5", "--cut", "feature", "--workers", 2)]
        done = run("compare", *[path for path, _ in plans], "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        for told, (path, plan) in zip(json.loads(done.stdout)["plans"], plans, strict=True):
            self.assertEqual((told["file"], told["cut"], told["workers"]), (str(path), plan["cut"], len(plan["workers"])))
            for name in ("seconds", "forward_flops", "weight_bytes"):
                self.assertEqual(told[name], max(worker[name] for worker in plan["workers"]), name)
            self.assertEqual(told["peak_bytes"], max(plan["proved_bytes"]))
            self.assertEqual(told["messages"], sum(worker["messages"] for worker in plan["workers"]))
            self.assertEqual(told["bytes"], sum(worker["bytes_out"] for worker in plan["workers"]))
            self.assertEqual(told["cut_bytes"], plan["cut_bytes"])
            self.assertEqual(told["step_seconds"], plan["step_seconds"])
            for worker, idle, copies in zip(plan["workers"], plan["idle"], plan["copy_seconds"], strict=True):
                self.assertAlmostEqual(worker["seconds"] + copies, (1 - idle) * plan["step_seconds"])
        for_people = run("compare", *[path for path, _ in plans])
        self.assertEqual(for_people.returncode, 0, for_people.stderr)
        for path, plan in plans:
            self.assertRegex(for_people.stdout, rf"(?m)^{path} +{plan['cut']} ")
        self.assertNotIn("models", for_people.stdout)

    def test_what_cannot_be_compared_is_told(self):
        lenet, _ = self.plan("a.json", "lenet5", "--batch", 64)
        mlp, _ = self.plan("b.json", "mlp")
        done = run("compare", lenet, mlp)
        self.assertIn("they are of 2 models: lenet5, mlp", done.stdout)
        self.assertIn("of different batches: 64, 128 rows", done.stdout)
        # Of one name, but not of one size.
        small, _ = self.plan("c.json", "mlp", "--sizes", "784-10-10")
        done = run("compare", small, mlp)
        self.assertIn("they are of 2 models: mlp", done.stdout)
        self.assertIn("mlp 784-10-10", done.stdout)
        self.assertNotIn("they are of", run("compare", mlp, mlp).stdout)

    def test_what_is_no_plan_is_named(self):
        plan, _ = self.plan("a.json", "lenet5")
        self.assert_one_error(run("compare", plan, self.folder / "none.json"), "none.json")
        (self.folder / "bad.json").write_text("{")
        self.assert_one_error(run("compare", plan, self.folder / "bad.json"), "bad.json:1:")


class Schedule(KerfTest):
    def test_draws_and_proves(self):
        answer = run("schedule", "1f1b", "--workers", 3, "--micro-batches", 4)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("proved", answer.stdout)
        self.assertIn("idle", answer.stdout)

    def test_text_reads_back(self):
        file = self.folder / "mine.txt"
        made = json.loads(run("schedule", "gpipe", "--workers", 3, "--micro-batches", 4, "--json", "--out", file).stdout)
        read = json.loads(run("schedule", file, "--json").stdout)
        self.assertEqual(made, read)
        self.assertTrue(read["verified"])

    def test_with_a_model_it_tells_the_smallest_safe_slots_and_the_peak(self):
        # GPipe's workers send all before they receive any: what both ends hold is enough.
        for schedule, slots in (("1f1b", 1), ("gpipe", 0)):
            flags = ("--model", "lenet5", "--workers", 3, "--slots", 3, "--json")
            report = json.loads(run("schedule", schedule, *flags).stdout)
            self.assertEqual((report["smallest_safe_slots"], report["slots"]), (slots, 3))
            planned = json.loads(run("plan", "lenet5", *flags[2:], "--schedule", schedule).stdout)
            self.assertEqual(report["peak_bytes"], [worker["peak_bytes"] for worker in planned["workers"]])


    def test_a_plan_brings_its_schedule(self):
        plan = self.folder / "plan.json"
        self.assertEqual(run("plan", "mlp", "--workers", 2, "--schedule", "gpipe", "--out", plan).returncode, 0)
        for name, expected in (((), "gpipe"), (("1f1b",), "1f1b")):
            answer = run("schedule", *name, "--model", "mlp", "--plan", plan, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual(json.loads(answer.stdout)["name"], expected)

    def test_four_workers_with_a_model_and_without(self):
        for more in ((), ("--model", "lenet5")):
            self.assertEqual(json.loads(run("schedule", *more, "--json").stdout)["workers"], 4)

    def test_one_of_a_thing_is_not_several(self):
        answer = run("schedule", "gpipe", "--model", "mlp", "--workers", 1, "--micro-batches", 1, "--slots", 1)
        self.assertIn("gpipe: 1 worker, 1 stage, 1 micro-batch\n", answer.stdout)
        self.assertIn("no deadlock with 1 slot\n", answer.stdout)

    def test_a_deadlock_is_refuted_without_a_model(self):
        file = self.folder / "stuck.txt"
        file.write_text("kerf-schedule 1\nname stuck\nworkers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 1\n"
                        "row 0: 0F0 0B0 0F1 0B1 0U\nrow 1: 1F0 1F1 1B0 1B1 1U\n")
        answer = run("schedule", file)
        self.assert_one_error(answer, "stuck.txt", "worker 0: 0B0: waits for ever", "worker 1: 1F1: waits for ever", code=1)
        self.assertNotIn("proved", answer.stdout)

    def test_refuted_is_1_and_unreadable_is_2(self):
        file = self.folder / "mine.txt"
        self.assertEqual(run("schedule", "1f1b", "--workers", 2, "--micro-batches", 2, "--out", file).returncode, 0)
        sound = file.read_text()
        for more in ((), ("--model", "mlp"), ("--json",)):
            file.write_text(sound.replace("1B1", "1B0"))
            answer = run("schedule", file, *more)
            self.assert_one_error(answer, "mine.txt", "refuted", code=1)
            self.assertNotIn('"verified": true', answer.stdout)
        file.write_text(sound.replace("0F1", "0Q1"))
        self.assert_one_error(run("schedule", file), "mine.txt:", code=2)
        file.unlink()
        self.assert_one_error(run("schedule", file), "mine.txt", code=2)

    def test_built_in_schedules_are_proved_with_what_they_need(self):
        for name, chunks, idle in (("1f1b", 1, 3 / 11), ("interleaved", 2, 3 / 19), ("zb-h1", 1, 3 / 27), ("zbv", 2, 3 / 51)):
            report = json.loads(run("schedule", name, "--workers", 4, "--micro-batches", 8, "--json").stdout)
            self.assertEqual((report["workers"], report["stages"], report["verified"]), (4, 4 * chunks, True), name)
            self.assertAlmostEqual(report["bubble_step"], idle)
            self.assertEqual((report["smallest_buffer"], report["buffer"]), (1, 1), name)
        self.assertEqual(report["bubble_span"], 0)
        self.assertEqual((report["makespan"], report["peak_activations"]), (51, [8, 8, 8, 8]))

    def test_the_buffer_decides(self):
        for buffer, code in (("unbounded", 0), ("1", 0), ("rendezvous", 1)):
            answer = run("schedule", "1f1b", "--workers", 2, "--micro-batches", 4, "--buffer", buffer, "--json")
            report = json.loads(answer.stdout)
            self.assertEqual((answer.returncode, report["verified"]), (code, code == 0), buffer)
            self.assertEqual(report["buffer"], int(buffer) if buffer == "1" else buffer)
        self.assert_one_error(answer, "deadlock under rendezvous", "worker 0: 0F1: waits for ever until stage 1 takes up",
                              "worker 1: 1B0: waits for ever until stage 0 takes up", code=1)

    def test_costs_are_those_given(self):
        flags = ("--workers", 2, "--micro-batches", 4, "--json")
        file = self.folder / "costs.json"
        file.write_text(json.dumps({"kerf_costs": 1, "COMM": 0.5, "stages": [{"F": 1, "I": 2, "W": 3}] * 2}))
        for costs in (file, "1,2,3,0.5"):
            report = json.loads(run("schedule", "gpipe", "--costs", costs, *flags).stdout)
            self.assertEqual(report["makespan"], 5 * 6 + 2 * 0.5)
        self.assert_one_error(run("schedule", "gpipe", "--costs", "1,2", *flags), "--costs", "I and W", code=2)
        file.write_text('{"kerf_costs": 1, "stages": [{"F": -1, "I": 1, "W": 1}]}')
        self.assert_one_error(run("schedule", "gpipe", "--costs", file, *flags), "stages[0]", "F costs -1", code=2)

    def test_idle_time_is_told_apart(self):
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 2}}}))
        flags = ("--workers", 2, "--micro-batches", 20, "--costs", "1,1,1,0.1", "--json")
        report = json.loads(run("schedule", "1f1b", "--devices", devices, "--jitter", 0.2, *flags).stdout)
        self.assertAlmostEqual(sum(report["idle"].values()), report["bubble_step"])
        self.assertGreater(report["idle"]["imbalance"], 0.15)
        self.assertTrue(report["makespan"] < report["makespan_p95"] < 1.2 * report["makespan"])
        self.assertNotIn("makespan_p95", json.loads(run("schedule", "1f1b", *flags).stdout))
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 0}, "1": {"speed": 2}}}))
        self.assert_one_error(run("schedule", "1f1b", "--devices", devices, *flags), "devices.json", "worker 0", "speed", code=2)

    def test_a_period_is_what_an_endless_schedule_takes_in_the_long_run(self):
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 2}, "1": {"speed": 2}}}))

        def period(*flags):
            return json.loads(run("schedule", "pipedream", "--workers", 2, *flags, "--json").stdout)["period"]

        # Two micro-batches are under way: they take turns of 3 and 13.
        late = ("--costs", "1,1,1,5", "--micro-batches")
        self.assertEqual((period(*late, 1), period(*late, 2), period(*late, 1, "--jitter", 0.5)), (8, 16, 8))
        self.assertEqual(period("--micro-batches", 1, "--devices", devices), 1.5)

    def test_what_is_too_long_to_prove_is_simulated(self):
        report = json.loads(run("schedule", "1f1b", "--workers", 1024, "--micro-batches", 1024, "--json").stdout)
        self.assertIsNone(report["verified"])
        self.assertEqual(report["makespan"], 3 * (1024 + 1023))
        for flags in (("--workers", 65536, "--micro-batches", 65536), ("--workers", 65536, "--chunks", 4096)):
            self.assert_one_error(run("schedule", "interleaved", *flags), "are more than", code=2)

    def test_pytorchs_form_is_read_and_written_back(self):
        file, back = self.folder / "torch.csv", self.folder / "back.csv"
        text = ("0F0,0SEND_F0,0F1,0SEND_F1,,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
                "1RECV_F0,1RECV_F1,1F0,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1B1,1SEND_B1\r\n")
        file.write_bytes(text.encode())
        report = json.loads(run("schedule", file, "--csv", back, "--json").stdout)
        self.assertEqual((report["verified"], report["same_bits"], report["micro_batches"]), (True, True, 2))
        self.assertEqual(report["transfers"], "written")
        self.assertEqual(back.read_bytes().decode(), text)
        file.write_text(text.replace(",1SEND_B1", ""))
        self.assert_one_error(run("schedule", file), "refuted: worker 1: 1SEND_B1 is missing", code=1)
        file.write_text(text.replace("1RECV_F0,1RECV_F1,1F0", "1RECV_F1,1RECV_F0,1F0"))
        self.assert_one_error(run("schedule", file, "--buffer", 2), "1RECV_F1 would get what 0SEND_F0 sends", code=1)
        self.train("mlp", *SYNTHETIC, *BRIEFLY, "--schedule", file)
        file.write_text("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n")
        report = json.loads(run("schedule", file, "--json").stdout)
        self.assertEqual((report["verified"], report["same_bits"]), (True, False))
        file.write_text("0F0,0F1,0B0,0X1\n")
        self.assert_one_error(run("schedule", file), "torch.csv:1:14", "a kind expected", code=2)

    def test_a_picture_has_a_box_for_every_action(self):
        picture = self.folder / "zbv.svg"
        run("schedule", "zbv", "--workers", 2, "--micro-batches", 4, "--svg", picture)
        boxes = picture.read_text()
        self.assertEqual(boxes.count("<g><title>") - boxes.count("<g><title>keeps "), 2 * 2 * 4 * 3)

    def test_a_named_schedule_places_the_stages_that_it_is_for(self):
        plan = self.folder / "plan.json"
        made = run("plan", "lenet5", "--workers", 2, "--schedule", "zbv", "--out", plan)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(json.loads(plan.read_text())["binding"], [0, 1, 1, 0])
        for flags, told in ((("--cut", "feature"), "only --cut layer"), (("--stages-per-worker", 3), "2 stages on each worker, not 3"),
                            (("--cut", "auto"), "places them")):
            self.assert_one_error(run("plan", "lenet5", "--workers", 2, "--schedule", "zbv", *flags), told, code=2)
        self.assert_one_error(run("schedule", "zbv", "--chunks", 3), "2 stages on each worker, not 3", code=2)

    def test_flags_that_need_a_plan(self):
        for flag, value in (("--batch", 64), ("--cut", "feature"), ("--sizes", "4-4"), ("--stages", 2), ("--slots", 3),
                            ("--transport", "tcp"), ("--threads", 2)):
            with self.subTest(flag=flag):
                self.assert_one_error(run("schedule", "1f1b", flag, value), flag, "needs --model or --plan")


class ScheduleFiles(KerfTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "mine.txt"
        made = run("schedule", "1f1b", "--workers", 2, "--micro-batches", 4, "--out", self.file)
        self.assertEqual(made.returncode, 0, made.stderr)

    def test_say_how_many_workers_and_micro_batches(self):
        report = self.train("mlp", *SYNTHETIC, *BRIEFLY, "--schedule", self.file)
        self.assertEqual(len(report["workers"]), 2)
        self.assertEqual(report["plan"]["micro_batches"], 4)
        for command in (("plan", "mlp"), ("eval", "mlp", *SYNTHETIC, "--weights", self.folder / "run/weights.safetensors"),
                        ("schedule", self.file, "--model", "mlp")):
            with self.subTest(command=command[0]):
                flags = () if command[0] == "schedule" else ("--schedule", self.file)
                self.assertEqual(run(*command, *flags).returncode, 0)

    def test_that_do_not_fit_are_refused_by_the_name_of_the_file(self):
        train = ("train", "mlp", *SYNTHETIC, *BRIEFLY, "--out", self.folder / "out")
        for command in (("plan", "mlp"), train):
            for flags, part in ((("--workers", 3), "2 workers, not 3"), (("--micro-batches", 8), "4 micro-batches, not 8"),
                                (("--cut", "feature"), "the schedule has 2 stages, the plan 1")):
                with self.subTest(command=command[0], flags=flags):
                    self.assert_one_error(run(*command, "--schedule", self.file, *flags), self.file, "schedule 1f1b", part)

    def test_out_of_order_are_refused_by_the_name_of_the_file(self):
        self.file.write_text(self.file.read_text().replace("1B1", "1B0"))
        self.assert_one_error(run("plan", "mlp", "--schedule", self.file), self.file, "refuted")


    def test_a_folder_is_whole(self):
        """Moved elsewhere, and without the file that the schedule came from, it still trains as it did."""
        text = self.file.read_text()
        report = self.train("mlp", "--sizes", "784-20-10", *SYNTHETIC, *BRIEFLY, "--schedule", self.file)
        self.assertEqual(report["plan"]["schedule"], "schedule.txt")
        self.file.unlink()
        moved = self.folder / "elsewhere" / "kept"
        moved.parent.mkdir()
        (self.folder / "run").rename(moved)
        self.assertEqual((moved / "schedule.txt").read_text(), text)
        for number, plan in enumerate((moved, moved / "plan.json")):
            # The model is the plan's, by --plan alone.
            again = self.train(*SYNTHETIC, "--steps", 2, "--no-test", "--transport", "inproc", "--plan", plan,
                               out=str(number))
            self.assertEqual(again["losses"], report["losses"])
            self.assertEqual((self.folder / str(number) / "plan.json").read_text(), (moved / "plan.json").read_text())
        self.assertEqual(run("schedule", "--plan", moved).returncode, 0)
        answer = run("eval", *SYNTHETIC, "--plan", moved, "--weights", moved / "weights.safetensors", "--transport", "inproc")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        # Into itself: what it holds is not lost.
        self.assertEqual(run("train", *SYNTHETIC, "--steps", 1, "--no-test", "--plan", moved, "--out", moved).returncode, 0)
        self.assertEqual((moved / "schedule.txt").read_text(), text)

    def test_a_plan_names_its_schedule_from_where_it_lies(self):
        plans = self.folder / "plans"
        plans.mkdir()
        made = run("plan", "mlp", "--schedule", self.file.name, "--out", "plans/plan.json", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(json.loads((plans / "plan.json").read_text())["schedule"], "../mine.txt")
        self.train("mlp", *SYNTHETIC, *BRIEFLY, "--plan", plans / "plan.json")


class Run(KerfTest):
    def test_the_largest_block_fits_into_a_message(self):
        answer = run("run", "least-squares", "--rows", 400, "--columns", 361, "--block", 361, "--sweeps", 1)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_the_second_program_gives_the_same_answer_over_any_number_of_workers(self):
        answers = {}
        for workers, transport in ((1, "inproc"), (3, "shm")):
            answer = run("run", "least-squares", "--rows", 300, "--columns", 40, "--workers", workers, "--transport",
                         transport, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            answers[workers] = json.loads(answer.stdout)
            objectives = answers[workers]["objectives"]
            self.assertTrue(answers[workers]["converged"])
            self.assertTrue(all(b <= a * (1 + 1e-9) for a, b in zip(objectives, objectives[1:])))
        for one, three in zip(answers[1]["solution"], answers[3]["solution"], strict=True):
            self.assertAlmostEqual(one, three, places=6)
        self.assert_one_error(run("run", "sudoku"), "least-squares")


class Devices(KerfTest):
    def test_the_cpu_is_there(self):
        answer = json.loads(run("devices", "--json").stdout)
        cuda = answer["cuda"]
        self.assertEqual([device["name"] for device in answer["devices"]],
                         ["cpu", *(f"cuda:{i}" for i in range(cuda["devices"]))])
        table = run("devices").stdout
        self.assertIn("cpu", table)
        # Where no GPU can be used, both say why.
        usable = [device for device in answer["devices"] if device["name"] != "cpu" and "error" not in device]
        self.assertEqual("reason" in cuda, not usable)
        if "reason" in cuda:
            self.assertIn(f"no GPU: {cuda['reason']}\n", table)
            self.assertNotEqual(cuda["built"], "this build has no CUDA" in cuda["reason"])

    def test_a_plan_is_for_the_devices_that_will_run_it(self):
        """Kernels of GPUs take other scratch memory: a cut that keeps within a cap for them is proved for them. Of devices a
        plan's text says nothing."""
        if not json.loads(run("devices", "--json").stdout)["cuda"]["built"]:
            self.assert_one_error(run("plan", "lenet5", "--device", "cuda"), "--device: ", "KERF_CUDA=ON")
            return
        file = self.folder / "plan.json"

        def peaks(*more):
            answer = run("plan", "lenet5", "--workers", 2, "--out", file, "--json", *more)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            return [worker["peak_bytes"] for worker in json.loads(answer.stdout)["workers"]]
        cpu = peaks()
        gpu = peaks("--device", "cuda,cuda:1")
        self.assertEqual(peaks("--device", "cpu"), cpu)
        self.assertNotEqual(cpu, gpu)
        self.assertEqual(peaks("--device", "cpu,cuda"), [cpu[0], gpu[1]])
        self.assertEqual(peaks("--device", "cuda", "--memory", max(gpu)), gpu)
        self.assertNotIn("cuda", file.read_text())
        proved = run("schedule", "--plan", file, "--device", "cuda", "--json")
        self.assertEqual(proved.returncode, 0, proved.stderr)
        self.assertLessEqual(max(json.loads(proved.stdout)["peak_bytes"]), max(gpu))

    def test_a_list_of_devices_goes_round(self):
        """Local workers take the devices of the list in turn; the report names each one's."""
        folder = self.folder / "devices"
        answer = run("train", "mlp", "--data", "synthetic:64x784x10", "--workers", 2, "--steps", 1, "--device", "cpu,cpu",
                     "--out", folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual([worker["device"] for worker in json.loads((folder / "run.json").read_text())["workers"]],
                         ["cpu", "cpu"])


class Train(KerfTest):
    def test_the_folder_has_nothing_of_an_earlier_run(self):
        schedule = self.folder / "mine.txt"
        self.assertEqual(run("schedule", "gpipe", "--workers", 2, "--micro-batches", 2, "--out", schedule).returncode, 0)
        self.train("mlp", *SYNTHETIC, *BRIEFLY, "--schedule", schedule)
        self.assertTrue((self.folder / "run" / "schedule.txt").exists())
        self.train("mlp", *SYNTHETIC, *BRIEFLY, "--picture", self.folder / "cut.svg")
        self.assertEqual(sorted(os.listdir(self.folder / "run")), ["plan.json", "profile.json", "report.html", "run.json", "trace.json",
                                                                     "weights.safetensors"])

    def test_everything_promised_is_in_the_folder(self):
        report = self.train("lenet5", *SYNTHETIC, "--workers", 3, "--steps", 4)
        out = self.folder / "run"
        self.assertEqual(sorted(os.listdir(out)), ["plan.json", "plan.svg", "profile.json", "report.html", "run.json", "trace.json",
                                                   "weights.safetensors"])
        self.assertEqual(json.loads((out / "run.json").read_text()), report)
        self.assertEqual(len(report["losses"]), 4)
        self.assertTrue(report["equal"])
        self.assertEqual((report["control"]["dropped"], report["control"]["resent"]), (0, 0))
        self.assertEqual(report["predicted"], report["counted"])
        self.assertGreater(report["counted"]["messages"], 0)
        self.assertEqual(report["accuracy"], report["evaluations"][-1]["accuracy"])
        events = json.loads((out / "trace.json").read_text())
        spans = [event for event in events["traceEvents"] if event["ph"] == "X" and event["pid"] < len(report["workers"])]
        self.assertEqual({event["args"]["step"] for event in spans}, {0, 1, 2, 3})
        for step in range(4):
            self.assertEqual(len([event for event in spans if event["tid"] == 0 and event["name"] == "0F3" and event["args"]["step"] == step]), 1)
        weights = read_safetensors(out / "weights.safetensors")
        self.assertEqual(weights["conv1.weight"][0], [6, 1, 5, 5])

    def test_a_report_is_told_again_from_the_folder_alone(self):
        answer = run("train", "lenet5", *SYNTHETIC, "--workers", 2, "--steps", 3, "--out", "run", cwd=self.folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        again = run("report", "run", cwd=self.folder)
        self.assertEqual((again.returncode, again.stdout, again.stderr), (0, answer.stdout, ""))
        moved = self.folder / "kerf-run"
        (self.folder / "run").rename(moved)
        self.assertEqual(run("report", cwd=self.folder).stdout, answer.stdout.replace(" run/", " kerf-run/"))
        self.assertEqual(run("report", moved, "--json").stdout, (moved / "run.json").read_text())
        self.assertIn("stage 1 on 1:", run("report", moved, "--plan").stdout)
        # As an earlier version wrote it, and with nothing that follows from the rest.
        report = json.loads((moved / "run.json").read_text())
        for key in ("kind", "data", "steps", "model", "accuracy", "predicted", "counted", "equal"):
            del report[key]
        for worker in report["workers"]:
            del worker["proved_bytes"]
        (moved / "run.json").write_text(json.dumps(report))
        self.assertEqual(run("report", cwd=self.folder).stdout, answer.stdout.replace(" run/", " kerf-run/"))

    def test_run_json_has_what_outsiders_rely_on(self):
        report = self.train("mlp", *SYNTHETIC, *BRIEFLY, "--workers", 2)
        self.assertEqual((report["kind"], report["data"]), ("train", "synthetic:256x784x10"))
        self.assertLessEqual({"model", "plan", "steps", "losses", "evaluations", "accuracy", "seconds", "images_per_second",
                              "median_step_seconds", "workers", "predicted", "counted", "equal", "control", "routes"},
                             set(report))
        self.assertEqual(len(report["gradient_norms"]), report["steps"])
        self.assertTrue(all(norm > 0 for norm in report["gradient_norms"]))
        self.assertEqual(report["skipped"], [])
        for worker in report["workers"]:
            self.assertLessEqual({"worker", "pid", "device", "compute_seconds", "wait_seconds", "messages", "bytes_in",
                                  "bytes_out", "peak_bytes", "proved_bytes", "predicted_peak_bytes",
                                  "predicted_step_seconds", "resident_bytes", "data_bytes"}, set(worker))
            self.assertLessEqual(worker["proved_bytes"], worker["predicted_peak_bytes"])

    def test_steps_and_epochs_end_with_the_earlier(self):
        common = ("mlp", *SYNTHETIC, "--batch", 128, "--workers", 1, "--no-test", "--transport", "inproc")
        for flags, steps in ((("--epochs", 1, "--steps", 5), 2), (("--epochs", 3, "--steps", 5), 5), (("--steps", 12), 12),
                             (("--epochs", 2), 4), (("--epochs", 2, "--steps", 4), 4)):
            with self.subTest(flags):
                self.assertEqual(self.train(*common, *flags)["steps"], steps)

    def test_epochs_count_from_one(self):
        report = self.train("mlp", *SYNTHETIC, "--workers", 1, "--epochs", 2, "--transport", "inproc")
        self.assertEqual([evaluation["epoch"] for evaluation in report["evaluations"]], [1, 2])

    def test_images_are_loaded_before_the_first_step_by_who_reads_them(self):
        """Damage inside is found by loading them all: in a run of no steps as well, but not in an evaluation of others."""
        data = ("mlp", "--data", f"fashion-mnist:{self.folder}")
        write_images(self.folder, 64)
        self.train(*data, *BRIEFLY)
        images = self.folder / "train-images-idx3-ubyte.gz"
        damaged = bytearray(images.read_bytes())
        damaged[len(damaged) // 2] ^= 0x10
        images.write_bytes(damaged)
        self.assert_one_error(run("train", *data, "--steps", 0, "--no-test", "--workers", 2, "--out", self.folder / "out"),
                              images, "damaged")
        answer = run("eval", *data, "--weights", self.folder / "run" / "weights.safetensors", "--transport", "inproc")
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_shares_that_a_killed_run_left_go_with_the_next(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        out = self.folder / "run"
        mine, others = out / f".shares-{gone.pid}-AbCdEf", out / f".shares-{os.getpid()}-AbCdEf"
        for folder in (mine, others, out / ".shares-of-mine"):
            folder.mkdir(parents=True)
            (folder / "0.safetensors").write_bytes(b"share")
        self.train("mlp", *SYNTHETIC, *BRIEFLY)
        self.assertEqual(sorted(path.name for path in out.iterdir() if path.name.startswith(".")),
                         sorted([others.name, ".shares-of-mine"]))

    def test_the_human_report_names_figures_and_paths(self):
        answer = run("train", "lenet5", *SYNTHETIC, "--workers", 2, "--steps", 2, "--out", self.folder / "run")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for part in ("test accuracy", "predicted", "counted", "equal", "peak memory", "plan.json", "trace.json",
                     "weights.safetensors", "plan.svg", "run.json"):
            self.assertIn(part, answer.stdout)
        self.assertIn("epoch 1/", answer.stderr)
        self.assertNotIn("\r", answer.stderr)

    def test_zero_steps_write_the_initial_weights_and_seeds_differ(self):
        common = ("lenet5", *SYNTHETIC, "--steps", 0, "--no-test", "--transport", "inproc")
        self.train(*common, "--workers", 1, "--seed", 1, out="a")
        self.train(*common, "--workers", 3, "--seed", 1, out="b")
        self.train(*common, "--workers", 1, "--seed", 2, out="c")
        a, b, c = (read_safetensors(self.folder / name / "weights.safetensors") for name in "abc")
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)

    def test_zero_steps_write_the_shares_of_workers_that_read_more(self):
        """Divided by samples, both read all of fc1.weight, and each is at home with a half of it."""
        halves = {"0": {"samples": "0-1"}, "1": {"samples": "2-3"}}
        shares = self.folder / "shares.json"
        shares.write_text(json.dumps({"kerf_shares": 1, "shares": {"fc1": halves, "fc2": halves, "loss": {"0": "all"}}}))
        common = ("mlp", *SYNTHETIC, "--no-test", "--batch", 32, "--micro-batches", 8, "--transport", "inproc")
        for steps in (0, 2):
            self.train(*common, "--steps", steps, "--workers", 1, out="a")
            self.train(*common, "--steps", steps, "--workers", 2, "--cut", "free", "--shares", shares, out="b")
            a, b = (read_safetensors(self.folder / name / "weights.safetensors") for name in "ab")
            self.assertEqual({name: shape for name, (shape, _) in a.items()}, {name: shape for name, (shape, _) in b.items()})
            if steps == 0:
                self.assertEqual(a, b)

    def test_weights_can_be_continued_from_and_evaluated(self):
        report = self.train("lenet5", *SYNTHETIC, "--workers", 2, "--steps", 3)
        weights = self.folder / "run" / "weights.safetensors"
        answer = run("eval", "lenet5", *SYNTHETIC, "--weights", weights, "--workers", 3, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr, "", "what is on the standard output is enough")
        self.assertEqual(json.loads(answer.stdout)["accuracy"], report["accuracy"])
        self.assertAlmostEqual(json.loads(answer.stdout)["loss"], report["evaluations"][-1]["loss"], places=12)
        self.train("lenet5", *SYNTHETIC, "--steps", 0, "--no-test", "--weights", weights, out="again")
        self.assertEqual(read_safetensors(self.folder / "again" / "weights.safetensors"), read_safetensors(weights))

    def test_a_missing_terminal_and_an_odd_folder_do_no_harm(self):
        answer = run("train", "mlp", *SYNTHETIC, "--workers", 1, "--steps", 1, "--out", "sub folder/run",
                     cwd=self.folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)


if __name__ == "__main__":
    unittest.main()
