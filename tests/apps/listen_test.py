"""`kerf train --listen` waits for `kerf worker --connect`, and computes the same."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import time
import unittest

from kerf_command import KERF, SLOW, KerfTest, child_of, connect, free_address, read_safetensors, run, wait_until, workers_of

RUN = ("lenet5", "--data", "synthetic:256x784x10", "--workers", 2, "--steps", 6, "--no-test")


class Listen(KerfTest):
    def connect_and_train(self, transport, *worker_flags):
        address = free_address()
        wish = ("--transport", transport) if transport else ()
        scheduler = self.start("train", *RUN, "--listen", address, *wish, "--json", "--out", self.folder / "listened")
        workers = [self.start("worker", "--connect", address, "--no-restart", *flags) for flags in worker_flags]
        stdout, stderr = scheduler.communicate(timeout=60 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        for worker in workers:
            _, errors = worker.communicate(timeout=10 * SLOW)
            self.assertEqual(worker.returncode, 0, errors)
        return json.loads(stdout), [worker.pid for worker in workers]

    def test_workers_started_by_hand_give_the_same_answer(self):
        own = self.train(*RUN)
        for transport in (None, "shm", "tcp"):
            with self.subTest(transport=transport):
                report, pids = self.connect_and_train(transport, (), ())
                self.assertEqual(report["losses"], own["losses"])
                self.assertEqual(sorted(worker["pid"] for worker in report["workers"]), sorted(pids))
                self.assertEqual(read_safetensors(self.folder / "listened" / "weights.safetensors"),
                                 read_safetensors(self.folder / "run" / "weights.safetensors"))

    def test_a_worker_may_wish_for_its_number(self):
        report, pids = self.connect_and_train("ipc", ("--index", 1), ("--index", 0))
        self.assertEqual([worker["pid"] for worker in report["workers"]], [pids[1], pids[0]])

    def test_a_worker_that_waits_says_so_once(self):
        def told(*, listened):
            address = free_address()
            scheduler = None
            if listened:
                scheduler = self.start("train", *RUN, "--listen", address, "--json", "--out", self.folder / "listened")
                connect(address).close()
            ours, theirs = pty.openpty()
            worker = subprocess.Popen([KERF, "worker", "--connect", address], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=theirs)
            os.close(theirs)
            shown = b""
            with open(ours, "rb", buffering=0) as screen:
                # Until it speaks, and then long enough for it to speak again.
                for seconds in (2 if listened else 20, 2):
                    if select.select([screen], [], [], seconds * SLOW)[0]:
                        shown += screen.read(4096)
                worker.kill()
                worker.wait()
            if scheduler:
                scheduler.kill()
            return shown.decode(), address
        shown, address = told(listened=False)
        self.assertEqual(shown.count(f"kerf worker: nobody listens at {address} yet; waiting"), 1, shown)
        self.assertEqual(len(shown.splitlines()), 1)
        self.assertEqual(told(listened=True)[0], "")

    def test_a_worker_whose_scheduler_does_not_come_back_ends_when_its_patience_does(self):
        address = free_address()
        keepers = [self.start("worker", "--connect", address, "--patience", seconds) for seconds in (2, 4)]
        scheduler = self.start("train", *RUN[:-3], "--no-test", "--epochs", 100000, "--listen", address, "--out", self.folder / "listened")
        lines = iter(scheduler.stderr.readline, "")
        self.assertTrue(any("2 of 2 workers are here" in line for line in lines))
        began = time.monotonic()
        scheduler.kill()
        scheduler.wait()
        for keeper, patience in zip(keepers, (2, 4), strict=True):
            _, errors = keeper.communicate(timeout=60 * SLOW)
            self.assertGreaterEqual(time.monotonic() - began, patience)
            self.assertLess(time.monotonic() - began, (patience + 8) * SLOW)  # and what it takes to notice, and to begin anew
            self.assertEqual(keeper.returncode, 1, errors)
            self.assertIn(f"no scheduler answered at {address} within {patience} s", errors)
            with self.assertRaises(ProcessLookupError):
                os.killpg(keeper.pid, 0)

    @unittest.skipIf(SLOW > 1, "it waits for half of its time; the release build's is looked at")
    def test_who_is_left_goes_on_without_a_lost_worker(self):
        longer = ("mlp", "--sizes", "784-24-16-10", "--data", "synthetic:2048x784x10", "--workers", 3, "--epochs", 100, "--no-test", "--schedule", "gpipe")
        whole = self.train(*longer, out="whole")
        for saves in (True, False):
            with self.subTest(saves=saves):
                address, out = free_address(), self.folder / f"shrunk {saves}"
                scheduler = self.start("train", *longer, "--listen", address, "--shrink", "--save-every", 7 if saves else 0, "--json", "--out", out)
                workers = [self.start("worker", "--connect", address, *(() if index else ("--no-restart",))) for index in range(3)]
                for line in scheduler.stderr:
                    if "epoch 1/" in line:
                        break
                workers[0].kill()
                stdout, stderr = scheduler.communicate(timeout=120 * SLOW)
                self.assertEqual(scheduler.returncode, 0, stderr)
                report = json.loads(stdout)
                self.assertEqual(len(report["workers"]), 2)
                self.assertEqual(report["losses"], whole["losses"])
                self.assertEqual(read_safetensors(out / "weights.safetensors"), read_safetensors(self.folder / "whole" / "weights.safetensors"))
                self.assertEqual(bool(report["checkpoints"]), saves)
                self.assertIn("2 of 3 workers registered", stderr)
                self.assertIn("goes on with 2 workers, from the " + ("newest checkpoint" if saves else "first step"), stderr)
                self.assertEqual([worker.wait(10 * SLOW) for worker in workers[1:]], [0, 0])
                self.assertEqual([path.name for path in out.iterdir() if path.name.startswith(".")], [])

    def test_an_interrupt_while_another_worker_is_waited_for_ends_the_run_at_once(self):
        """A run that would write a checkpoint first has nobody now whose state it could write."""
        address, out = free_address(), self.folder / "interrupted"
        scheduler = self.start("train", *RUN[:-3], "--epochs", 1000, "--no-test", "--listen", address, "--save-every", 2, "--out", out)
        workers = [self.start("worker", "--connect", address, "--no-restart") for _ in range(2)]
        self.assertTrue(wait_until(lambda: [*out.glob("checkpoints/checkpoint-*/manifest.json")], 60), scheduler.poll())
        workers[1].kill()
        for line in scheduler.stderr:
            if "start another" in line:
                break
        since = time.monotonic()
        scheduler.send_signal(signal.SIGINT)
        _, stderr = scheduler.communicate(timeout=20 * SLOW)
        self.assertLess(time.monotonic() - since, 5 * SLOW)
        self.assertEqual(scheduler.returncode, 130, stderr)
        self.assertRegex(stderr, r"error: interrupted; --resume \S+ goes on from checkpoint-")

    def test_a_stranger_does_no_harm(self):
        address = free_address()
        scheduler = self.start("train", *RUN, "--listen", address, "--json", "--out", self.folder / "listened")
        first = self.start("worker", "--connect", address)
        with connect(address) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: kerf\r\n\r\n" + bytes(range(256)) * 64)
        second = self.start("worker", "--connect", address)
        _, stderr = scheduler.communicate(timeout=60 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        self.assertEqual((first.wait(10 * SLOW), second.wait(10 * SLOW)), (0, 0))


class FirstTask(KerfTest):
    """Of as many tasks as workers the first keeps one beside the scheduler: without that it does not wait for ever."""

    def task(self, rank):
        return {"env": {**os.environ, "KERF_RANK": str(rank), "KERF_RANKS": "2"}}

    def test_whose_own_worker_cannot_start_ends_the_run_at_once(self):
        keys = self.folder / "keys"
        self.assertEqual(run("keys", "make", keys).returncode, 0)
        (keys / "worker.secret").unlink()
        answer = run("train", *RUN, "--launcher", "kerf", "--listen", free_address(), "--keys", keys, "--out", self.folder / "launched",
                     timeout=20, **self.task(0))
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertRegex(answer.stderr, r"(?s)kerf worker: error: \S+worker\.secret: .*"
                                        r"kerf: error: the worker that this task keeps ended with exit code 2 before all workers were here")

    def test_whose_own_keeper_is_killed_ends_the_run_that_would_wait_for_it(self):
        command = ("train", *RUN[:-3], "--no-test", "--epochs", 100000, "--launcher", "kerf", "--listen", free_address(), "--out", self.folder / "launched")
        first, _ = (self.start(*command, **self.task(rank)) for rank in range(2))
        lines = iter(first.stderr.readline, "")
        self.assertTrue(any("2 of 2 workers are here" in line for line in lines))
        began = time.monotonic()
        os.kill(child_of(first.pid), signal.SIGKILL)
        _, stderr = first.communicate(timeout=60 * SLOW)
        self.assertLess(time.monotonic() - began, 10 * SLOW)
        self.assertEqual(first.returncode, 1, stderr)
        self.assertIn("error: the worker that this task keeps ended with signal 9", stderr)


class Containers(KerfTest):
    """Workers that have the host's network, and see no process but their own."""

    CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")

    def setUp(self):
        super().setUp()
        tried = subprocess.run([*self.CONTAINER, "true"], capture_output=True, text=True, check=False)
        if tried.returncode:
            self.skipTest(f"this machine makes no namespaces of processes: {tried.stderr.strip()}")

    def start_contained(self, address):
        process = subprocess.Popen([*self.CONTAINER, KERF, "worker", "--connect", address], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.started.append(process)
        return process

    def assert_same(self, record, own):
        self.assertEqual(record["losses"], own["losses"])
        self.assertEqual(*(read_safetensors(self.folder / out / "weights.safetensors") for out in ("listened", "run")))

    def test_share_memory_with_workers_of_the_host_and_of_other_containers(self):
        run = ("lenet5", "--data", "synthetic:256x784x10", "--workers", 3, "--cut", "batch", "--steps", 6, "--no-test")
        own, address = self.train(*run), free_address()
        scheduler = self.start("train", *run, "--listen", address, "--transport", "shm", "--json", "--out", self.folder / "listened")
        workers = [self.start_contained(address), self.start_contained(address), self.start("worker", "--connect", address)]
        stdout, stderr = scheduler.communicate(timeout=60 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        self.assertEqual([worker.wait(10 * SLOW) for worker in workers], [0, 0, 0])
        self.assert_same(json.loads(stdout), own)

    def test_get_shared_memory_unasked_and_what_they_keep_outlives_them(self):
        """Files of the run they have by the scheduler, whose /proc/PID/fd none of them sees."""
        longer = ("mlp", "--sizes", "784-32-10", "--data", "synthetic:2048x784x10", "--workers", 2, "--epochs", 60, "--no-test")
        own, address = self.train(*longer), free_address()
        scheduler = self.start("train", *longer, "--listen", address, "--json", "--out", self.folder / "listened")
        containers = [self.start_contained(address) for _ in range(2)]

        def mapped(container):
            """The rights to what it shares: its own slots, and the other's."""
            rights = set()
            for pid in workers_of(container.pid):
                try:
                    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
                except OSError:
                    continue  # it ended meanwhile
                rights |= {line.split()[1] for line in lines if "memfd:kerf-slots" in line}
            return rights

        for container in containers:
            self.assertTrue(wait_until(lambda of=container: mapped(of) == {"rw-s", "r--s"}, 20), mapped(container))
        for line in scheduler.stderr:
            if "epoch 1/" in line:
                break
        os.kill(workers_of(containers[1].pid)[-1], signal.SIGKILL)
        stdout, stderr = scheduler.communicate(timeout=100 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        record = json.loads(stdout)
        self.assertEqual(record["restarts"], 1)
        self.assert_same(record, own)
        self.assertEqual([container.wait(10 * SLOW) for container in containers], [0, 0])

    def test_end_when_asked_also_where_nothing_runs_yet(self):
        """By Ctrl-C and `podman stop`, for which a container's first process has no action but its own."""
        for asked in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=asked.name):
                unread, full = os.pipe()
                self.addCleanup(os.close, unread)
                self.addCleanup(os.close, full)
                os.write(full, bytes(fcntl.fcntl(full, fcntl.F_SETPIPE_SZ, 4096)))
                process = subprocess.Popen([*self.CONTAINER, KERF, "models"], stdin=subprocess.DEVNULL, stdout=full)
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
                first = child_of(process.pid)

                def ended(process=process, first=first, asked=asked):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(first, asked)  # over and over: it may have come before kerf was there
                    return process.poll() is not None

                self.assertTrue(wait_until(ended, 10), "it writes, and nobody reads")
                self.assertEqual(process.returncode, 128 + asked)


if __name__ == "__main__":
    unittest.main()
