"""`kerf keys make`, and `--keys`: a run that only its own workers join."""

import json
import os
import re
import shutil
import stat
import unittest

from kerf_command import SLOW, KerfTest, connect, free_address, read_safetensors, run

RUN = ("lenet5", "--data", "synthetic:256x784x10", "--workers", 2, "--steps", 6, "--no-test")
BEYOND = "tcp://192.0.2.1:5555"


class Keys(KerfTest):
    def setUp(self):
        super().setUp()
        self.keys = self.folder / "keys"
        answer = run("keys", "make", self.keys, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.made = json.loads(answer.stdout)

    def copy(self, *names):
        """A folder with these alone."""
        folder = self.folder / "copied"
        folder.mkdir()
        for name in names:
            shutil.copy(self.keys / name, folder / name)  # which keeps modes
        return folder

    def test_tensors_over_tcp_are_encrypted_where_that_is_asked_for(self):
        own = self.train(*RUN)
        self.assertIs(own["data_encrypted"], False)
        address = free_address()
        scheduler = self.start("train", *RUN, "--listen", address, "--keys", self.keys, "--encrypt-data", "--transport", "tcp", "--out", self.folder / "kept")
        workers = [self.start("worker", "--connect", address, "--keys", self.keys) for _ in range(2)]
        stdout, stderr = scheduler.communicate(timeout=60 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        self.assertEqual([worker.wait(10 * SLOW) for worker in workers], [0, 0])
        self.assertIn("encrypted  what workers sent each other over tcp", stdout)
        record = json.loads((self.folder / "kept" / "run.json").read_text())
        self.assertIs(record["data_encrypted"], True)
        self.assertEqual(record["losses"], own["losses"])
        self.assertEqual(sum(worker["dropped"] + worker["resent"] for worker in record["workers"]), 0)
        self.assertEqual(read_safetensors(self.folder / "kept" / "weights.safetensors"), read_safetensors(self.folder / "run" / "weights.safetensors"))

    def test_programs_say_that_their_tensors_are_encrypted(self):
        for more in ((), ("--json",)):
            with self.subTest(more=more):
                address = free_address()
                scheduler = self.start("run", "least-squares", "--sweeps", 1, *more, "--listen", address, "--keys", self.keys, "--encrypt-data")
                for _ in range(2):
                    self.start("worker", "--connect", address, "--keys", self.keys)
                stdout, stderr = scheduler.communicate(timeout=60 * SLOW)
                self.assertEqual(scheduler.returncode, 0, stderr)
                if more:
                    self.assertIs(json.loads(stdout)["data_encrypted"], True)
                else:
                    self.assertTrue(stdout.endswith("encrypted  what workers sent each other over tcp\n"), stdout)

    def test_what_encrypts_tensors_is_told_by_keys(self):
        for command in (("train", *RUN, "--out", self.folder / "out"), ("run", "least-squares")):
            for listen in ((), ("--listen", "tcp://127.0.0.1:*")):
                self.assert_one_error(run(*command, *listen, "--encrypt-data"), "--encrypt-data: ", "--keys")

    def test_a_run_with_keys_gives_the_same_answer(self):
        own = self.train(*RUN)
        theirs = self.copy(*self.made["worker"])
        for name in self.made["worker"]:
            (self.keys / name).unlink()
        for address in (free_address(), free_address().replace("127.0.0.1", "[::1]")):
            with self.subTest(address=address):
                scheduler = self.start("train", *RUN, "--listen", address, "--keys", self.keys, "--json", "--out", self.folder / "kept")
                workers = [self.start("worker", "--connect", address, "--keys", theirs) for _ in range(2)]
                stdout, stderr = scheduler.communicate(timeout=60 * SLOW)
                self.assertEqual(scheduler.returncode, 0, stderr)
                for worker in workers:
                    self.assertEqual(worker.wait(10 * SLOW), 0)
                self.assertEqual(json.loads(stdout)["losses"], own["losses"])
                self.assertEqual(read_safetensors(self.folder / "kept" / "weights.safetensors"),
                                 read_safetensors(self.folder / "run" / "weights.safetensors"))

    def test_strangers_do_no_harm_and_are_told_of(self):
        """One without keys, one with others', and two of the run."""
        others = self.folder / "others"
        run("keys", "make", others)
        address = free_address()
        scheduler = self.start("train", *RUN, "--listen", address, "--keys", self.keys, "--json", "--out", self.folder / "kept")
        self.start("worker", "--connect", address)
        self.start("worker", "--connect", address, "--keys", others)
        lines = []
        while not (any("has no key" in line or "left before" in line for line in lines) and
                   any("another scheduler's key" in line for line in lines)):
            lines.append(scheduler.stderr.readline())
            self.assertTrue(lines[-1], lines)
        self.assertFalse([line for line in lines if "workers are here" in line])
        for _ in range(2):
            self.start("worker", "--connect", address, "--keys", self.keys)
        _, stderr = scheduler.communicate(timeout=60 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        for line in (lines + stderr.splitlines()):
            if "refused" in line:
                self.assertTrue(line.startswith("kerf: note: refused "), line)

    def test_a_worker_whose_key_is_not_listed_says_so_and_tries_again(self):
        others = self.folder / "others"
        run("keys", "make", others)
        shutil.copy(self.keys / "scheduler.public", others / "scheduler.public")
        address = free_address()
        allowed = (self.keys / "workers.allowed").read_text()
        scheduler = self.start("train", *RUN, "--listen", address, "--keys", self.keys, "--out", self.folder / "kept")
        connect(address).close()
        worker = self.start("worker", "--connect", address, "--keys", others)
        _, stderr = self.start("worker", "--connect", address, "--keys", others, "--patience", 3).communicate(timeout=60 * SLOW)
        self.assertRegex(stderr, rf"error: no scheduler answered at {re.escape(address)} within 3 s: the scheduler at [^ ]+ refuses the key")
        said = worker.stderr.readline()
        self.assertRegex(said, rf"^kerf worker: the scheduler at {re.escape(address)} refuses the key in {re.escape(str(others))}, which its workers\.allowed does not list")
        scheduler.kill()
        scheduler.wait()
        (self.keys / "workers.allowed").write_text(allowed + (others / "workers.allowed").read_text())
        scheduler = self.start("train", *RUN, "--listen", address, "--keys", self.keys, "--out", self.folder / "kept")
        self.start("worker", "--connect", address, "--keys", self.keys)
        _, stderr = scheduler.communicate(timeout=60 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        self.assertEqual((worker.wait(10 * SLOW), worker.stderr.read()), (0, ""))

    def test_port_0_is_any_that_is_free(self):
        run_here = self.start("train", *RUN, "--listen", "tcp://127.0.0.1:0", "--no-restart", "--out", self.folder / "any")
        said = run_here.stderr.readline()
        address = re.search(r"--connect (tcp://127\.0\.0\.1:(\d+))", said)
        self.assertIsNotNone(address, said)
        self.assertGreater(int(address[2]), 0)
        for _ in range(2):
            self.start("worker", "--connect", address[1])
        _, stderr = run_here.communicate(timeout=60 * SLOW)
        self.assertEqual(run_here.returncode, 0, stderr)

    def test_keys_are_for_their_owner_and_are_kept(self):
        self.assertEqual(sorted(path.name for path in self.keys.iterdir()), sorted(self.made["scheduler"] + self.made["worker"]))
        for path in (self.keys, *self.keys.iterdir()):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o077, 0, path)
        self.assert_one_error(run("keys", "make", self.keys), self.keys, "never overwritten")
        self.assert_one_error(run("keys", "make", self.folder / "no" / "such"), self.folder / "no" / "such")

    def test_keys_that_are_none(self):
        train = ("train", *RUN, "--listen", "tcp://127.0.0.1:*", "--keys", self.keys, "--out", self.folder / "out")
        worker = ("worker", "--connect", "tcp://127.0.0.1:1", "--keys", self.keys)
        for command, name in ((train, "scheduler.secret"), (train, "workers.allowed"), (worker, "worker.secret"), (worker, "scheduler.public")):
            with self.subTest(name=name):
                file = self.keys / name
                sound = file.read_bytes()
                for broken in (b"", sound[:-2], b"\xff" * 40, sound * 100_000, b"\0" * 41):
                    file.write_bytes(broken)
                    self.assert_refused(command, file)
                file.write_bytes(sound)
                os.chmod(file, 0o666)
                self.assert_refused(command, file, "chmod")
                os.chmod(file, 0o600)
                file.unlink()
                self.assert_refused(command, file, "cannot be opened", "`kerf keys make`" if command is train else "copy them there")
                file.write_bytes(sound)
                os.chmod(file, 0o600)

    def test_a_folder_of_keys_that_is_not_there(self):
        nowhere = self.folder / "nowhere"
        self.assert_refused(("train", *RUN, "--listen", "tcp://127.0.0.1:*", "--keys", nowhere, "--out", self.folder / "out"), nowhere, "`kerf keys make`")
        self.assert_refused(("worker", "--connect", "tcp://127.0.0.1:1", "--keys", nowhere), nowhere, "worker.secret", "copy them there")

    def assert_refused(self, command, *parts):
        answer = run(*command, timeout=20 * SLOW)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        for part in parts:
            self.assertIn(str(part), answer.stderr)

    def test_beyond_this_host_keys_are_demanded(self):
        for command in (("train", *RUN, "--listen", BEYOND, "--out", self.folder / "out"), ("worker", "--connect", BEYOND)):
            self.assert_refused(command, "kerf keys make", "--keys")
        for address in ("tcp://0.0.0.0:5555", "tcp://*:5555", "tcp://[::]:5555"):
            self.assert_refused(("train", *RUN, "--listen", address, "--keys", self.keys, "--out", self.folder / "out"), "every interface")
        self.assert_one_error(run("train", *RUN, "--keys", self.keys, "--out", self.folder / "out"), "--keys: ", "--listen")


if __name__ == "__main__":
    unittest.main()
