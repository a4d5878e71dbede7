"""R6 of the contract on faults (restarts_test.py) without the disk: what workers hold outlives a scheduler that is killed (`--keep-workers`), and goes when nobody
comes for it (docs/adr/0071-kept-workers.md)."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from kerf_command import KERF, SLOW, KerfTest, child_of, free_address, read_safetensors, run, shared_memory, wait_until, workers_of
from small_programs import factorisation, write_small_data

TRAINED = ("train", "lenet5", "--data", "synthetic:2048x784x10", "--workers", 3, "--epochs", 45, "--no-test")


def looks_after(process, folder):
    """Whether it is the warden of that folder, which may be gone."""
    try:
        return any(os.readlink(link).startswith(f"{folder}/.warden") for link in (process / "fd").iterdir())
    except OSError:
        return False


def crc32c(data):
    crc = ~0 & 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return ~crc & 0xFFFFFFFF


def some_place():
    """Of a folder in memory that is not there."""
    return pathlib.Path("/dev/shm") / ("kerf-kept-" + os.urandom(16).hex())


def write_journal(checkpoints, folder, boot=None, changed=False):
    boot = boot or pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    journal = {"kerf_memory": 1, "folder": str(folder), "boot": boot}
    journal["sum_of_the_above"] = crc32c(json.dumps(journal, indent=2).encode()) ^ changed
    (checkpoints / "memory.json").write_text(json.dumps(journal, indent=2) + "\n")


def number_of(checkpoint):
    return int(checkpoint.name.split("-")[1])


class KeptTest(KerfTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.shared_before = shared_memory()
        self.seen = set()  # folders in memory, of this test's runs
        self.addCleanup(lambda: [shutil.rmtree(memory, ignore_errors=True) for memory in self.seen])

    def memory_of(self, folder):
        """The folder in memory that the journal names; None while there is no journal."""
        try:
            memory = pathlib.Path(json.loads((folder / "memory.json").read_text())["folder"])
        except FileNotFoundError:
            return None
        self.seen.add(memory)
        return memory

    def wardens(self):
        processes = [entry for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]
        return [int(process.name) for process in processes if any(looks_after(process, memory) for memory in self.seen)]

    def await_memory(self, process, folder=None):
        """The run's folder in memory, once there is a checkpoint in it."""
        folder = folder or self.out / "checkpoints"
        found = wait_until(lambda: process.poll() is not None or self.memory_of(folder), 60)
        self.assertIsNone(process.poll(), "it was over before")
        self.assertTrue(found, "nothing is kept")
        return self.memory_of(folder)

    def killed(self, *command, group=False, also=lambda workers: ()):
        """A run of this command whose scheduler is killed, or all of its processes, or with it those that `also` picks of its workers, once there is
        something in memory."""
        process = self.start(*command)
        memory = self.await_memory(process)
        workers = workers_of(process.pid)
        for worker in also(workers):
            os.kill(worker, signal.SIGKILL)
        os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
        self.assertTrue(memory.exists())
        process.communicate(timeout=10 * SLOW)
        for worker in workers:
            self.assertTrue(wait_until(lambda: not pathlib.Path(f"/proc/{worker}").exists(), 5))
        return memory

    def finish(self, process):
        stdout, stderr = process.communicate(timeout=120 * SLOW)
        self.assertEqual(process.returncode, 0, stderr[-2000:])
        return stdout, stderr

    def assert_nothing_is_left(self, seconds=2):
        self.assertTrue(wait_until(lambda: not any(memory.exists() for memory in self.seen), seconds), self.seen)
        self.assertTrue(wait_until(lambda: not self.wardens(), 5), self.wardens())
        self.assert_nothing_runs_on(self.shared_before)


class R6(KeptTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="kerf-test-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.whole = pathlib.Path(folder)
        answer = run(*TRAINED, "--out", cls.whole)
        assert answer.returncode == 0, answer.stderr

    def setUp(self):
        super().setUp()
        self.command = (*TRAINED, "--keep-workers", 60, "--save-every", 0, "--out", self.out)

    def assert_whole(self, out, stderr, source="memory"):
        """That run ended as one that nobody disturbed, and said where it went on from. Returns the step."""
        whole, record = (json.loads((folder / "run.json").read_text()) for folder in (self.whole, out))
        self.assertEqual(*((folder / "weights.safetensors").read_bytes() for folder in (self.whole, out)))
        for what in ("losses", "gradient_norms", "evaluations"):
            self.assertEqual(record[what], whole[what], what)
        step = int(re.search(f"goes on from {source}, step (\\d+)", stderr)[1])
        self.assertEqual(record["checkpoints"]["resumed_steps"], step)
        self.assertTrue(record["equal"])
        return step

    def test_of_local_workers(self):
        for of, how in (("the scheduler", {}), ("all", {"group": True}), ("the scheduler and a worker", {"also": lambda workers: workers[1:2]})):
            with self.subTest(of=of):
                memory = self.killed(*self.command, **how)
                self.assertTrue(list(memory.glob("checkpoint-*/manifest.json")))
                self.assertEqual(list(self.out.glob("checkpoints/checkpoint-*")), [])
                _, stderr = self.finish(self.start(*self.command, "--resume", self.out))
                self.assert_whole(self.out, stderr)
                self.assert_nothing_is_left()
                self.assertFalse((self.out / "checkpoints").exists())

    def test_of_workers_that_connected(self):
        for with_a_worker in (False, True):
            with self.subTest(with_a_worker=with_a_worker):
                address = free_address()
                keepers = [self.start("worker", "--connect", address) for _ in range(3)]
                also = (lambda _, keeper=keepers[1]: [child_of(keeper.pid)]) if with_a_worker else (lambda _: ())
                self.killed(*self.command, "--listen", address, also=also)
                _, stderr = self.finish(self.start(*self.command, "--listen", address, "--resume", self.out))
                self.assert_whole(self.out, stderr)
                for keeper in keepers:
                    _, errors = self.finish(keeper)
                    died = with_a_worker and keeper is keepers[1]
                    self.assertIn("ended by signal 9" if died else "the worker lost its scheduler; starts another", errors)
                self.assert_nothing_is_left()

    def test_behind_a_worker_that_is_killed(self):
        """All begin again from the last that was taken: workers commit nothing meanwhile."""
        process = self.start(*self.command)
        self.await_memory(process)
        os.kill(workers_of(process.pid)[1], signal.SIGKILL)
        _, stderr = self.finish(process)
        self.assertEqual(stderr.count("all workers begin again"), 1, stderr)
        self.assertGreater(int(re.search(r"begin again from step (\d+)", stderr)[1]), 0, "from the first step")
        self.assertEqual(*((folder / "weights.safetensors").read_bytes() for folder in (self.whole, self.out)))
        whole, record = (json.loads((folder / "run.json").read_text()) for folder in (self.whole, self.out))
        self.assertEqual(record["losses"], whole["losses"])
        self.assertEqual(record["restarts"], 1)
        self.assert_nothing_is_left()

    def test_every_so_many_steps(self):
        command = (*self.command, "--buddy-every", 45)
        self.killed(*command)
        _, stderr = self.finish(self.start(*command, "--resume", self.out))
        self.assertEqual(self.assert_whole(self.out, stderr) % 45, 0)
        self.assert_nothing_is_left()

    def test_twice_and_by_another_plan(self):
        """Who goes on keeps what was left until there is something newer; layer cuts have the same bits whatever the number of workers."""
        first = self.killed(*self.command)
        process = self.start(*self.command, "--workers", 2, "--resume", self.out)
        self.assertTrue(wait_until(lambda: self.memory_of(self.out / "checkpoints") not in (None, first) and not first.exists(), 60))
        process.kill()
        _, stderr = process.communicate(timeout=10)
        before = int(re.search(r"goes on from memory, step (\d+)", stderr)[1])
        _, stderr = self.finish(self.start(*self.command, "--resume", self.out))
        self.assertGreater(self.assert_whole(self.out, stderr), before)
        self.assert_nothing_is_left()

    def test_without_the_flag_it_goes_on_too(self):
        self.killed(*self.command)
        _, stderr = self.finish(self.start(*TRAINED, "--save-every", 50, "--resume", self.out, "--out", self.out))
        self.assert_whole(self.out, stderr)
        self.assert_nothing_is_left()
        self.assertFalse((self.out / "checkpoints" / "memory.json").exists())

    def test_what_was_changed_is_told_and_the_disk_counts(self):
        command = (*TRAINED, "--keep-workers", 60, "--save-every", 30, "--out", self.out)
        process = self.start(*command)
        self.await_memory(process)
        disk = self.out / "checkpoints"

        def is_newer():
            kept, saved = ([number_of(path.parent) for path in folder.glob("checkpoint-*/manifest.json")] for folder in (self.memory_of(disk), disk))
            return kept and saved and max(kept) > max(saved)

        self.assertTrue(wait_until(is_newer, 60))
        process.kill()
        process.communicate()
        if not is_newer():
            self.skipTest("one was saved in this very moment")
        file = next(self.memory_of(disk).glob("checkpoint-*/worker-1"))
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        _, stderr = self.finish(self.start(*command, "--resume", self.out))
        self.assertIn(f"{file}: it is not what its run wrote", stderr)
        self.assert_whole(self.out, stderr, source="the disk")
        self.assert_nothing_is_left()

    def test_without_room_the_run_goes_on(self):
        kerf = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=200k tmpfs /dev/shm && exec "$0" "$@"', KERF)
        if subprocess.run([*kerf[:-1], "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("no mounts here")
        answer = subprocess.run([*kerf, *map(str, self.command), "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr.count("is not kept in memory, and the run goes on"), 1, answer.stderr)
        self.assertEqual((self.out / "weights.safetensors").read_bytes(), (self.whole / "weights.safetensors").read_bytes())

    @unittest.skipIf(SLOW > 1, "it waits for most of its time; the release build's is looked at")
    def test_who_is_left_goes_on_from_memory(self):
        address = free_address()
        process = self.start(*self.command, "--listen", address, "--shrink", "--json")
        workers = [self.start("worker", "--connect", address, *(() if index else ("--no-restart",))) for index in range(3)]
        first = self.await_memory(process)
        workers[0].kill()
        self.assertTrue(wait_until(lambda: self.memory_of(self.out / "checkpoints") not in (None, first) and not first.exists(), 60))
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        self.assertEqual(children, [], "the warden of the first is left")
        stdout, stderr = self.finish(process)
        self.assertEqual(len(json.loads(stdout)["workers"]), 2)
        self.assertIn("goes on with 2 workers, from the newest checkpoint", stderr)
        self.assertRegex(stderr, r"goes on from memory, step \d+")
        self.assertEqual(*(read_safetensors(folder / "weights.safetensors") for folder in (self.whole, self.out)))
        self.assert_nothing_is_left()


class Ends(KeptTest):
    """Nothing of it is left, however the run ends."""

    def command(self, seconds, *more):
        return (*TRAINED, "--epochs", 100000, "--keep-workers", seconds, "--out", self.out, *more)

    def test_when_nobody_comes(self):
        memory = self.killed(*self.command(1, "--save-every", 0))
        self.assert_nothing_is_left(seconds=5)
        answer = run(*self.command(1, "--save-every", 0, "--resume", self.out))
        self.assertEqual(answer.returncode, 2)
        self.assertIn(f"{memory}: it is gone", answer.stderr)
        self.assertIn("there is no checkpoint in it", answer.stderr)

    def test_when_it_is_asked_to(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for saves in (0, 1_000_000):
                with self.subTest(signal=number.name, saves=saves):
                    process = self.start(*self.command(60, "--save-every", saves))
                    memory = self.await_memory(process)
                    process.send_signal(number)
                    _, stderr = process.communicate(timeout=10 * SLOW)
                    self.assertEqual(process.returncode, 130, stderr)
                    self.assertFalse(memory.exists())
                    self.assertEqual(self.wardens(), [])
                    self.assertEqual(bool(list(self.out.glob("checkpoints/*"))), bool(saves))
                    shutil.rmtree(self.out)

    def test_on_disk_when_who_went_on_from_it_is_asked_to_end(self):
        """Though no run that is as young leaves any."""
        memory = self.killed(*self.command(60))
        self.assertEqual(list(self.out.glob("checkpoints/checkpoint-*")), [])
        process = self.start(*self.command(60, "--resume", self.out))
        for said in ("goes on from memory", "/100000"):  # and an epoch is over
            while said not in (line := process.stderr.readline()):
                self.assertTrue(line, "it ended before")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=10 * SLOW)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertIn("--resume", stderr)
        self.assertTrue(list(self.out.glob("checkpoints/checkpoint-*/manifest.json")))
        self.assertFalse(memory.exists())
        self.assertFalse((self.out / "checkpoints" / "memory.json").exists())
        self.assert_nothing_is_left()

    def test_when_its_warden_is_asked_to(self):
        process = self.start(*self.command(60, "--save-every", 0))
        memory = self.await_memory(process)
        os.kill(self.wardens()[0], signal.SIGTERM)
        time.sleep(0.3)
        self.assertTrue(memory.exists(), "as long as the run is there")
        process.kill()
        process.communicate()
        self.assert_nothing_is_left(seconds=5)

    def test_what_is_in_use_is_not_gone_on_from(self):
        process = self.start(*self.command(60, "--save-every", 10))
        memory = self.await_memory(process)
        answer = run(*TRAINED, "--epochs", 100000, "--steps", 1, "--resume", self.out, "--out", self.folder / "other")
        self.assertIn(f"{memory}: another run has it now", answer.stderr)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        self.assert_nothing_is_left()


class Journal(KeptTest):
    """It may be anybody's, and say anything."""

    def setUp(self):
        super().setUp()
        self.small = ("mlp", "--sizes", "784-12-10", "--data", "synthetic:64x784x10", "--batch", 16, "--no-test", "--workers", 2)
        self.train(*self.small, "--epochs", 2, "--save-every", 3, out="out")
        self.place = some_place()

    def resume(self, folder, **more):
        write_journal(self.out / "checkpoints", folder, **more)
        answer = run("train", *self.small, "--epochs", 3, "--resume", self.out, "--out", self.folder / "again", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(answer.stdout)["checkpoints"]["resumed_steps"], 6)
        return answer.stderr

    def test_that_leads_elsewhere(self):
        for folder in (self.out / "checkpoints", self.folder, "/dev/shm", "", f"{self.place}/../../tmp"):
            with self.subTest(folder=folder):
                self.assertIn("it is no folder that a run of Kerf keeps in memory", self.resume(folder))
        self.assertIn("it is gone", self.resume(self.place))
        self.assertIn("it is not what was written", self.resume(self.place, changed=True))
        self.assertNotIn("memory", self.resume(self.place, boot="another"))

    def test_of_what_is_not_this_users(self):
        shutil.copytree(self.out / "checkpoints", self.folder / "newer")
        self.place.symlink_to(self.folder / "newer")
        self.assertIn("it cannot be opened", self.resume(self.place))
        self.place.unlink()
        self.addCleanup(shutil.rmtree, self.place)
        self.place.mkdir(mode=0o755)
        self.assertIn("other users may look into it", self.resume(self.place))
        try:
            os.chown(self.place, 4321, 4321)
        except PermissionError:
            self.skipTest("only root gives files away")
        self.assertIn("it is another user's", self.resume(self.place))


class Programs(KeptTest):
    def test_go_on_from_memory(self):
        write_small_data(self.folder)
        program = (*factorisation(self.folder, 20000), "--workers", 2)
        kept = self.folder / "kept"
        self.assert_one_error(run(*program, "--keep-workers", 9), "--snapshot")
        self.assertEqual(run(*program, "--out", self.folder / "whole").returncode, 0)
        command = (*program, "--out", self.out, "--snapshot", kept, "--snapshot-seconds", 1000, "--keep-workers", 60)
        process = self.start(*command)
        self.await_memory(process, kept)
        process.kill()
        process.communicate(timeout=10)
        _, stderr = self.finish(self.start(*command, "--resume", kept))
        self.assertRegex(stderr, r"goes on from memory, round [1-9]\d*")
        files = [[file.read_bytes() for file in sorted((self.folder / out).iterdir())] for out in ("whole", "out")]
        self.assertEqual(*files)
        self.assert_nothing_is_left()

    def test_forget_what_is_gone(self):
        write_small_data(self.folder)
        kept = self.folder / "kept"
        program = (*factorisation(self.folder, 6), "--workers", 2, "--out", self.out, "--snapshot", kept, "--snapshot-rounds")
        self.assertEqual(run(*program, 3).returncode, 0)
        place = some_place()
        write_journal(kept, place)
        answer = run(*program, 1000, "--resume", kept)  # which takes none
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn(f"{place}: it is gone", answer.stderr)
        self.assertFalse((kept / "memory.json").exists())


if __name__ == "__main__":
    unittest.main()
