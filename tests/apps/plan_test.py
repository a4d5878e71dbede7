"""`kerf plan`: what it tells of a plan, and what it answers where something does not fit."""

import json
import os
import pty
import re
import subprocess
import unittest

from kerf_command import KERF, KerfTest, run

SYNTHETIC = ("--data", "synthetic:256x784x10")


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

    def test_stages_that_share_workers_are_looked_for_in_whatever_places(self):
        flags = ("plan", "mlp", "--stages-per-worker", 2, "--workers", 2, "--memory", "10M", "--json")
        done = run(*flags, "--fit-batch")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["batch"]
        self.assertGreater(rows, 1608)
        self.assertEqual(run(*flags, "--batch", rows).returncode, 0)
        self.assert_one_error(run(*flags, "--batch", rows + 8), "no plan fits")

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

    def test_a_picture_says_of_memory_what_the_table_says(self):
        picture = self.folder / "p.svg"
        for cut in ("layer", "feature", "hybrid"):
            with self.subTest(cut=cut):
                table = run("plan", "lenet5", "--workers", 2, "--cut", cut, "--picture", picture).stdout
                drawn = re.findall(r'>peak memory</text>\n<text [^>]*class="figure"[^>]*>([^<]*)<', picture.read_text())
                self.assertEqual(len(drawn), 2)
                rows = [line for line in table.splitlines() if re.match(r"[01] ", line)]
                for worker, peak in enumerate(drawn):
                    self.assertRegex(rows[worker], f"  {re.escape(peak)}  ")

    def test_a_picture_of_replicas_is_coloured_by_worker(self):
        picture = self.folder / "p.svg"
        run("plan", "lenet5", "--workers", 2, "--schedule", "chimera", "--micro-batches", 4, "--picture", picture)
        for worker in (0, 1):
            self.assertIn(f">worker {worker}: stages 0, 1<", picture.read_text())

    def test_a_picture_is_an_svg(self):
        picture = self.folder / "p.png"
        self.assert_one_error(run("plan", "lenet5", "--picture", picture), "--picture", "p.png", ".svg")
        self.assertFalse(picture.exists())


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


if __name__ == "__main__":
    unittest.main()
