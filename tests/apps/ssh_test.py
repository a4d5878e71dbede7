"""`kerf train --hosts FILE` starts its workers by ssh, here of a server that listens on loopback alone. Skipped, saying so, where none runs."""

import getpass
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from kerf_command import KERF, SLOW, KerfTest, free_port, processes_of, read_safetensors, run, wait_until

RUN = ("lenet5", "--data", "synthetic:256x784x10", "--workers", 2, "--no-test")
HOSTS = ("node0", "node1", "stranger")


class Server:
    """An sshd of this user that lets in whoever has its key, and ssh with a configuration that knows it by the names of HOSTS."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-sshd-"))
        self.process = None
        try:
            self.start()
        except Exception:
            self.close()
            raise

    def start(self):
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        if not os.path.exists(sshd) or not shutil.which("ssh"):
            raise OSError("openssh-server or openssh-client is not installed")
        for name in ("host", "mine", "other"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True, stdin=subprocess.DEVNULL)
        shutil.copy(self.folder / "mine.pub", self.folder / "authorized")
        port = free_port()
        (self.folder / "known").write_text(f"[127.0.0.1]:{port} " + (self.folder / "host.pub").read_text())
        (self.folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nAuthorizedKeysFile {self.folder}/authorized\n"
            f"PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
            f"SetEnv HOME={self.folder}\n")  # what this user's shell does when it begins is nobody's matter here
        keys = {"stranger": "other"}
        (self.folder / "ssh_config").write_text("".join(
            f"Host {name}\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n IdentityFile {self.folder}/{keys.get(name, 'mine')}\n"
            for name in HOSTS) + f"Host *\n IdentitiesOnly yes\n IdentityAgent none\n UserKnownHostsFile {self.folder}/known\n StrictHostKeyChecking yes\n")
        self.ssh = self.folder / "ssh"
        self.ssh.write_text(f'#!/bin/sh\nexec ssh -F {self.folder}/ssh_config "$@"\n')
        self.ssh.chmod(0o755)
        if os.getuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # as its init script does
        self.process = subprocess.Popen([sshd, "-D", "-e", "-f", self.folder / "sshd_config"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=(self.folder / "log").open("wb"), start_new_session=True)
        answer = None
        deadline = time.monotonic() + 10 * SLOW
        while time.monotonic() < deadline and self.process.poll() is None:
            answer = subprocess.run([self.ssh, "-oBatchMode=yes", "node0", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if answer.returncode == 0:
                return
            time.sleep(0.05)
        raise OSError(f"no ssh server lets this user in: {(self.folder / 'log').read_text()[-500:]} {answer.stderr if answer else ''}")

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def clients(self):
        """Processes of ssh that this server's configuration started."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"{self.folder}/ssh_config".encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found


class Ssh(KerfTest):
    def setUp(self):
        super().setUp()
        self.keys = self.folder / "keys"
        self.assertEqual(run("keys", "make", self.keys).returncode, 0)
        self.hosts = self.folder / "hosts.txt"
        self.environment = {**os.environ, "KERF_SSH": str(SERVER.ssh)}
        self.addCleanup(lambda: self.assertTrue(wait_until(lambda: SERVER.clients() == [], 5), SERVER.clients()))

    def until_all_are_here(self, process):
        for line in process.stderr:
            if "2 of 2 workers are here" in line:
                return
        self.fail("the run ended before")

    def noted(self, name, before=""):
        """A kerf over there that says which process it is."""
        script = self.folder / name
        script.write_text(f"#!/bin/sh\n{before}\necho $$ > {script}.pid\nexec {KERF} \"$@\"\n")
        script.chmod(0o755)
        return script

    def pid_of(self, name):
        return int((self.folder / f"{name}.pid").read_text())

    def begin(self, *more, lines):
        self.hosts.write_text("".join(line + "\n" for line in lines))
        return self.start("train", *RUN, *more, "--hosts", self.hosts, "--listen", "tcp://127.0.0.1:*", "--json", "--out", self.folder / "far",
                          env=self.environment)

    def assert_same_as_here(self, process, *more):
        stdout, stderr = process.communicate(timeout=100 * SLOW)
        self.assertEqual(process.returncode, 0, stderr)
        own = self.train(*RUN, *more)
        report = json.loads(stdout)
        self.assertEqual(report["losses"], own["losses"])
        self.assertEqual(read_safetensors(self.folder / "far" / "weights.safetensors"),
                         read_safetensors(self.folder / "run" / "weights.safetensors"))
        return report, stderr

    def test_the_weights_are_those_of_a_local_run(self):
        theirs = self.folder / "their's"
        theirs.mkdir(mode=0o700)
        for name in ("worker.secret", "scheduler.public"):
            shutil.copy(self.keys / name, theirs / name)
        lines = ["# two workers of one host", f"node0 kerf={self.noted('first', 'sleep 1; echo this is the first')}", "",
                 f"node0 device=cpu keys={theirs} kerf={self.noted('second')}  # at once", "no-such-host.invalid"]
        process = self.begin("--steps", 6, "--keys", self.keys, lines=lines)
        report, stderr = self.assert_same_as_here(process, "--steps", 6)
        self.assertIn("node0: this is the first\n", stderr)
        self.assertEqual([worker["pid"] for worker in report["workers"]], [self.pid_of("first"), self.pid_of("second")])

    def test_programs_have_the_flag_too(self):
        self.hosts.write_text("node0\nnode1\n")
        flags = ("least-squares", "--rows", 200, "--columns", 20, "--workers", 2, "--json")
        far = run("run", *flags, "--hosts", self.hosts, "--listen", "tcp://127.0.0.1:*", env=self.environment)
        self.assertEqual(far.returncode, 0, far.stderr)
        self.assertEqual(json.loads(far.stdout)["solution"], json.loads(run("run", *flags).stdout)["solution"])

    def test_what_this_host_has_not_may_be_elsewhere(self):
        """More bytes than there are here: refused without --hosts, and with it a matter of those hosts."""
        flags = ("least-squares", "--rows", 10000000, "--columns", 100000)
        self.assertIn("this host has", run("run", *flags).stderr)
        self.hosts.write_text("node0\nno-such-host.invalid\n")
        answer = run("run", *flags, "--workers", 2, "--hosts", self.hosts, "--listen", "tcp://127.0.0.1:*", env=self.environment)
        self.assertIn(f"{self.hosts}:2: no-such-host.invalid: ", answer.stderr)

    def test_one_that_cannot_start_ends_the_run_at_once(self):
        for line, parts in (("no-such-host.invalid", ("exit code 255", "no-such-host.invalid", "resolve")),
                            ("stranger", ("exit code 255", "Permission denied", "ssh stranger true")),
                            (f"node1 kerf={self.folder}/absent", ("exit code 127", "absent", "kerf=PATH")),
                            ("node1 kerf=/bin/true", ("exit code 0",)),
                            (f"node1 keys={self.folder}/absent", ("exit code 2", "absent"))):
            with self.subTest(line=line):
                began = time.monotonic()
                process = self.begin("--steps", 6, "--keys", self.keys, lines=["node0", "# the other", line])
                _, stderr = process.communicate(timeout=60 * SLOW)
                self.assertEqual(process.returncode, 2, stderr)
                self.assertLess(time.monotonic() - began, 15 * SLOW)
                error = stderr.splitlines()[-1]
                for part in (f"kerf: error: {self.hosts}:3: {line.split()[0]}: no worker came to be: ssh ended with ", *parts):
                    self.assertIn(part, error)

    def test_a_worker_that_is_lost_is_started_again(self):
        lines = [f"node0 kerf={self.noted('first')}", f"node1 kerf={self.noted('second')}"]
        process = self.begin("--epochs", 400, lines=lines)
        self.until_all_are_here(process)
        time.sleep(1)
        before = (self.pid_of("first"), self.pid_of("second"))
        os.kill(before[1], signal.SIGKILL)
        report, stderr = self.assert_same_as_here(process, "--epochs", 400)
        self.assertIn("whoever is gone is started again over ssh", stderr)
        self.assertEqual(self.pid_of("first"), before[0])
        self.assertNotEqual(self.pid_of("second"), before[1])

    def test_a_host_that_is_away_for_a_while_is_waited_for(self):
        away = self.folder / "away"
        lines = [f"node0 kerf={self.noted('first')}", f"node1 kerf={self.noted('second', f'test ! -e {away} || exit 255')}"]
        process = self.begin("--epochs", 400, lines=lines)
        self.until_all_are_here(process)
        time.sleep(1)
        away.touch()
        before = self.pid_of("second")
        os.kill(before, signal.SIGKILL)
        for tries in range(2):
            self.assertTrue(any("node1: its ssh ended with exit code 255; it is tried again" in line for line in process.stderr), tries)
        away.unlink()
        self.assert_same_as_here(process, "--epochs", 400)
        self.assertNotEqual(self.pid_of("second"), before)

    def test_an_end_by_ctrl_c_or_by_force_leaves_nobody(self):
        for end, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            with self.subTest(end=end):
                process = self.begin("--epochs", 100000, lines=[f"node0 kerf={self.noted('first')}", f"node1 kerf={self.noted('second')}"])
                self.until_all_are_here(process)
                time.sleep(1)  # a worker that was not welcomed yet waits a minute for that
                process.send_signal(end)
                process.communicate(timeout=30 * SLOW)
                self.assertEqual(process.returncode, code)
                for name in ("first", "second"):
                    pid = self.pid_of(name)
                    self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 10), name)
                self.assertTrue(wait_until(lambda: SERVER.clients() == [], 10))
                self.assertEqual(processes_of(process.pid), {})

    def test_what_cannot_be(self):
        def refused(*parts, more=("--listen", "tcp://127.0.0.1:*"), text="node0\nnode1\n", **changed):
            self.hosts.write_text(text)
            answer = run("train", *RUN, "--steps", 6, "--hosts", self.hosts, *more, "--out", self.folder / "far", env={**self.environment, **changed})
            self.assertEqual(answer.returncode, 2, answer.stderr)
            for part in parts:
                self.assertIn(part, answer.stderr.splitlines()[-1])
        refused("--hosts: ", "--listen", more=())
        refused("--hosts: ", f"{self.hosts}:2: ", "device=DEVICE", text="node0\nnode1 colour=red\n")
        refused(f"{self.hosts}: it has 1 line and the run needs 2", text="node0\n")
        refused("no host", text="# nobody\n")
        refused(f"{self.hosts}:1: cannot start ", "absent", "KERF_SSH", KERF_SSH=f"{self.folder}/absent")
        self.hosts.unlink()
        self.assert_one_error(run("train", *RUN, "--hosts", self.hosts, "--listen", "tcp://127.0.0.1:*"), "--hosts: ", self.hosts)


if __name__ == "__main__":
    try:
        SERVER = Server()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: no ssh server can run here: {error}", file=sys.stderr)
        sys.exit(77)
    try:
        unittest.main()
    finally:
        SERVER.close()
