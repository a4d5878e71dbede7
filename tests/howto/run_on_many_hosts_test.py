"""What docs/howto/run-on-many-hosts.md tells is done, command by command: three hosts (network namespaces of this machine), each with a home of its own."""

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
# Hosts of the page that are reached by name: what would go through ssh is done in their homes.
SSH = '#!/bin/sh\ncd "$HOMES/$1" && shift && exec "$@"\n'
SCP = '#!/bin/sh\nfor last; do :; done\nwhile [ $# -gt 1 ]; do cp "$1" "$HOMES/${last%%:*}/${last#*:}" || exit 1; shift; done\n'


class RunOnManyHosts(KerfTest):
    @classmethod
    def setUpClass(cls):
        cls.network = Network(3)
        cls.commands = [line for block in re.findall(r"^```\n(.*?)^```$", PAGE, re.M | re.S) for line in block.splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.network.close()

    def setUp(self):
        super().setUp()
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "kerf").symlink_to(KERF)
        for name, text in (("ssh", SSH), ("scp", SCP)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOMES": str(self.folder), "OMP_NUM_THREADS": "1"}
        for host in range(3):
            (self.folder / f"node{host}").mkdir()

    def the(self, beginning):
        """The first command of the page that begins so, at an address of these hosts."""
        return next(line for line in self.commands if line.startswith(beginning)).replace("10.0.0.1", "10.74.0.1")

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

    def until_at_work(self, run):
        for line in run.stderr:
            if "2 of 2 workers are here" in line:
                return time.sleep(1 * SLOW)
        return self.fail("the run ended before")

    def test_a_run_whose_host_is_lost_twice_ends_as_one_on_one_host(self):
        self.done(0, self.the("kerf keys make"))
        for host in (1, 2):
            for command in ("ssh node1", "scp "):
                self.done(0, self.the(command).replace("node1", f"node{host}"))
            self.assertEqual(sorted(path.name for path in (self.folder / f"node{host}" / "kerf-keys").iterdir()), ["scheduler.public", "worker.secret"])
        train = self.the("kerf train")
        alone = self.done(0, re.sub(r"--listen \S+ --keys \S+", "", train) + " " + shlex.join([*MORE, "--out", "alone"]))
        run = self.at(0, f"{train} {shlex.join(MORE)}")
        worker = self.the("kerf worker")
        workers = [self.at(host, worker) for host in (1, 2)]
        for _ in range(2):
            self.until_at_work(run)
            workers[0].kill()  # the keeper, and with it the worker
            workers[0].wait()
            workers[0] = self.at(1, worker)
        stdout, stderr = run.communicate(timeout=300 * SLOW)
        self.assertEqual(run.returncode, 0, stderr)
        for each in workers:
            _, errors = each.communicate(timeout=10 * SLOW)
            self.assertEqual(each.returncode, 0, errors)
        report, expected = json.loads(stdout), json.loads(alone)
        self.assertEqual(report["restarts"], 2)
        self.assertEqual(report["evaluations"], expected["evaluations"])
        last = report["evaluations"][-1]
        self.assertGreater(last["correct"] / last["rows"], 0.7)
        self.assertEqual(read_safetensors(self.folder / "node0/kerf-run/weights.safetensors"), read_safetensors(self.folder / "node0/alone/weights.safetensors"))


if __name__ == "__main__":
    try:
        Network(1).close()
    except (OSError, FileNotFoundError) as error:
        print(f"skipped: {error}")
        sys.exit(77)
    unittest.main()
