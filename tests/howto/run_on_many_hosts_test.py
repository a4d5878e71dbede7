"""What docs/howto/run-on-many-hosts.md tells is done, command by command: three hosts (network namespaces of this machine), each with a home of its own.
Its command of Slurm is followed by tests/apps/slurm_test.py."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "apps"))
from hosts_test import Network  # noqa: E402
from kerf_command import KERF, SLOW, KerfTest, read_safetensors  # noqa: E402

PAGE = (HERE.parents[1] / "docs/howto/run-on-many-hosts.md").read_text()
MORE = ("--epochs", "2", "--json")
FEW = ("--steps", "12", "--no-test", "--json")
# The commands of the page, each by how it begins and what is in it alone.
KEYS, MKDIR, SCP_KEYS, WORKER = (("kerf keys make", ""), ("ssh node1", ""), ("scp ", ""), ("kerf worker", ""))
PLAIN, HOSTS, BUDDY, SPARES, ENCRYPTED = (("kerf train lenet5 --workers 2 --listen", "~/kerf-keys\n"), ("kerf train", "--hosts"), ("kerf train", "--buddy-every"),
                                          ("kerf train", "--spares"), ("kerf train", "--encrypt-data"))
SRUN = ("srun ", "")
FOLLOWED = (KEYS, MKDIR, SCP_KEYS, WORKER, PLAIN, HOSTS, BUDDY, SPARES, ENCRYPTED, SRUN)
# Hosts of the page that are reached by name: what would go through ssh is done in their homes.
SSH = '#!/bin/sh\ncd "$HOMES/$1" && shift && exec "$@"\n'
# What kerf asks of ssh, in the network of that host, too.
KERF_SSH = """#!/bin/sh
while case "$1" in -*) true;; *) false;; esac; do shift; done
host=${1##*@}
shift
cd "$HOMES/$host" && HOME=$PWD exec nsenter --target "$(cat "$HOMES/$host.network")" --net sh -c "$*"
"""
SCP = '#!/bin/sh\nfor last; do :; done\nwhile [ $# -gt 1 ]; do cp "$1" "$HOMES/${last%%:*}/${last#*:}" || exit 1; shift; done\n'


class RunOnManyHosts(KerfTest):
    @classmethod
    def setUpClass(cls):
        cls.network = Network(3)
        cls.blocks = re.findall(r"^```\n(.*?)^```$", PAGE, re.M | re.S)
        (cls.hosts_file,) = [block for block in cls.blocks if block.startswith("# hosts.txt\n")]
        cls.commands = [line for block in cls.blocks if block != cls.hosts_file for line in block.splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.network.close()

    def setUp(self):
        super().setUp()
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "kerf").symlink_to(KERF)
        for name, text in (("ssh", SSH), ("scp", SCP), ("kerf-ssh", KERF_SSH)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOMES": str(self.folder), "OMP_NUM_THREADS": "1"}
        self.environment["KERF_SSH"] = str(tools / "kerf-ssh")
        for host in range(3):
            (self.folder / f"node{host}").mkdir()
            (self.folder / f"node{host}.network").write_text(str(self.network.hosts[host]))

    @classmethod
    def matching(cls, command):
        beginning, part = command
        return [line for line in cls.commands if line.startswith(beginning) and part in line + "\n"]

    def the(self, command):
        """The command of the page, at an address of these hosts."""
        (line,) = self.matching(command)
        return line.replace("10.0.0.1", "10.74.0.1")

    def test_no_command_of_the_page_is_forgotten(self):
        self.assertEqual(sorted(line for command in FOLLOWED for line in self.matching(command)), sorted(self.commands))

    def at(self, host, command):
        """Starts it, in a home of that host's own."""
        home = self.folder / f"node{host}"
        inside = ["nsenter", "--target", str(self.network.hosts[host]), "--net", "bash", "-c", f"exec {command}"]
        process = subprocess.Popen(inside, cwd=home, env={**self.environment, "HOME": str(home)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.started.append(process)
        return process

    def done(self, host, command):
        process = self.at(host, command)
        stdout, stderr = process.communicate(timeout=300 * SLOW)
        self.assertEqual(process.returncode, 0, f"{command}: {stderr}")
        return stdout

    def share_keys(self):
        self.done(0, self.the(KEYS))
        for host in (1, 2):
            for command in (MKDIR, SCP_KEYS):
                self.done(0, self.the(command).replace("node1", f"node{host}"))
            self.assertEqual(sorted(path.name for path in (self.folder / f"node{host}" / "kerf-keys").iterdir()), ["scheduler.public", "worker.secret"])

    def alone(self, train, *more):
        """What the same run says that has one host."""
        here = re.sub(r"--(listen|keys|hosts|spares|buddy-every) \S+|--encrypt-data", "", train)
        return json.loads(self.done(0, f"{here} {shlex.join([*more, '--out', 'alone'])}"))

    def expect_same(self, run, expected, *keepers):
        stdout, stderr = run.communicate(timeout=300 * SLOW)
        self.assertEqual(run.returncode, 0, stderr)
        for each in keepers:
            _, errors = each.communicate(timeout=10 * SLOW)
            self.assertEqual(each.returncode, 0, errors)
        report = json.loads(stdout)
        self.assertEqual((report["losses"], report["evaluations"]), (expected["losses"], expected["evaluations"]))
        self.assertEqual(read_safetensors(self.folder / "node0/kerf-run/weights.safetensors"), read_safetensors(self.folder / "node0/alone/weights.safetensors"))
        return report

    def until_at_work(self, run):
        for line in run.stderr:
            if "2 of 2 workers are here" in line:
                return time.sleep(1 * SLOW)
        return self.fail("the run ended before")

    def test_a_run_whose_host_is_lost_twice_ends_as_one_on_one_host(self):
        self.share_keys()
        train = self.the(PLAIN)
        expected = self.alone(train, *MORE)
        run = self.at(0, f"{train} {shlex.join(MORE)}")
        worker = self.the(WORKER)
        workers = [self.at(host, worker) for host in (1, 2)]
        for _ in range(2):
            self.until_at_work(run)
            workers[0].kill()  # the keeper, and with it the worker
            workers[0].wait()
            workers[0] = self.at(1, worker)
        report = self.expect_same(run, expected, *workers)
        self.assertEqual(report["restarts"], 2)
        last = report["evaluations"][-1]
        self.assertGreater(last["correct"] / last["rows"], 0.7)

    def test_commits_by_steps_and_encrypted_tensors(self):
        self.share_keys()
        for command, encrypted in ((BUDDY, False), (ENCRYPTED, True)):
            with self.subTest(command=command):
                train = self.the(command)
                expected = self.alone(train, *FEW)
                run = self.at(0, f"{train} {shlex.join(FEW)}")
                report = self.expect_same(run, expected, *(self.at(host, self.the(WORKER)) for host in (1, 2)))
                self.assertEqual(report["data_encrypted"], encrypted)

    @unittest.skipUnless("full" in sys.argv, "hosts_test.py has it with a smaller run; `full` runs the page's")
    def test_a_spare_takes_the_place_of_a_lost_host(self):
        self.share_keys()
        train = self.the(SPARES)
        expected = self.alone(train, *MORE)
        run = self.at(0, f"{train} {shlex.join(MORE)}")
        workers = [self.at(host, self.the(WORKER)) for host in (1, 2)]
        self.until_at_work(run)
        spare = self.at(2, self.the(WORKER))
        self.assertTrue(any("waits for one" in line for line in spare.stderr))
        workers[0].kill()
        workers[0].wait()
        self.assertEqual(self.expect_same(run, expected, workers[1], spare)["restarts"], 1)

    def test_workers_over_ssh(self):
        """By the page's file, but that no host has a GPU and where kerf lies."""
        self.share_keys()
        file = re.sub(r"device=cuda:\d", "device=cpu", self.hosts_file).replace("/opt/kerf/bin/kerf", KERF)
        self.assertEqual((file.count("device=cpu"), file.count(KERF)), (2, 1), "what the page shows is another file")
        (self.folder / "node0/hosts.txt").write_text(file)
        train = self.the(HOSTS)
        expected = self.alone(train, *FEW)
        self.expect_same(self.at(0, f"{train} {shlex.join(FEW)}"), expected)


if __name__ == "__main__":
    try:
        Network(1).close()
    except (OSError, FileNotFoundError) as error:
        print(f"skipped: {error}")
        sys.exit(77)
    unittest.main(argv=[each for each in sys.argv if each != "full"])
