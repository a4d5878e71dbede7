"""Wrong flags and addresses get one clear error line, exit code 2, and no stack trace."""

import json
import os
import re
import socket
import unittest

from kerf_command import KerfTest, run

LASSO = ("--x", "x.mtx", "--y", "y.mtx", "--lambda", 1)
MF = ("--ratings", "x.mtx")
LDA = ("--corpus", "x.txt")
CLASSES = ("--data", "x.libsvm")
QUICK = ("--workers", 2, "--steps", 2, "--no-test", "--transport", "inproc")


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
        for bad in ("1e9", "M", "-1M", "500X", "1.5.5G", "64Mx", "inf", "1.5.5"):
            with self.subTest(bad=bad):
                self.assert_one_error(run("plan", "mlp", "--memory", bad), "--memory: ", f'"{bad}"', "1.5G")
        for much in ("99999999999999999999", "9223372036854775807", "9999999T", "9000P", "4097P", "1" + "0" * 400):
            with self.subTest(much=much):
                self.assert_one_error(run("plan", "mlp", "--memory", much), "--memory: ", f'"{much}" is more than', "4096P")
        self.assertEqual(run("plan", "mlp", "--memory", "4096P").returncode, 0)
        for part in ("1.5", "0.1", "1473663.5B"):
            with self.subTest(part=part):
                self.assert_one_error(run("plan", "mlp", "--memory", part), "--memory: ", f'"{part}" is no whole number of bytes')
        self.assert_one_error(run("plan", "mlp", "--memory", "1.0"), "cap of 1 bytes")
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
        for pairs in ("maybe", "1", "ON", "true"):
            self.assert_one_error(run("plan", "lenet5", "--cut", "feature", "--pairs", pairs), f'--pairs: there is no "{pairs}"; it is on or off')
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


if __name__ == "__main__":
    unittest.main()
