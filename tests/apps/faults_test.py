"""What networks and machines do to a run. Statements by number, beside those of restarts_test.py:

    R5   links that are cut, reset, half open, late, slow, or change bytes: the run goes on to the same bits, or fails soon
    R10  who is slow holds back who sends to it: memory stays within what was proved
    R15  a worker that is killed because memory is short is one that was lost

R5 is of the control connection here; of channels it is in tests/conformance/channel_broken_connection_test.cc, and between hosts in hosts_test.py.
With `full` R5 is of many plans of faults, and of runs that may not go on, and R10 of every transport.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

from kerf_command import SLOW, KerfTest, free_address, run, wait_until, workers_of
from tcp_proxy import TcpProxy

MODEL = ("train", "lenet5", "--data", "synthetic:2048x784x10", "--workers", 2, "--epochs", 40, "--no-test")  # seconds, for faults to find it at work
PLANS = 12  # of faults, where all are tried
MIB = 1 << 20


class FaultyTest(KerfTest):
    def outcome(self, out):
        record = json.loads((self.folder / out / "run.json").read_text())
        return (self.folder / out / "weights.safetensors").read_bytes(), record["losses"], record

    def expect_same(self, out, whole):
        weights, losses, record = self.outcome(out)
        self.assertEqual(losses, whole[1])
        self.assertTrue(weights == whole[0], "weights differ")
        self.assertTrue(record["equal"])
        return record


class Listened:
    """A run whose workers come by the proxy; of those that are lost their keepers start others."""

    def __init__(self, test, out, *more):
        self.test = test
        address = free_address()
        self.proxy = TcpProxy(int(address.rsplit(":", 1)[1]))
        test.addCleanup(self.proxy.close)
        self.scheduler = test.start(*MODEL, *more, "--listen", address, "--out", test.folder / out)
        self.keepers = [test.start("worker", "--connect", self.proxy.address) for _ in range(2)]
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(iter(self.scheduler.stderr.readline, "")), daemon=True)
        self.reader.start()

    def says(self, part, seconds=60):
        self.test.assertTrue(wait_until(lambda: any(part in line for line in self.lines[:]), seconds), self.lines)

    def end(self, seconds=90):
        try:
            code = self.scheduler.wait(timeout=seconds * SLOW)
        except subprocess.TimeoutExpired:
            for keeper in self.keepers:
                keeper.kill()
            told = [keeper.communicate()[1] for keeper in self.keepers]
            self.test.fail(f"still running; it said {''.join(self.lines)} and its workers {told}")
        self.reader.join(10)
        return code, "".join(self.lines)


class R5Test(FaultyTest):
    def disturbed(self, seed, whole):
        """Faults one after the other, each for a while, in an order of the seed; returns the run's record."""
        chance = random.Random(seed)
        out = f"disturbed {seed}"
        listened = Listened(self, out)
        proxy = listened.proxy
        proxy.random.seed(seed)
        listened.says("epoch 1/")

        def set_for(seconds, **faults):
            for name, value in faults.items():
                setattr(proxy, name, value)
            time.sleep(seconds)
            for name in faults:
                setattr(proxy, name, None if name != "frozen" and name != "delay" else 0)

        faults = [lambda: set_for(0.5, delay=0.05 + 0.1 * chance.random()), lambda: set_for(0.5, bytes_a_second=20_000 + chance.randrange(100_000)),
                  lambda: set_for(0.5, damage_every=200 + chance.randrange(2000)), lambda: set_for(0.2 + chance.random(), frozen=True), proxy.cut, proxy.half_close]
        chance.shuffle(faults)
        for fault in faults:
            if listened.scheduler.poll() is None:
                fault()
                time.sleep(chance.random() / 2)
        code, said = listened.end()
        self.assertEqual(code, 0, said)
        self.assertGreater(proxy.cuts + proxy.damaged, 0)
        record = self.expect_same(out, whole)
        self.assertEqual(said.count("all workers begin again"), record["restarts"])
        return record

    def go_on_to_the_same_bits(self, seeds):
        run(*MODEL, "--out", self.folder / "whole")
        whole = self.outcome("whole")
        for seed in seeds:
            with self.subTest(seed=seed):
                self.disturbed(seed, whole)


class R5(R5Test):
    def test_of_the_control_connection_go_on_to_the_same_bits(self):
        self.go_on_to_the_same_bits([0])

    def test_half_open_for_long_is_a_loss_and_the_run_goes_on(self):
        """Who was cut off ends by itself, and the next worker of its keeper comes when the link is back."""
        run(*MODEL, "--out", self.folder / "whole")
        listened = Listened(self, "disturbed")
        listened.says("epoch 1/")
        frozen = time.monotonic()
        listened.proxy.frozen = True
        listened.says(" was lost: silent for 3")
        self.assertLess(time.monotonic() - frozen, 5 * SLOW)
        for keeper in listened.keepers:
            while "starts another" not in (line := keeper.stderr.readline()):
                self.assertIn("has been silent for 3", line)
        listened.proxy.frozen = False
        code, said = listened.end()
        self.assertEqual(code, 0, said)
        self.assertEqual(self.expect_same("disturbed", self.outcome("whole"))["restarts"], 1)
        self.assertEqual([keeper.wait(10 * SLOW) for keeper in listened.keepers], [0, 0])


class R5Longer(R5Test):
    def test_of_the_control_connection_in_many_orders(self):
        self.go_on_to_the_same_bits(range(1, PLANS))

    def test_half_open_for_long_ends_a_run_that_may_not_go_on(self):
        for transport in ("tcp", "shm"):
            with self.subTest(transport=transport):
                listened = Listened(self, "ended", "--epochs", 1000, "--no-restart", "--transport", transport)
                listened.says("epoch 1/")
                since = time.monotonic()
                listened.proxy.frozen = True
                code, said = listened.end()
                self.assertLess(time.monotonic() - since, 8 * SLOW)
                self.assertEqual(code, 1, said)
                self.assertRegex(said, r"error: .*worker \d .* was lost: silent for 3")


class R10(FaultyTest):
    STEPS = ("mlp", "--sizes", "784-4096-10", "--data", "synthetic:4096x784x10", "--batch", 4096, "--micro-batches", 64, "--schedule", "gpipe", "--workers", 2,
             "--cut", "layer", "--steps", 2, "--no-test")

    def memory_of(self, pid):
        """What is its own and what it has touched of shared memory; 0 where it has ended."""
        try:
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon", "RssShmem")))

    def test_a_slow_worker_does_not_fill_memory(self):
        for transport in ("shm", "tcp") if "full" in sys.argv else ("tcp",):
            with self.subTest(transport=transport):
                process = self.start("train", *self.STEPS, "--transport", transport, "--out", self.folder / transport)
                workers = wait_until(lambda: len(now := workers_of(process.pid)) == 2 and now, 20)
                peaks = dict.fromkeys(workers, 0)
                turns = 0
                while process.poll() is None:
                    for pid in workers:
                        peaks[pid] = max(peaks[pid], self.memory_of(pid))
                    turns += 1
                    try:  # the second gets a fifth of the time
                        os.kill(workers[1], signal.SIGCONT if turns % 5 == 0 else signal.SIGSTOP)
                    except ProcessLookupError:
                        pass
                    time.sleep(0.01)
                self.assertEqual(process.wait(), 0, process.stderr.read())
                self.assertGreater(turns, 20)
                record = self.outcome(transport)[2]
                for worker in record["workers"]:
                    most = worker["proved_bytes"] + worker["data_bytes"] + record["process_allowance_bytes"]
                    self.assertGreater(peaks[worker["pid"]], 0)
                    self.assertLess(peaks[worker["pid"]], most + 8 * MIB, "and what a process begins with")
                    # What crosses would not have fitted beside it.
                    self.assertGreater(worker["bytes_in"] + worker["bytes_out"], 4 * record["process_allowance_bytes"])


class Cgroup:
    """Of processes that together may have little memory."""

    def __init__(self, limit):
        for parent, name in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
            path = pathlib.Path(parent) / f"kerf-test-{os.getpid()}"
            try:
                path.mkdir()
            except OSError:
                continue
            if not (path / name).exists():  # not of this kind
                path.rmdir()
                continue
            self.path = path
            (path / name).write_text(str(limit))
            return
        raise unittest.SkipTest("this machine gives nobody a memory cgroup of his own")

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def close(self):
        wait_until(lambda: not (self.path / "cgroup.procs").read_text(), 10)
        self.path.rmdir()


class R15(FaultyTest):
    def test_the_memory_of_a_cgroup_is_all_there_is(self):
        limit = 256 * MIB
        cgroup = Cgroup(limit)
        self.addCleanup(cgroup.close)
        answer = run("devices", "--json", preexec_fn=lambda: cgroup.add(os.getpid()))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(next(each["memory_bytes"] for each in json.loads(answer.stdout)["devices"] if each["name"] == "cpu"), limit)

    def test_out_of_memory(self):
        limit = 32 * MIB
        cgroup = Cgroup(limit)
        self.addCleanup(cgroup.close)
        self.train(*MODEL[1:], out="whole")
        process = self.start(*MODEL, "--out", self.folder / "disturbed")
        said = []
        while "epoch 1/" not in (said or [""])[-1]:
            said.append(process.stderr.readline())
            self.assertTrue(said[-1], "".join(said))
        worker = workers_of(process.pid)[1]
        # Of those that are short of memory, the kernel takes this one first.
        pathlib.Path(f"/proc/{worker}/oom_score_adj").write_text("1000")
        cgroup.add(worker)
        eater = subprocess.Popen([sys.executable, "-c", f"import sys; sys.stdin.read(1); food = b'x' * {2 * limit}"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(eater.wait)
        self.addCleanup(eater.kill)
        cgroup.add(eater.pid)
        eater.stdin.close()
        _, errors = process.communicate(timeout=60 * SLOW)
        self.assertEqual(process.returncode, 0, errors)
        self.assertRegex(errors, rf"worker \d \(pid {worker}\) was lost: signal 9")
        self.assertEqual(self.expect_same("disturbed", self.outcome("whole"))["restarts"], 1)


if __name__ == "__main__":
    full = "full" in sys.argv
    unittest.main(argv=[each for each in sys.argv if each != "full"], defaultTest=["R5Longer", "R10"] if full else ["R5", "R10", "R15"])
