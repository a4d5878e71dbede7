"""A training that is interrupted goes on from its last checkpoint to the same weights and the same record; what is no checkpoint of it is refused by
name; kerf checkpoint tells what there is, and finds what was changed."""

import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from checkpoint_case import CheckpointTest
from kerf_command import KERF, SLOW, read_safetensors, run, wait_until, workers_of


class Checkpoints(CheckpointTest):
    def test_a_run_that_is_killed_goes_on_to_the_same_bits(self):
        run_of = (*self.run_with("--epochs", 120, "--workers", 2), "--no-restart")
        whole = self.train(*run_of, out="whole")
        self.assertIsNone(whole["checkpoints"], "by default every ten minutes")
        self.assertFalse((self.folder / "whole" / "checkpoints").exists())
        ends = {"scheduler": lambda process: os.killpg(process.pid, signal.SIGKILL),
                "worker": lambda process: [os.kill(pid, signal.SIGKILL) for pid in workers_of(process.pid)[:1]],
                "ctrl-c": lambda process: process.send_signal(signal.SIGINT)}
        for out, end in ends.items():
            with self.subTest(killed=out):
                self.interrupted(out, *run_of, "--save-every", 7, "--no-restart", end=end)
                resumed = self.train(*run_of, "--save-every", 7, "--resume", self.folder / out, out=out)
                self.assertGreater(resumed["checkpoints"]["resumed_steps"], 0)
                self.expect_same(resumed, whole, out)
                self.assertEqual([each["number"] for each in self.checkpoints(out)], [1197, 1190])

    def test_where_a_worker_is_lost_all_begin_again_from_the_last(self):
        run_of = self.run_with("--epochs", 120, "--workers", 2)
        whole = self.train(*run_of, out="whole")
        process = self.start("train", *run_of, "--save-every", 7, "--out", self.folder / "lost", "--json")
        folder = self.folder / "lost" / "checkpoints"
        self.assertTrue(wait_until(lambda: [*folder.glob("checkpoint-*/manifest.json")], 60))
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        answer, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors[-2000:])
        self.assertIn("all workers begin again from step", errors)
        record = json.loads(answer)
        self.assertEqual(record["restarts"], 1)
        self.expect_same(record, whole, "lost")

    def test_processes_and_threads_alike(self):
        whole = self.train(*self.run_of, "--workers", 3, "--save-every", 25, "--keep", 1, out="whole")
        self.assertEqual(whole["checkpoints"]["taken"], 2)
        for transport in ("inproc", "shm", "tcp"):
            with self.subTest(transport=transport):
                resumed = self.train(*self.run_of, "--workers", 3, "--transport", transport, "--resume", self.folder / "whole", out=transport)
                self.assertEqual(resumed["checkpoints"]["resumed_steps"], 50)
                self.expect_same(resumed, whole, transport)

    def test_under_another_plan_from_the_same_tensors(self):
        """The bits of layer cuts do not hang on the number of workers; others end nearby."""
        self.train(*self.run_of, "--workers", 3, "--cut", "feature", "--save-every", 31, "--keep", 1, out="whole")
        ends = {}
        for name, plan in (("one", ("--workers", 1)), ("three", ("--workers", 3)), ("batch", ("--cut", "batch", "--workers", 2))):
            record = self.train(*self.run_of, *plan, "--resume", self.folder / "whole", out=name)
            self.assertEqual(len(record["losses"]), 60)
            ends[name] = record["losses"]
        self.assertEqual(self.weights("one"), self.weights("three"))
        for one, other in zip(ends["one"], ends["batch"], strict=True):
            self.assertAlmostEqual(one, other, delta=0.02)

    def test_early_stop_keeps_the_best_weights_of_before(self):
        run_of = self.run_with("--early-stop", 2, "--optimizer", "sgd", "--epochs", 12, "--lr", 0.3, "--workers", 2)
        whole = self.train(*run_of, "--save-every", 9, out="whole")
        resumed = self.train(*run_of, "--resume", self.folder / "whole", out="again")
        self.expect_same(resumed, whole, "again")

    def test_other_flags_are_refused_by_name(self):
        self.train(*self.run_of, "--save-every", 25, out="kept")
        for flag, what in (("--lr", 0.5), ("--seed", 3), ("--batch", 16), ("--clip-norm", 1), ("--beta1", 0.8), ("--weight-decay", 0.1), ("--early-stop", 1)):
            with self.subTest(flag=flag):
                self.assert_one_error(run("train", *self.run_with(flag, what), "--resume", self.folder / "kept", "--out", self.folder / "other"),
                                      f"its run had {flag} ", f"and this one has {what}")
        self.assert_one_error(run("train", *self.run_with("--epochs", 7), "--resume", self.folder / "kept", "--out", self.folder / "other"),
                              "its run had --steps 60, and this one has 70")
        self.assert_one_error(run("train", *self.run_with("--sizes", "784-48-10"), "--resume", self.folder / "kept", "--out", self.folder / "other"),
                              "its run had model mlp 784-48-24-10, and this one has mlp 784-48-10")
        self.assert_one_error(run("train", *self.run_with("--lr", 0.5, "--seed", 3), "--resume", self.folder / "kept", "--out", self.folder / "other"),
                              "its run had --lr ", ", and this one has 0.5; --seed ", ", and this one has 3")
        at = self.run_of.index("--clip-norm")  # what never drains has none
        plain = (*self.run_of[:at], *self.run_of[at + 2:])
        self.train(*plain, "--save-every", 25, out="plain")
        self.assert_one_error(run("train", *plain, "--schedule", "pipedream", "--workers", 2, "--resume", self.folder / "plain", "--out", self.folder / "other"),
                              "its run had --schedule one that drains behind each step, and this one has one that never drains")
        self.assert_one_error(run("train", *self.run_of, "--resume", self.folder, "--out", self.folder / "other"), "there is no checkpoint in it")
        self.assert_one_error(run("train", *self.run_of, "--resume", self.folder / "kept/checkpoints/checkpoint-25", "--out", self.folder / "other"),
                              "it is a checkpoint itself: name the folder that it lies in")
        self.assert_one_error(run("train", *self.run_of, "--resume", self.folder / "nowhere"), "--resume: there is no folder")

    def test_a_constant_rate_lets_a_run_be_longer(self):
        short, long = (self.run_with("--lr-schedule", "constant", "--epochs", epochs) for epochs in (6, 8))
        self.train(*short, "--save-every", 20, out="short")
        whole = self.train(*long, out="whole")
        resumed = self.train(*long, "--resume", self.folder / "short", out="again")
        self.assertEqual(len(resumed["losses"]), 80)
        self.expect_same(resumed, whole, "again")
        self.assert_one_error(run("train", *self.run_with("--lr-schedule", "constant", "--epochs", 5), "--resume", self.folder / "short", "--out", self.folder / "less"),
                              "its run made 60 steps, and this one ends after 50")

    def test_weights_that_it_began_with_are_no_longer_needed(self):
        self.train(*self.run_of, out="before")
        given = self.folder / "before" / "weights.safetensors"
        whole = self.train(*self.run_of, "--weights", given, "--save-every", 25, out="whole")
        given.unlink()
        self.expect_same(self.train(*self.run_of, "--resume", self.folder / "whole", out="again"), whole, "again")

    def test_by_time_they_are_taken_too(self):
        run_of = self.run_with("--epochs", 100000, "--lr-schedule", "constant", "--workers", 2)
        self.interrupted("out", *run_of, "--save-every", "1s", end=lambda process: process.send_signal(signal.SIGINT))
        steps = self.checkpoints("out")[0]["number"] + 5
        whole = self.train(*run_of, "--steps", steps, out="whole")
        self.expect_same(self.train(*run_of, "--steps", steps, "--resume", self.folder / "out", out="again"), whole, "again")

    def test_when_and_how_many(self):
        for text, refused in (("x", "500 (steps)"), ("5d", "90s"), ("-1", "10m"), ("", "")):
            self.assert_one_error(run("train", "--save-every", text), "--save-every", refused)
        self.assert_one_error(run("train", "--keep", 0), "--keep", '"0" is no whole number from 1 to ')
        record = self.train(*self.run_of, "--save-every", "0", out="none")
        self.assertIsNone(record["checkpoints"])
        self.train(*self.run_of, "--save-every", 10, "--keep", 3, out="three")
        self.assertEqual([each["number"] for each in self.checkpoints("three")], [60, 50, 40])

    def test_those_of_another_run_stay(self):
        self.train(*self.run_of, "--save-every", 25, out="run")
        before = self.checkpoints("run")
        self.assert_one_error(run("train", *self.run_of, "--save-every", 30, "--out", self.folder / "run"), "it has checkpoints of another run")
        answer = run("train", *self.run_of, "--out", self.folder / "run")
        self.assertEqual(answer.returncode, 0)
        self.assertIn("has checkpoints of another run: this one writes none", answer.stderr)
        self.assertEqual(self.checkpoints("run"), before)

    def test_one_run_at_a_time_writes_them(self):
        """Who looks meanwhile finds nothing wrong; nobody else removes or writes any."""
        long = self.run_with("--epochs", 100000)
        process = self.start("train", *long, "--save-every", 3, "--out", self.folder / "run")
        folder = self.folder / "run" / "checkpoints"
        self.assertTrue(wait_until(lambda: [*folder.glob("checkpoint-*/manifest.json")], 60))
        for more in (("--save-every", 3), ("--save-every", 3, "--resume", self.folder / "run")):
            self.assert_one_error(run("train", *long, *more, "--out", self.folder / "run"), "another run has its checkpoints in it now")
        self.assert_one_error(run("checkpoint", folder, "--prune", "--keep", 1), "another run has its checkpoints in it now")
        for _ in range(20):
            answer = run("checkpoint", folder, "--verify")
            self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        answer = run("train", *self.run_with("--epochs", 1), "--out", self.folder / "run")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("is where another run writes its checkpoints: this one writes none", answer.stderr)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(run("checkpoint", folder, "--prune", "--keep", 1).returncode, 0)

    def test_those_that_were_asked_for_stay(self):
        """Whoever goes on from them, asking for more or not."""
        self.train(*self.run_with("--lr-schedule", "constant", "--epochs", 2), "--save-every", 5, out="run")
        self.train(*self.run_with("--lr-schedule", "constant", "--epochs", 3), "--resume", self.folder / "run", out="run")
        self.assertEqual([each["number"] for each in self.checkpoints("run")], [20, 15])

    def test_the_folder_may_be_a_link(self):
        elsewhere = self.folder / "elsewhere"
        for path in (elsewhere, self.folder / "run"):
            path.mkdir()
        link = self.folder / "run" / "checkpoints"
        link.symlink_to(elsewhere)
        self.train(*self.run_of, out="run")
        self.assertTrue(link.is_symlink(), "though it is empty")
        whole = self.train(*self.run_of, "--save-every", 25, out="run")
        self.assertEqual(sorted(path.name for path in elsewhere.iterdir()), ["checkpoint-25", "checkpoint-50"])
        resumed = self.train(*self.run_of, "--resume", self.folder / "run", out="again")
        self.assertEqual(resumed["losses"], whole["losses"])

    def test_replicas_and_lbfgs_go_on_to_the_same_bits(self):
        """Their scheduler is killed; and so are replicas within a period of averaging."""
        replicas = ("--replicas", 2, "--workers", 2, "--batch", 16)
        lbfgs = ("mlp", "--sizes", "784-48-10", "--data", self.data, "--optimizer", "lbfgs", "--batch", 64, "--workers", 2, "--steps", 60, "--tol", 0)
        for name, run_of in (("ssp:0", (*self.run_with("--epochs", 60), *replicas, "--consistency", "ssp:0")),
                             ("average:4", (*self.run_with("--epochs", 60), *replicas, "--consistency", "average:4")), ("lbfgs", lbfgs)):
            with self.subTest(of=name):
                whole = self.train(*run_of, out="whole")
                self.interrupted(name, *run_of, "--save-every", 7, end=lambda process: os.killpg(process.pid, signal.SIGKILL))
                resumed = self.train(*run_of, "--save-every", 7, "--resume", self.folder / name, out=name)
                self.assertGreater(resumed["checkpoints"]["resumed_steps"], 0)
                self.expect_same(resumed, whole, name)

    def test_replicas_without_the_same_bits_go_on_with_every_gradient(self):
        """Asked to end within a period, and gone on: at the tables each tensor has had what the steps of both parts pushed."""
        run_of = (*self.run_with("--optimizer", "adagrad", "--lr", 0.001, "--epochs", 100000, "--lr-schedule", "constant", "--batch", 16), "--no-test",
                  "--replicas", 2, "--workers", 2, "--consistency", "async", "--push-every", 3, "--fetch-every", 2)
        self.interrupted("out", *run_of, "--save-every", 100, end=lambda process: process.send_signal(signal.SIGTERM))
        first = self.checkpoints("out")[0]["number"]
        steps = first + 100
        self.train(*run_of, "--steps", steps, "--save-every", steps, "--resume", self.folder / "out", out="out")
        self.assertEqual(self.updates("out", steps), {2 * (steps // 3 + (steps % 3 > 0))}, "the last step pushes, too")

    def updates(self, out, number):
        """How many gradients the tensors of tables have had."""
        counts = set()
        for file in (self.folder / out / "checkpoints" / f"checkpoint-{number}").glob("worker-*"):
            counts |= {int.from_bytes(data, "little") for name, (_, data) in read_safetensors(file).items() if name.startswith("updates/")}
        return counts

    def test_other_replicas_are_refused_by_name(self):
        run_of = (*self.run_with("--epochs", 2, "--batch", 16), "--workers", 1)
        self.train(*run_of, "--replicas", 2, "--consistency", "average:3", "--save-every", 5, out="kept")
        for more, said in ((("--replicas", 2, "--consistency", "ssp:0"), "--consistency average:3, and this one has ssp:0"),
                           (("--replicas", 3, "--consistency", "average:3"), "--replicas 2, and this one has 3"),
                           ((), "--consistency average:3, and this one has none")):
            with self.subTest(more=more):
                self.assert_one_error(run("train", *run_of, *more, "--resume", self.folder / "kept", "--out", self.folder / "other"), f"its run had {said}")
        self.train(*run_of, "--save-every", 5, out="plain")
        self.assert_one_error(run("train", *run_of, "--replicas", 2, "--consistency", "ssp:0", "--resume", self.folder / "plain", "--out", self.folder / "other"),
                              "its run had no --consistency, and this one has ssp:0")


class Command(CheckpointTest):
    def setUp(self):
        super().setUp()
        self.train(*self.run_of, "--workers", 2, "--save-every", 20, out="run")
        self.newest = self.folder / "run" / "checkpoints" / "checkpoint-60"

    def test_exports_what_the_run_leaves(self):
        out = self.folder / "out.safetensors"
        answer = run("checkpoint", self.folder / "run", "--export", out)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, rf"\nweights  {out}, of checkpoint-\d+\n$")
        self.assertEqual(out.read_bytes(), self.weights("run"))
        self.assertEqual(run("eval", "mlp", "--sizes", "784-48-24-10", "--weights", out, "--data", self.data).returncode, 0)
        (self.newest / "worker-0").write_bytes(b"")
        self.assertEqual(run("checkpoint", self.folder / "run", "--export", out).returncode, 0)
        self.assertEqual(read_safetensors(out).keys(), read_safetensors(self.folder / "run" / "weights.safetensors").keys())
        self.assertNotEqual(out.read_bytes(), self.weights("run"), "of the one before")

    def test_verifies(self):
        good = run("checkpoint", self.folder / "run", "--verify")
        self.assertEqual((good.returncode, good.stderr), (0, ""))
        self.assertIn("training", good.stdout)
        for name in ("manifest.json", "scheduler", "worker-1"):
            file = self.newest / name
            was = file.read_bytes()
            for wrong in (was[:-1], was[:20] + bytes([was[20] ^ 1]) + was[21:], None if name != "manifest.json" else b""):
                with self.subTest(name=name, wrong=wrong and len(wrong)):
                    file.unlink() if wrong is None else file.write_bytes(wrong)
                    answer = run("checkpoint", self.folder / "run", "--verify")
                    self.assertEqual(answer.returncode, 1)
                    self.assertIn(f"not whole: {file}", answer.stdout)
                    told = json.loads(run("checkpoint", self.folder / "run", "--verify", "--json").stdout)["checkpoints"]
                    self.assertEqual([len(each["faults"]) for each in told], [1, 0])
            file.write_bytes(was)
        self.assertEqual(run("checkpoint", self.folder / "run", "--verify").returncode, 0)

    def test_what_has_no_manifest_is_unfinished_and_no_fault(self):
        (self.newest / "manifest.json").unlink()
        answer = run("checkpoint", self.folder / "run", "--verify")
        self.assertEqual(answer.returncode, 0)
        self.assertRegex(answer.stdout, "checkpoint-60 +unfinished")
        self.assertEqual([(each["finished"], each["faults"]) for each in self.checkpoints("run")], [(False, []), (True, [])])
        out = self.folder / "out.safetensors"
        self.assertEqual(run("checkpoint", self.folder / "run", "--export", out).returncode, 0)
        for manifest in self.newest.parent.glob("*/manifest.json"):
            manifest.unlink()
        for more in ((), ("--json",)):
            answer = run("checkpoint", self.folder / "run", "--verify", *more)
            self.assertEqual(answer.returncode, 1, "there is nothing to go on from")
            self.assertIn("no checkpoint in", answer.stderr)
        self.assertEqual(run("checkpoint", self.folder / "run").returncode, 0, "is no more than a list")

    def test_what_a_damaged_manifest_says_is_told_without_its_control_characters(self):
        (self.newest / "manifest.json").write_bytes(b'{"a\x1b[31m": 1, "a\x1b[31m": 2}')
        answer = run("checkpoint", self.folder / "run", "--verify")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("not whole: ", answer.stdout)
        self.assertNotIn("\x1b", answer.stdout)

    def test_pruning_leaves_as_many_that_are_whole(self):
        (self.newest / "worker-0").write_bytes(b"")
        self.assertEqual(run("checkpoint", self.folder / "run", "--prune", "--keep", 1).returncode, 0)
        self.assertEqual([each["number"] for each in self.checkpoints("run")], [60, 40])

    def test_pruning_removes_what_is_unfinished_and_says_so(self):
        """Nobody writes them, as the folder is locked: though nothing is left, that is what was asked for."""
        folder = self.newest.parent
        for manifest in folder.glob("*/manifest.json"):
            manifest.unlink()
        (self.newest / ".kerf-0123456789abcdef.tmp").write_bytes(b"half of")
        answer = run("checkpoint", self.folder / "run", "--prune", "--json")
        self.assertEqual((answer.returncode, json.loads(answer.stdout)), (0, {"checkpoints": []}), answer.stderr)
        self.assertEqual(answer.stderr, f"kerf: note: 2 unfinished checkpoints removed from {folder}\n")
        self.assertEqual([*folder.iterdir()], [])
        self.assert_one_error(run("checkpoint", self.folder / "run", "--prune"), "there is no checkpoint in it")

    def test_what_others_named_so_is_not_counted_and_stays(self):
        """A folder with a manifest of theirs, one without and with files that are called as a run's, a file, and a link to a checkpoint."""
        folder, elsewhere = self.newest.parent, self.folder / "elsewhere"
        told, alike, link, file = (folder / f"checkpoint-{number}" for number in (500, 501, 502, 503))
        for path in (told, alike):
            path.mkdir()
        (told / "manifest.json").write_text('{"format": "of another trainer"}')
        for name in ("config.json", "scheduler", "worker-0"):
            (alike / name).write_text("theirs")
        shutil.copytree(self.newest, elsewhere / "checkpoint-502")
        link.symlink_to(elsewhere / "checkpoint-502")
        file.write_text("theirs")
        before = {path: path.read_bytes() for root in (told, alike, elsewhere) for path in root.rglob("*") if path.is_file()}
        good = run("checkpoint", self.folder / "run", "--verify", "--json")
        self.assertEqual((good.returncode, good.stderr), (0, ""))
        self.assertEqual([each["number"] for each in json.loads(good.stdout)["checkpoints"]], [60, 40])
        for keep, left in ((1, [60]), (0, [])):
            answer = run("checkpoint", self.folder / "run", "--prune", "--keep", keep, "--json")
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            self.assertEqual([each["number"] for each in json.loads(answer.stdout)["checkpoints"]], left)
        self.assertEqual(sorted(folder.iterdir()), [told, alike, link, file])
        self.assertEqual({path: path.read_bytes() for path in before}, before)

    def test_prunes(self):
        self.assertEqual(run("checkpoint", self.folder / "run", "--prune", "--keep", 1).returncode, 0)
        self.assertEqual([each["number"] for each in self.checkpoints("run")], [60])
        self.assert_one_error(run("checkpoint", self.folder / "run", "--prune", "--keep", 0, "--verify"), "--verify", "nothing to look at")
        out = self.folder / "last.safetensors"
        answer = run("checkpoint", self.folder / "run", "--prune", "--keep", 0, "--export", out, "--json")
        self.assertEqual((answer.returncode, json.loads(answer.stdout)), (0, {"checkpoints": []}), answer.stderr)
        self.assertEqual(out.read_bytes(), (self.folder / "run/weights.safetensors").read_bytes())
        self.assert_one_error(run("checkpoint", self.folder / "run"), "there is no checkpoint in it")
        answer = run("checkpoint", self.folder / "run", "--verify")
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertEqual(answer.stderr, f"kerf: note: {self.newest.parent}: there is no checkpoint in it: --resume has nothing to go on from\n")
        self.assert_one_error(run("checkpoint", self.folder / "run", "--keep", 1), "--keep")
        self.assert_one_error(run("checkpoint", self.folder / "nowhere"), "there is no folder")


class FullDisk(CheckpointTest):
    """R11 on a disk that fills: a small file system that is this test's own, in namespaces of user and mounts."""

    SIZE, OTHERS = 2_000_000, 1_300_000  # bytes: two checkpoints, or one beside others' files

    def setUp(self):
        super().setUp()
        self.full = self.folder / "full/checkpoints"
        self.full.mkdir(parents=True)
        mounted = f'mount -t tmpfs -o size={self.SIZE} tmpfs "$0" && echo here && exec setpriv --pdeathsig KILL sleep 1000'
        keeper = subprocess.Popen(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, str(self.full)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(keeper)
        self.addCleanup(keeper.kill)
        if keeper.stdout.readline() != "here\n":
            self.skipTest(f"this kernel mounts nothing for who is not its root: {keeper.stderr.read().strip()}")
        self.inside = ("nsenter", "--target", str(keeper.pid), "--user", "--mount", "--preserve-credentials", KERF)
        self.seen = pathlib.Path(f"/proc/{keeper.pid}/root{self.full}")

    def run_inside(self, *arguments):
        return subprocess.run([*self.inside, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60 * SLOW, check=False)

    def start_inside(self, *arguments):
        process = subprocess.Popen([*self.inside, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.started.append(process)
        return process

    def manifests(self):
        return {int(path.parent.name.split("-")[1]): path for path in self.seen.glob("checkpoint-*/manifest.json")}

    def fill(self):
        """With a file of others, as soon as there is room for it beside what a save writes."""
        def is_in():
            try:
                (self.seen / "others").write_bytes(b"x" * self.OTHERS)
                return True
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC)
                (self.seen / "others").unlink()
                return False

        self.assertTrue(wait_until(is_in, 30))

    def test_the_run_goes_on_says_so_and_saves_once_there_is_room(self):
        run_of = self.run_with("--epochs", 150)
        whole = self.train(*run_of, out="whole")
        process = self.start_inside("train", *run_of, "--save-every", 10, "--keep", 1, "--out", self.full.parent, "--json")
        self.assertTrue(wait_until(self.manifests, 60))
        self.fill()
        told = next((line for line in process.stderr if "No space left on device" in line), "it ended before")
        self.assertIn("no checkpoint was written, and the run goes on: ", told)
        (kept,) = self.manifests()
        verified = self.run_inside("checkpoint", self.full, "--verify", "--json")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertIn((kept, True, []), [(each["number"], each["finished"], each["faults"]) for each in json.loads(verified.stdout)["checkpoints"]])
        self.assertEqual([*self.manifests()], [kept], "it is the only one as long as there is no room")
        (self.seen / "others").unlink()
        self.assertTrue(wait_until(lambda: process.poll() is not None or max(self.manifests(), default=0) > kept, 60))
        stdout, stderr = process.communicate(timeout=60 * SLOW)
        self.assertEqual(process.returncode, 0, stderr)
        record = json.loads(stdout)
        counted = record["checkpoints"]
        self.assertGreater(counted["failed"], 0)
        self.assertGreater(counted["taken"], kept // 10)
        self.assertEqual(counted["failed"] + counted["taken"], 150)
        self.expect_same(record, whole, "full")
        self.assertEqual([path.name for path in self.seen.rglob("*.tmp")], [], "what was not whole is gone")


if __name__ == "__main__":
    unittest.main()
