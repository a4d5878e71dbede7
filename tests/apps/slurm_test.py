"""Under srun a command is a scheduler and its workers: on three nodes of Slurm that this host plays. Skipped, saying so, where its daemons cannot run."""

import getpass
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from kerf_command import KERF, SLOW, KerfTest, child_of, free_address, free_port, read_safetensors, run, wait_until

RUN = ("lenet5", "--data", "synthetic:256x784x10", "--workers", 2, "--no-test")
NODES = ("n0", "n1", "n2")
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "docs/deploy"


class Cluster:
    """munged, slurmctld and a slurmd for each node, on loopback, with all that they write in a folder."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-slurm-"))
        self.daemons = []
        try:
            self.start()
        except Exception:
            self.close()
            raise

    def start(self):
        for program in ("munged", "slurmctld", "slurmd", "srun"):
            if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
                raise OSError(f"{program} is not installed")
        self.folder.chmod(0o755)  # or munged finds its socket out of others' reach
        (self.folder / "key").write_bytes(os.urandom(1024))
        (self.folder / "key").chmod(0o600)
        self.daemon("munged", "--foreground", "--force", *(f"--{what}={self.folder}/{name}" for what, name in (
            ("key-file", "key"), ("socket", "munge"), ("pid-file", "munge.pid"), ("log-file", "munge.log"), ("seed-file", "seed"))))
        self.wait_for((self.folder / "munge").exists, "munged")
        self.configure()
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.daemon("slurmctld", "-D", "-c", "-i")
        for node in NODES:
            self.daemon("slurmd", "-D", "-c", "-N", node)
        self.wait_for(lambda: self.call("sinfo", "--noheader", "--format=%T %D").stdout.split() == ["idle", str(len(NODES))], "slurmd")

    def configure(self):
        controller, *ports = [free_port() for _ in range(1 + len(NODES))]
        host = socket.gethostname().split(".")[0]
        user = getpass.getuser()
        lines = [
            "ClusterName=kerf", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmUser={user}", f"SlurmdUser={user}", f"SlurmctldPort={controller}",
            "AuthType=auth/munge", f"AuthInfo=socket={self.folder}/munge,cred_expire=5", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none",
            "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none", "MpiDefault=none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "SlurmdParameters=config_overrides", "ReturnToService=2", "KillWait=2",
            *(f"{what}={self.folder}/{name}" for what, name in (
                ("StateSaveLocation", "state"), ("SlurmdSpoolDir", "spool-%n"), ("SlurmctldPidFile", "ctld.pid"), ("SlurmdPidFile", "d-%n.pid"),
                ("SlurmctldLogFile", "ctld.log"), ("SlurmdLogFile", "d-%n.log"))),
            *(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4" for node, port in zip(NODES, ports, strict=True)),
            f"PartitionName=all Nodes={','.join(NODES)} Default=YES State=UP"]
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "state").mkdir()

    def daemon(self, name, *arguments):
        path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        log = (self.folder / f"{name}-{len(self.daemons)}.out").open("wb")
        self.daemons.append(subprocess.Popen([path, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                             env=getattr(self, "environment", None)))

    def wait_for(self, condition, who):
        def over():
            return condition() or any(daemon.poll() is not None for daemon in self.daemons)
        if not wait_until(over, 20) or any(daemon.poll() is not None for daemon in self.daemons):
            words = "; ".join(path.read_text(errors="replace").strip()[-300:] for path in sorted(self.folder.glob("*.out")))
            raise OSError(f"{who} does not run: {words}")

    def call(self, *command, timeout=60, **more):
        """One command of Slurm, with an input that is no terminal."""
        return subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout * SLOW,
                              env={**self.environment, **more.pop("env", {})}, check=False, **more)

    def close(self):
        if hasattr(self, "environment"):
            self.call("scancel", "--user", getpass.getuser())
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Slurm(KerfTest):
    def srun(self, *arguments, timeout=100, **more):
        return CLUSTER.call("srun", *arguments, timeout=timeout, cwd=self.folder, **more)

    def same_as_here(self, answer, *more):
        self.assertEqual(answer.returncode, 0, answer.stderr)
        report = json.loads(answer.stdout)
        own = self.train(*RUN, *more)
        self.assertEqual(report["losses"], own["losses"])
        self.assertEqual(read_safetensors(self.folder / "far" / "weights.safetensors"),
                         read_safetensors(self.folder / "run" / "weights.safetensors"))
        return report

    def test_three_tasks_are_a_scheduler_and_two_workers(self):
        train = (KERF, "train", *RUN, "--steps", 6, "--json", "--out", self.folder / "far")
        report = self.same_as_here(self.srun("-N", 3, "-n", 3, *train), "--steps", 6)
        self.assertEqual(len({worker["pid"] for worker in report["workers"]}), 2)
        self.same_as_here(self.srun("-N", 1, "-n", 3, *train), "--steps", 6)
        keys = self.folder / "keys"
        self.assertEqual(run("keys", "make", keys).returncode, 0)
        answer = self.srun("-N", 2, "-n", 3, *train, "--keys", keys, "--launcher", "slurm", "--device", "cpu")
        self.same_as_here(answer, "--steps", 6)
        self.assertRegex(answer.stderr, r"listening at tcp://127\.0\.0\.1:(2[3-9]|30)\d{3} for 2 other tasks")

    def test_the_command_of_the_page(self):
        """docs/howto/run-on-many-hosts.md."""
        page = pathlib.Path(__file__).resolve().parents[2] / "docs/howto/run-on-many-hosts.md"
        (command,) = [line for line in page.read_text().splitlines() if line.startswith("srun ")]
        keys = self.folder / "keys"
        self.assertEqual(run("keys", "make", keys).returncode, 0)
        words = [{"kerf": KERF, "~/kerf-keys": str(keys)}.get(word, word) for word in command.split()]
        more = ("--data", "synthetic:256x784x10", "--steps", 6, "--no-test")
        answer = self.srun(*words[1:], *more, "--json", "--out", self.folder / "far")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        own = self.train("lenet5", "--workers", 3, *more)
        self.assertEqual(json.loads(answer.stdout)["losses"], own["losses"])
        self.assertEqual((self.folder / "far/weights.safetensors").read_bytes(), (self.folder / "run/weights.safetensors").read_bytes())

    def test_of_as_many_tasks_as_workers_the_first_keeps_one_too(self):
        train = (KERF, "train", *RUN, "--steps", 6, "--json", "--out", self.folder / "far")
        answer = self.srun("-N", 2, "-n", 2, *train)
        report = self.same_as_here(answer, "--steps", 6)
        self.assertEqual(len({worker["pid"] for worker in report["workers"]}), 2)
        self.assertRegex(answer.stderr, "listening at .* for 1 other task\n")
        spare = self.srun("-n", 3, *train, "--spares", 1)
        self.same_as_here(spare, "--steps", 6)
        self.assertRegex(spare.stderr, "listening at .* for 2 other tasks\n")

    def test_a_task_that_comes_when_all_is_done_is_told_so(self):
        train = (KERF, "train", *RUN, "--steps", 6, "--json", "--out", self.folder / "far", "--spares", 1)
        late = self.srun("-n", 3, "sh", "-c", 'test "$SLURM_PROCID" != 2 || sleep 8; exec "$@"', "sh", *train)
        self.same_as_here(late, "--steps", 6)
        self.assertIn("all is done; waiting for 1 more to come", late.stderr)

    def test_programs_are_tasks_too_and_may_be_told_where_to_meet(self):
        flags = ("least-squares", "--rows", 200, "--columns", 20, "--workers", 2, "--json")
        address = free_address()
        far = self.srun("-n", 3, KERF, "run", *flags, "--launcher", "env", "--listen", address)
        self.assertEqual(far.returncode, 0, far.stderr)
        here = json.loads(run("run", *flags).stdout)
        self.assertEqual(json.loads(far.stdout)["solution"], here["solution"])
        self.assertIn(f"{address} for 2 other tasks", far.stderr)

    def test_what_nobody_started_several_times_runs_as_ever(self):
        plan = self.srun("-n", 3, KERF, "plan", "lenet5", "--workers", 2, "--json")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertEqual(plan.stdout.count('"cut_bytes"'), 3)
        train = ("train", *RUN, "--steps", 2, "--json", "--out", self.folder / "far")
        self.same_as_here(self.srun("-n", 1, KERF, *train), "--steps", 2)
        self.same_as_here(CLUSTER.call("salloc", "-n", 3, "--quiet", KERF, *train), "--steps", 2)
        for launcher in ("auto", "none"):
            batch = self.folder / "batch.sh"
            batch.write_text("#!/bin/sh\n" + " ".join(f"'{word}'" for word in (KERF, *train, "--launcher", launcher)) + " > answer 2> errors\n")
            answer = CLUSTER.call("sbatch", "--wait", "-n", 3, "--output", "/dev/null", batch, cwd=self.folder)
            self.assertEqual(answer.returncode, 0, answer.stderr + (self.folder / "errors").read_text())
            self.assertEqual(len(json.loads((self.folder / "answer").read_text())["losses"]), 2)

    def test_what_cannot_be_is_told_by_the_first_task(self):
        train = (KERF, "train", *RUN, "--steps", 2, "--out", self.folder / "far")
        for more, parts in (((), ("--launcher: it started 4 tasks", "the run has 2 workers", "start 2, or 3 where")),
                            (("--launcher", "torchrun"), ("--launcher: nobody says", "torchrun")),
                            (("--listen", "tcp://127.0.0.1:0"), ("--listen: 4 tasks were started", "leave it out")),
                            (("--hosts", __file__), ("--hosts: ",))):
            with self.subTest(more=more):
                answer = self.srun("--kill-on-bad-exit=1", "-n", 4, *train, *more, timeout=30)
                self.assertNotEqual(answer.returncode, 0)
                self.assertIn("exit code 2", answer.stderr)
                for part in parts:
                    self.assertIn(part, answer.stderr)
        answer = self.srun("--kill-on-bad-exit=1", "-n", 3, *train, "--launcher", "env", timeout=30, env={"RANK": "0", "WORLD_SIZE": "3"})
        self.assertIn("RANK=0 and SLURM_PROCID=", answer.stderr)

    def lose(self, whom, *more):
        """Kills that process of the first worker's task when all are at work."""
        process = subprocess.Popen(["srun", "-n", "3", KERF, "train", *map(str, (*RUN, *more)), "--out", str(self.folder / "far")],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CLUSTER.environment,
                                   start_new_session=True)
        self.started.append(process)
        lines = iter(process.stderr.readline, "")
        self.assertTrue(any("2 of 2 workers are here" in line for line in lines))
        pid = whom(self.task_of_job(1))
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        _, stderr = process.communicate(timeout=100 * SLOW)
        return process.returncode, stderr, time.monotonic() - began

    def test_a_task_starts_its_worker_again(self):
        more = ("--epochs", 200)
        code, stderr, _ = self.lose(child_of, *more)
        self.assertEqual(code, 0, stderr)
        self.assertIn("all workers begin again", stderr)
        self.train(*RUN, *more)
        self.assertEqual((self.folder / "far" / "weights.safetensors").read_bytes(), (self.folder / "run" / "weights.safetensors").read_bytes())

    def test_a_task_that_is_lost_ends_a_run_that_may_not_begin_again(self):
        code, stderr, seconds = self.lose(lambda task: task, "--epochs", 100000, "--no-restart")
        self.assertNotEqual(code, 0)
        self.assertLess(seconds, 15 * SLOW)
        self.assertRegex(stderr, "worker 0 .* was lost: its connection broke")

    def task_of_job(self, rank):
        """The process of a rank of the step that runs, which keeps a worker."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                variables = dict(each.split(b"=", 1) for each in (entry / "environ").read_bytes().split(b"\0") if b"=" in each)
                if (variables.get(b"SLURM_CONF", b"").startswith(os.fsencode(CLUSTER.folder)) and variables.get(b"SLURM_PROCID") == b"%d" % rank
                        and b"SLURM_STEP_ID" in variables and os.path.realpath(entry / "exe") == os.path.realpath(KERF)
                        and b"--keeper" not in (entry / "cmdline").read_bytes()):
                    return int(entry.name)
            except OSError:
                continue
        raise AssertionError(f"there is no task {rank}")

    @unittest.skipUnless("full" in sys.argv, "Slurm waits for half a minute before it requeues")
    def test_a_job_that_is_requeued_goes_on_from_its_checkpoint(self):
        run_of = ("lenet5", "--data", "synthetic:256x784x10", "--workers", 2, "--epochs", 300, "--no-test")
        out = self.folder / "far"
        variables = {"KERF": KERF, "KERF_OUT": str(out), "KERF_SAVE_EVERY": "40"}
        answer = CLUSTER.call("sbatch", "--parsable", "--ntasks", 3, "--output", self.folder / "log", DEPLOY / "train.sbatch", *run_of,
                              env=variables, cwd=self.folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        job = answer.stdout.strip()
        self.assertTrue(wait_until(lambda: [*(out / "checkpoints").glob("checkpoint-*/manifest.json")], 60), self.log())
        self.assertEqual(CLUSTER.call("scontrol", "requeue", job).returncode, 0)
        # Behind a requeue Slurm waits for credentials to expire.
        self.assertTrue(wait_until((out / "weights.safetensors").exists, 150), self.log())
        self.assertTrue(wait_until(lambda: "JobState=COMPLETED" in CLUSTER.call("scontrol", "show", "job", job).stdout, 20))
        self.assertRegex(CLUSTER.call("scontrol", "show", "job", job).stdout, r"Restarts=1\b")
        own = self.train(*run_of)
        self.assertEqual(json.loads((out / "run.json").read_text())["losses"], own["losses"])
        self.assertEqual((out / "weights.safetensors").read_bytes(), (self.folder / "run" / "weights.safetensors").read_bytes())

    def log(self):
        log = self.folder / "log"
        return log.read_text()[-2000:] if log.exists() else "no output"


def with_names():
    """This process again, where the names of the nodes lead to loopback."""
    if os.environ.get("KERF_TEST_NODES"):
        return
    with tempfile.NamedTemporaryFile("w", delete=False, prefix="kerf-hosts-") as hosts:
        hosts.write(pathlib.Path("/etc/hosts").read_text() + "".join(f"127.0.0.1 {node}\n" for node in NODES))
    os.chmod(hosts.name, 0o644)
    check = subprocess.run(["unshare", "--mount", "mount", "--bind", hosts.name, "/etc/hosts"], capture_output=True, text=True, check=False)
    if check.returncode:
        os.unlink(hosts.name)
        raise OSError(f"the nodes can have no names: {check.stderr.strip()}")
    os.environ["KERF_TEST_NODES"] = hosts.name
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", 'mount --bind "$KERF_TEST_NODES" /etc/hosts && exec "$0" "$@"', sys.executable, "-B",
                          *sys.argv])


if __name__ == "__main__":
    try:
        with_names()
        CLUSTER = Cluster()
    except OSError as error:
        print(f"skipped: Slurm cannot run here: {error}", file=sys.stderr)
        sys.exit(77)
    finally:
        if names := os.environ.get("KERF_TEST_NODES"):
            pathlib.Path(names).unlink(missing_ok=True)
    try:
        unittest.main(argv=[each for each in sys.argv if each != "full"])
    finally:
        CLUSTER.close()
