"""A run over three hosts: network namespaces of this machine, joined by a bridge. Skipped, saying so, where it makes none.

R5 is a number of the contract on faults, as in faults_test.py: links between hosts that change bytes, and with `full` those that are cut."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
import zlib

import numpy

from kerf_command import KERF, SLOW, KerfTest, child_of, read_safetensors, run, wait_until
from small_programs import factorisation, write_small_data
from tcp_proxy import TcpProxy

CONVOLUTIONS = pathlib.Path(__file__).parent.parent / "partitioner" / "onnx" / "models" / "convolutions.onnx"

RUN = ("lenet5", "--data", "synthetic:256x784x10", "--workers", 2, "--steps", 6, "--no-test")


class Network:
    """Networks of processes that only keep them, and die with this one."""

    def __init__(self, hosts):
        self.keepers = []
        try:
            self.bridge = bridge = self.keep()
            self.ip(bridge, "link add bridge type bridge")
            self.ip(bridge, "link set bridge up")
            self.hosts = [self.keep() for _ in range(hosts)]
            for host, keeper in enumerate(self.hosts):
                self.ip(keeper, "link set lo up")
                self.ip(keeper, f"link add eth0 type veth peer name to{host} netns {bridge}")
                self.ip(bridge, f"link set to{host} master bridge up")
                for address, bits in ((f"10.74.0.{host + 1}", "24"), (f"fd74::{host + 1}", "64")):
                    self.ip(keeper, f"address add {address}/{bits} dev eth0" + (" nodad" if ":" in address else ""))
                self.ip(keeper, "link set eth0 up")
        except Exception:
            self.close()
            raise

    def keep(self):
        keeper = subprocess.Popen(["unshare", "--net", "setpriv", "--pdeathsig", "KILL", "sh", "-c", "echo here; exec sleep 1000"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.keepers.append(keeper)
        if keeper.stdout.readline() != b"here\n":
            raise OSError("this process may make no networks")
        return keeper.pid

    def ip(self, keeper, arguments):
        answer = subprocess.run(["nsenter", "--target", str(keeper), "--net", "ip", *arguments.split()], capture_output=True, text=True)
        if answer.returncode:
            raise OSError(f"this machine refuses: ip {arguments}: {answer.stderr.strip()}")

    def plug(self, host, up):
        """The cable of a host in or out."""
        self.ip(self.bridge, f"link set to{host} {'up' if up else 'down'}")

    def close(self):
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()
            keeper.stdout.close()


class HostsTest(KerfTest):
    @classmethod
    def setUpClass(cls):
        cls.network = Network(3)

    @classmethod
    def tearDownClass(cls):
        cls.network.close()

    def setUp(self):
        super().setUp()
        self.keys = self.folder / "keys"
        self.assertEqual(run("keys", "make", self.keys).returncode, 0)

    def start_at(self, host, *arguments, before=(), **more):
        process = subprocess.Popen(["nsenter", "--target", str(self.network.hosts[host]), "--net", *before, KERF, *map(str, arguments)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **more)
        self.started.append(process)
        return process

    def expect_end(self, scheduler, workers):
        """What it wrote to both outputs."""
        stdout, stderr = scheduler.communicate(timeout=200 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        for worker in workers:
            _, errors = worker.communicate(timeout=10 * SLOW)
            self.assertEqual(worker.returncode, 0, errors)
        return stdout, stderr


class Hosts(HostsTest):
    def setUp(self):
        super().setUp()
        self.own = self.train(*RUN)

    def train_over(self, address, places, *more):
        """With a scheduler on host 0 and a worker at each of `places`."""
        scheduler = self.start_at(0, "train", *RUN, *more, "--listen", address, "--keys", self.keys, "--json", "--out", self.folder / "far")
        workers = [self.start_at(place, "worker", "--connect", address, "--keys", self.keys) for place in places]
        stdout, _ = self.expect_end(scheduler, workers)
        self.assertEqual(json.loads(stdout)["losses"], self.own["losses"])
        self.assertEqual(read_safetensors(self.folder / "far" / "weights.safetensors"),
                         read_safetensors(self.folder / "run" / "weights.safetensors"))

    def test_the_weights_are_those_of_a_local_run(self):
        self.train_over("tcp://10.74.0.1:5555", (1, 2))

    def test_over_ipv6_and_with_a_worker_beside_the_scheduler(self):
        self.train_over("tcp://[fd74::1]:5555", (0, 2))

    def test_two_workers_of_one_host_share_its_memory(self):
        """Over tcp alone they could not say that they want shared memory."""
        self.train_over("tcp://10.74.0.1:5556", (1, 1), "--transport", "shm")

    def lost_over(self, address, *more, lose):
        """A longer run with a worker at hosts 1 and 2, of which `lose` may end something once an epoch is over; what the run said."""
        longer = ("mlp", "--sizes", "784-32-10", "--data", "synthetic:2048x784x10", "--workers", 2, "--epochs", 60, "--no-test")
        own = self.train(*longer, out="own")
        scheduler = self.start_at(0, "train", *longer, *more, "--listen", address, "--keys", self.keys, "--json", "--out", self.folder / "far")
        keepers = [self.start_at(place, "worker", "--connect", address, "--keys", self.keys) for place in (1, 2)]
        said = []
        while "epoch 1/" not in (said or [""])[-1]:
            said.append(scheduler.stderr.readline())
            self.assertTrue(said[-1], "".join(said))
        lose(keepers)
        stdout, stderr = scheduler.communicate(timeout=200 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        record = json.loads(stdout)
        self.assertEqual(record["losses"], own["losses"])
        self.assertEqual(read_safetensors(self.folder / "far" / "weights.safetensors"), read_safetensors(self.folder / "own" / "weights.safetensors"))
        return record, keepers

    def test_a_keeper_starts_another_worker(self):
        record, keepers = self.lost_over("tcp://10.74.0.1:5559", lose=lambda keepers: os.kill(child_of(keepers[1].pid), signal.SIGKILL))
        self.assertEqual(record["restarts"], 1)
        for keeper in keepers:
            self.assertEqual(keeper.wait(10 * SLOW), 0)
        self.assertIn("ended by signal 9", keepers[1].stderr.read())

    def test_a_spare_takes_the_place_of_a_worker_whose_host_is_lost(self):
        address = "tcp://10.74.0.1:5560"

        def lose(keepers):
            keepers.append(self.start_at(2, "worker", "--connect", address, "--keys", self.keys))
            while "waits for one" not in keepers[2].stderr.readline():
                self.assertIsNone(keepers[2].poll())
            keepers[0].kill()

        record, keepers = self.lost_over(address, "--spares", 1, lose=lose)
        self.assertEqual(record["restarts"], 1)
        self.assertEqual([keeper.wait(10 * SLOW) for keeper in keepers], [-signal.SIGKILL, 0, 0])

    def test_hosts_do_not_share_memory(self):
        scheduler = self.start_at(0, "train", *RUN, "--transport", "shm", "--listen", "tcp://10.74.0.1:5557", "--keys", self.keys,
                                  "--out", self.folder / "far")
        for place in (1, 2):
            self.start_at(place, "worker", "--connect", "tcp://10.74.0.1:5557", "--keys", self.keys)
        _, stderr = scheduler.communicate(timeout=60 * SLOW)
        self.assertEqual(scheduler.returncode, 2)
        self.assertIn("over shm", stderr)

    def test_strangers_of_the_network_get_nothing(self):
        """One that knows the scheduler's public key, and has a key that is not listed."""
        address = "tcp://10.74.0.1:5558"
        scheduler = self.start_at(0, "train", *RUN, "--listen", address, "--keys", self.keys, "--json", "--out", self.folder / "far")
        others = self.folder / "others"
        run("keys", "make", others)
        shutil.copy(self.keys / "scheduler.public", others / "scheduler.public")
        stranger = self.start_at(2, "worker", "--connect", address, "--keys", others)
        lines = []
        while not any("not listed" in line and "10.74.0.3" in line for line in lines):
            lines.append(scheduler.stderr.readline())
            self.assertTrue(lines[-1], lines)
        self.assertIsNone(stranger.poll())
        for _ in range(2):
            self.start_at(1, "worker", "--connect", address, "--keys", self.keys)
        _, stderr = scheduler.communicate(timeout=60 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)


class Apart(HostsTest):
    """Workers that see nothing of the folders that the run writes into."""

    def setUp(self):
        super().setUp()
        self.far = self.folder / "far"
        self.far.mkdir()
        self.address = "tcp://10.74.0.1:5560"

    def start_worker(self, host):
        hidden = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && mount -t tmpfs none /dev/shm && exec "$@"', str(self.far))
        return self.start_at(host, "worker", "--connect", self.address, "--keys", self.keys, before=hidden)

    def start_scheduler(self, *arguments):
        return self.start_at(0, *arguments, "--listen", self.address, "--keys", self.keys)

    def over_hosts(self, hosts, *arguments):
        """What a run says with a worker at each of them."""
        scheduler = self.start_scheduler(*arguments)
        return self.expect_end(scheduler, [self.start_worker(host) for host in hosts])[0]

    def read_until(self, scheduler, part):
        said = [""]
        while part not in said[-1]:
            said.append(scheduler.stderr.readline())
            self.assertTrue(said[-1], "".join(said))
        return "".join(said)

    def expect_same(self, record, own):
        self.assertEqual(record["losses"], own["losses"])
        self.assertFalse([*self.far.glob(".shares-*")])
        self.assertTrue((self.far / "weights.safetensors").read_bytes() == (self.folder / "run" / "weights.safetensors").read_bytes())

    def test_the_weights_are_those_of_a_local_run(self):
        own = self.train(*RUN)
        record = json.loads(self.over_hosts((1, 2), "train", *RUN, "--json", "--out", self.far))
        self.expect_same(record, own)

    def test_the_best_weights_are_kept_at_the_scheduler(self):
        """They are written again and again, and a checkpoint has them, too."""
        best = ("mlp", "--sizes", "784-20-16-10", "--data", "synthetic:256x784x10", "--workers", 2, "--epochs", 5, "--early-stop", 2, "--save-every", 3)
        own = self.train(*best)
        record = json.loads(self.over_hosts((1, 2), "train", *best, "--json", "--out", self.far))
        self.expect_same(record, own)

    def test_a_worker_that_is_lost_is_replaced_and_nobody_begins_at_the_first_step(self):
        long = ("lenet5", "--data", "synthetic:2048x784x10", "--workers", 2, "--no-test", "--epochs", 160)
        own = self.train(*long)
        scheduler = self.start_scheduler("train", *long, "--json", "--out", self.far)
        workers = [self.start_worker(host) for host in (1, 2)]
        self.read_until(scheduler, "epoch 1/")
        time.sleep(4)  # within which they keep what they hold
        os.kill(workers[1].pid, signal.SIGKILL)
        before = self.read_until(scheduler, "start another")
        workers[1] = self.start_worker(2)
        stdout, stderr = self.expect_end(scheduler, workers)
        record = json.loads(stdout)
        begun = [int(each) for each in re.findall(r"all workers begin again from step (\d+)", before + stderr)]
        self.assertEqual((len(begun), record["restarts"]), (1, 1), stderr)
        self.assertGreater(begun[0], 0, "they kept nothing")
        self.expect_same(record, own)

    def test_a_checkpoint_is_gone_on_from_by_others(self):
        chain = ("mlp", "--sizes", "784-24-20-16-10", "--data", "synthetic:256x784x10", "--cut", "layer", "--optimizer", "adam", "--no-test", "--batch", 32)
        own = self.train(*chain, "--workers", 3, "--steps", 60)
        scheduler = self.start_scheduler("train", *chain, "--workers", 2, "--steps", 60, "--save-every", 2, "--no-restart", "--out", self.far)
        workers = [self.start_worker(host) for host in (1, 2)]
        self.assertTrue(wait_until(lambda: [*self.far.glob("checkpoints/checkpoint-*/manifest.json")], 60), scheduler.poll())
        os.kill(workers[0].pid, signal.SIGKILL)
        scheduler.communicate(timeout=60 * SLOW)
        self.assertNotEqual(scheduler.returncode, 0, "it was over before")
        checked = run("checkpoint", self.far, "--verify", "--json")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.address = "tcp://10.74.0.1:5561"
        record = json.loads(self.over_hosts((1, 2, 2), "train", *chain, "--workers", 3, "--steps", 60, "--resume", self.far, "--json", "--out", self.far))
        self.assertGreater(record["checkpoints"]["resumed_steps"], 0)
        self.expect_same(record, own)

    def test_what_they_held_outlives_the_scheduler(self):
        long = ("lenet5", "--data", "synthetic:2048x784x10", "--workers", 2, "--no-test", "--epochs", 60)
        own = self.train(*long)
        command = ("train", *long, "--save-every", 0, "--keep-workers", 60, "--json", "--out", self.far)
        scheduler = self.start_scheduler(*command)
        workers = [self.start_worker(host) for host in (1, 2)]
        self.assertTrue(wait_until(lambda: (self.far / "checkpoints" / "memory.json").exists() or scheduler.poll() is not None, 60))
        scheduler.kill()
        scheduler.communicate()
        stdout, stderr = self.expect_end(self.start_scheduler(*command, "--resume", self.far), workers)
        self.assertRegex(stderr, r"goes on from memory, step \d+")
        self.expect_same(json.loads(stdout), own)

    def test_a_programs_snapshots(self):
        write_small_data(self.folder)
        self.assertEqual(run(*factorisation(self.folder, 12), "--workers", 2, "--out", self.folder / "own").returncode, 0)
        kept = ("--snapshot", self.far / "kept", "--snapshot-rounds", 3)
        self.over_hosts((1, 2), *factorisation(self.folder, 12), "--workers", 2, *kept, "--out", self.folder / "first")
        self.address = "tcp://10.74.0.1:5562"
        self.over_hosts((2, 1), *factorisation(self.folder, 12), "--workers", 2, "--resume", self.far / "kept", "--out", self.folder / "last")
        for file in sorted((self.folder / "own").iterdir()):
            for out in ("first", "last"):
                self.assertTrue(file.read_bytes() == (self.folder / out / file.name).read_bytes(), file.name)

    def test_answers(self):
        numpy.save(self.folder / "x.npy", numpy.random.default_rng(3).standard_normal((11, 1, 8, 8)).astype(numpy.float32))
        infer = ("infer", CONVOLUTIONS, "--input", f"image={self.folder / 'x.npy'}", "--batch", 4, "--workers", 2)
        self.assertEqual(run(*infer, "--output", self.folder / "own").returncode, 0)
        self.over_hosts((1, 2), *infer, "--output", self.far)
        self.assertEqual(sorted(each.name for each in self.far.iterdir()), ["probabilities.npy"])
        self.assertTrue((self.far / "probabilities.npy").read_bytes() == (self.folder / "own" / "probabilities.npy").read_bytes())


class R5Test(HostsTest):
    LONG = ("lenet5", "--data", "synthetic:2048x784x10", "--workers", 2, "--epochs", 40, "--no-test")
    ADDRESS = "tcp://10.74.0.1:5563"

    def begin(self, *more, environment=None):
        """A run with a worker at each of the others, in its second epoch."""
        scheduler = self.start_at(0, "train", *self.LONG, *more, "--listen", self.ADDRESS, "--keys", self.keys, "--out", self.folder / "far")
        for place in (1, 2):
            self.add_worker(place, environment)
        self.await_line(scheduler, "epoch 1/")
        return scheduler

    def add_worker(self, place, environment=None):
        return self.start_at(place, "worker", "--connect", self.ADDRESS, "--keys", self.keys, **({"env": environment} if environment else {}))

    def await_line(self, scheduler, part):
        said = []
        while part not in (line := scheduler.stderr.readline()):
            said.append(line)
            self.assertTrue(line, f"it ended before it said '{part}': {''.join(said)}")

    def assert_same(self, scheduler):
        _, errors = scheduler.communicate(timeout=100 * SLOW)
        self.assertEqual(scheduler.returncode, 0, errors)
        whole = self.train(*self.LONG, out="whole")
        record = json.loads((self.folder / "far" / "run.json").read_text())
        self.assertEqual(record["losses"], whole["losses"])
        self.assertEqual(read_safetensors(self.folder / "far" / "weights.safetensors"), read_safetensors(self.folder / "whole" / "weights.safetensors"))
        return record

    def cut_off(self, host, seconds):
        self.addCleanup(self.network.plug, host, True)
        self.network.plug(host, False)
        time.sleep(seconds)
        self.network.plug(host, True)


class R5(R5Test):
    def proxied(self, sees=None):
        """A proxy at each of the workers' hosts, before all that it says to the other; and the environment of a worker there."""
        library = os.environ.get("KERF_PROXY_LIBRARY")
        if not library:
            self.skipTest("a library that goes before the sanitizers' own is refused by these")
        proxies = []
        for place in (1, 2):
            path = str(self.folder / f"told-{len([*self.folder.glob('told-*')])}")
            told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.addCleanup(told.close)
            told.bind(path)
            told.settimeout(5)
            targets = {}

            def target(client, told=told, targets=targets):
                source = str(client.getpeername()[1])
                while source not in targets:
                    port, *leads_to = told.recv(200).decode().split()
                    targets[port] = (leads_to[0], int(leads_to[1]))
                return targets.pop(source)

            proxy = TcpProxy(target=target, seed=place, network=self.network.hosts[place], sees=sees)
            self.addCleanup(proxy.close)
            proxies.append((proxy, {**os.environ, "LD_PRELOAD": library, "KERF_PROXY": f"{proxy.port} {self.ADDRESS.rsplit(':', 1)[1]} {path}"}))
        return proxies

    def test_bytes_that_are_changed_between_workers_are_dropped_and_sent_again(self):
        proxies = self.proxied()
        scheduler = self.start_at(0, "train", *self.LONG, "--listen", self.ADDRESS, "--keys", self.keys, "--out", self.folder / "far")
        for place, (_, environment) in enumerate(proxies, 1):
            self.add_worker(place, environment)
        self.await_line(scheduler, "epoch 1/")
        for proxy, _ in proxies:
            self.assertGreater(proxy.accepted, 0)
            proxy.damage_every = 200_000
        self.await_line(scheduler, "epoch 8/")
        for proxy, _ in proxies:
            proxy.damage_every = None
            proxy.cut()
        record = self.assert_same(scheduler)
        self.assertEqual(record["restarts"], 0)
        self.assertGreater(sum(proxy.damaged for proxy, _ in proxies), 5)
        self.assertGreater(sum(worker["dropped"] for worker in record["workers"]), 0)
        self.assertGreater(sum(worker["resent"] for worker in record["workers"]), 0)


    def over_wires(self, *more, every=None):
        """The record of a short run, what passed between its workers, and how many bits of it were changed."""
        passed = bytearray()
        proxies = self.proxied(passed.extend)
        for proxy, _ in proxies:
            proxy.damage_every = every
        own = self.train(*RUN, out="own")
        scheduler = self.start_at(0, "train", *RUN, *more, "--listen", self.ADDRESS, "--keys", self.keys, "--json", "--out", self.folder / "far")
        workers = [self.add_worker(place, environment) for place, (_, environment) in enumerate(proxies, 1)]
        record = json.loads(self.expect_end(scheduler, workers)[0])
        self.assertEqual(record["losses"], own["losses"])
        weights = read_safetensors(self.folder / "far" / "weights.safetensors")
        self.assertEqual(weights, read_safetensors(self.folder / "own" / "weights.safetensors"))
        return record, bytes(passed), sum(proxy.damaged for proxy, _ in proxies)

    @staticmethod
    def compressed(passed):
        return len(zlib.compress(passed)) / len(passed)

    @staticmethod
    def zeros_in(passed):
        """Stretches of what everybody knows of tensors: behind a rectifier there are zeros."""
        return passed.count(bytes(24))

    def test_of_what_is_encrypted_nothing_can_be_read(self):
        plain, in_plain, _ = self.over_wires()
        encrypted, on_wire, _ = self.over_wires("--encrypt-data")
        self.assertEqual((plain["data_encrypted"], encrypted["data_encrypted"]), (False, True))
        # It is there, and like random numbers, which nothing makes shorter.
        self.assertGreater(len(on_wire), 100_000)
        self.assertLess(self.compressed(in_plain), 0.95)
        self.assertGreater(self.compressed(on_wire), 0.99)
        self.assertGreater(self.zeros_in(in_plain), 100)
        self.assertEqual(self.zeros_in(on_wire), 0)
        self.assertIn(b"KRFd", in_plain)
        self.assertNotIn(b"KRFd", on_wire)

    def test_bits_that_are_changed_of_what_is_encrypted_change_nothing(self):
        record, _, damaged = self.over_wires("--encrypt-data", every=200_000)
        self.assertGreater(damaged, 3)
        self.assertGreater(sum(worker["dropped"] for worker in record["workers"]), 0)


class R5Longer(R5Test):
    def test_a_cable_that_is_out_for_a_moment_is_not_noticed(self):
        scheduler = self.begin()
        self.cut_off(2, 0.7)
        self.assertEqual(self.assert_same(scheduler)["restarts"], 0)

    def test_behind_a_cable_that_is_out_for_long_another_worker_comes(self):
        scheduler = self.begin()
        since = time.monotonic()
        self.addCleanup(self.network.plug, 2, True)
        self.network.plug(2, False)
        self.await_line(scheduler, "was lost: silent for 3")
        self.assertLess(time.monotonic() - since, 5 * SLOW)
        self.await_line(scheduler, "begin again from step")
        self.network.plug(2, True)
        self.assertEqual(self.assert_same(scheduler)["restarts"], 1)

    def test_a_cable_that_is_out_for_long_ends_a_run_that_may_not_go_on(self):
        scheduler = self.begin("--no-restart")
        since = time.monotonic()
        self.cut_off(2, 4 * SLOW)
        _, errors = scheduler.communicate(timeout=10 * SLOW)
        self.assertLess(time.monotonic() - since, 8 * SLOW)
        self.assertEqual(scheduler.returncode, 1)
        self.assertRegex(errors, r"error: .*worker \d .* was lost: silent for 3")


if __name__ == "__main__":
    try:
        Network(1).close()
    except (OSError, FileNotFoundError) as error:
        print(f"skipped: there are no hosts beside this one: {error}", file=sys.stderr)
        sys.exit(77)
    full = "full" in sys.argv
    unittest.main(argv=[each for each in sys.argv if each != "full"], defaultTest=["R5Longer"] if full else ["Hosts", "Apart", "R5"])
