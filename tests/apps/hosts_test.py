"""A run over three hosts: network namespaces of this machine, joined by a bridge. Skipped, saying so, where it makes none."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

from kerf_command import KERF, SLOW, KerfTest, read_safetensors, run, wait_until

RUN = ("lenet5", "--data", "synthetic:256x784x10", "--workers", 2, "--steps", 6, "--no-test")


def child_of(pid):
    """The worker of a keeper."""
    return wait_until(lambda: [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()], 10)[0]


class Network:
    """Networks of processes that only keep them, and die with this one."""

    def __init__(self, hosts):
        self.keepers = []
        try:
            bridge = self.keep()
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

    def close(self):
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()
            keeper.stdout.close()


class Hosts(KerfTest):
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
        self.own = self.train(*RUN)

    def start_at(self, host, *arguments):
        process = subprocess.Popen(["nsenter", "--target", str(self.network.hosts[host]), "--net", KERF, *map(str, arguments)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.started.append(process)
        return process

    def train_over(self, address, places, *more):
        """With a scheduler on host 0 and a worker at each of `places`."""
        scheduler = self.start_at(0, "train", *RUN, *more, "--listen", address, "--keys", self.keys, "--json", "--out", self.folder / "far")
        workers = [self.start_at(place, "worker", "--connect", address, "--keys", self.keys) for place in places]
        stdout, stderr = scheduler.communicate(timeout=100 * SLOW)
        self.assertEqual(scheduler.returncode, 0, stderr)
        for worker in workers:
            _, errors = worker.communicate(timeout=10 * SLOW)
            self.assertEqual(worker.returncode, 0, errors)
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
        longer = ("mlp", "--sizes", "784-32-10", "--data", "synthetic:2048x784x10", "--workers", 2, "--epochs", 12, "--no-test")
        own = self.train(*longer, out="own")
        scheduler = self.start_at(0, "train", *longer, *more, "--listen", address, "--keys", self.keys, "--json", "--out", self.folder / "far")
        keepers = [self.start_at(place, "worker", "--connect", address, "--keys", self.keys) for place in (1, 2)]
        said = []
        while "epoch 1/" not in (said or [""])[-1]:
            said.append(scheduler.stderr.readline())
            self.assertTrue(said[-1], "".join(said))
        lose(keepers)
        stdout, stderr = scheduler.communicate(timeout=100 * SLOW)
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
            while "waits as a spare" not in keepers[2].stderr.readline():
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


if __name__ == "__main__":
    try:
        Network(1).close()
    except (OSError, FileNotFoundError) as error:
        print(f"skipped: there are no hosts beside this one: {error}", file=sys.stderr)
        sys.exit(77)
    unittest.main()
