"""GPUs as a person has them: workers are processes, and each computes on a GPU (that the host plays, here)."""

import json
import os
import subprocess
import unittest

from kerf_command import SLOW, KerfTest, free_address, processes_of, run, wait_until

SMALL = ("lenet5", "--data", "synthetic:64x784x10", "--batch", 16, "--micro-batches", 4, "--steps", 3, "--seed", 5, "--lr", 0.05)
BOTH = ("--workers", 2, "--device", "cuda:0,cuda:1")


class PlayedGpus(KerfTest):
    def test_devices_are_named(self):
        answer = run("devices", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual([each["name"] for each in json.loads(answer.stdout)["devices"]], ["cpu", "cuda:0", "cuda:1"])

    def weights(self, *flags):
        report = self.train(*SMALL, *flags)
        for worker in report["workers"]:
            self.assertEqual(worker["peak_bytes"], worker["proved_bytes"], worker)
        return report["losses"], (self.folder / "run" / "weights.safetensors").read_bytes()

    def test_workers_on_gpus_learn_what_one_learns(self):
        alone = self.weights("--workers", 1, "--device", "cuda:0")
        for device, transports in (("cuda:0,cuda:1", ("shm", "ipc", "tcp")), ("cuda:0", ("cuda", "shm", "ipc", "tcp"))):
            for flags in [(), *(("--transport", each) for each in transports)]:
                with self.subTest(device=device, flags=flags):
                    self.assertEqual(self.weights("--workers", 2, "--device", device, *flags), alone)
        cpu, _ = self.weights("--workers", 1)
        for here, there in zip(cpu, alone[0]):
            self.assertAlmostEqual(here, there, delta=1e-5 * abs(here))

    def test_a_gpu_and_a_cpu_share_a_model(self):
        losses, _ = self.weights("--workers", 2, "--device", "cuda:0,cpu")
        cpu, _ = self.weights("--workers", 1)
        for here, there in zip(cpu, losses):
            self.assertAlmostEqual(here, there, delta=1e-5 * abs(here))

    def test_what_a_pair_cannot_have_is_refused(self):
        answer = self.fails(*SMALL, *BOTH, "--transport", "cuda")
        self.assert_one_error(answer, "worker 0", "worker 1", "over cuda", "leave out --transport")

    def test_a_cap_that_a_plan_keeps_the_run_keeps(self):
        """Slots in memory that a GPU exports are whole blocks of 2 MiB: planned as well as taken."""
        plan = ("plan", "lenet5", "--batch", 16, "--micro-batches", 4, "--workers", 2, "--device", "cuda")

        def cap(transport):
            return max(each["peak_bytes"] for each in json.loads(run(*plan, "--transport", transport, "--json").stdout)["workers"])
        train = ("train", *SMALL, "--workers", 2, "--device", "cuda:0", "--out", self.folder / "run")
        over_cuda = ("--transport", "cuda", "--memory")
        for command in (plan, train):
            with self.subTest(command=command[0]):
                answer = run(*command, *over_cuda, cap("cuda"))
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assert_one_error(run(*command, *over_cuda, cap("shm")), "no plan fits")

    def test_a_run_that_rebalances_refuses_a_gpu_that_comes_by_itself(self):
        address = free_address()
        process = self.start("train", *SMALL, "--workers", 2, "--rebalance", "--listen", address, "--out", self.folder / "run")
        workers = [self.start("worker", "--connect", address, "--device", device) for device in ("cpu", "cuda:0")]
        printed = process.communicate(timeout=60 * SLOW)[1]
        self.assertEqual(process.returncode, 2, printed)
        self.assertRegex(printed, r"--rebalance: worker [01] computes on cuda:0")
        for worker in workers:
            worker.wait(30 * SLOW)

    def fails(self, *flags, environment=None):
        """What a training that fails says; it leaves no process behind."""
        process = self.start("train", *flags, "--out", self.folder / "run", env={**os.environ, **(environment or {})})
        output, errors = process.communicate(timeout=60 * SLOW)
        self.assertTrue(wait_until(lambda: not processes_of(process.pid), 1), f"left behind: {processes_of(process.pid)}")
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def test_too_little_memory(self):
        answer = self.fails("mlp", "--sizes", "784-4096-4096-10", "--data", "synthetic:64x784x10", "--batch", 16, "--steps", 1,
                            *BOTH)
        self.assert_one_error(answer, "worker", "cuda:", "MiB", "--workers")

    def test_a_gpu_that_is_lost_late_in_each_process_ends_the_run_with_the_first_cause(self):
        """Of the second worker alone: the first one's is whole."""
        for error, way_out in (("ecc", "nvidia-smi"), ("address", "CUDA_LAUNCH_BLOCKING=1")):
            for more, begun in (((), 2), (("--no-restart",), 0)):
                with self.subTest(error=error, more=more):
                    answer = self.fails(*SMALL, *BOTH, *more, environment={"KERF_PLAYED_GPU": f"1 TakeLargest 1 {error}"})
                    self.assertEqual(answer.returncode, 1, answer.stderr)
                    self.assertRegex(answer.stderr, r"error: (round 0, task \d+: )?worker 1 \(pid \d+\) was lost: its device failed: cuda:1, pool2, step 0: 1F1: .*" + way_out)
                    self.assertEqual(answer.stderr.count("begin again from step 0"), begun, answer.stderr)
                    self.assertEqual("that, and 2 losses in the same round since" in answer.stderr, begun == 2)

    def test_behind_a_gpu_that_was_lost_once_the_run_goes_on_to_the_same_bits(self):
        whole = self.weights(*BOTH)
        for error, others in (("ecc", 9), ("address", 2)):
            with self.subTest(error=error):
                once = self.folder / f"{error} once".replace(" ", "-")
                process = self.start("train", *SMALL, *BOTH, "--out", self.folder / "again", env={**os.environ, "KERF_PLAYED_GPU": f"1 TakeLargest {others} {error} {once}"})
                _, errors = process.communicate(timeout=60 * SLOW)
                self.assertEqual(process.returncode, 0, errors)
                self.assertRegex(errors, r"worker 1 \(pid \d+\) was lost: its device failed: cuda:1, ")
                record = json.loads((self.folder / "again" / "run.json").read_text())
                self.assertEqual((record["losses"], (self.folder / "again" / "weights.safetensors").read_bytes()), whole)
                self.assertEqual(record["restarts"], 1)

    def test_a_gpu_that_two_share_is_lost_to_one(self):
        """Only the second has products; the first has memory of its slots mapped, and ends."""
        answer = self.fails(*SMALL, "--workers", 2, "--device", "cuda:0", "--no-restart", environment={"KERF_PLAYED_GPU": "0 MatmulRun 3 ecc"})
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertRegex(answer.stderr, "error: .*worker 1 .*cuda:0, fc.*nvidia-smi")


if __name__ == "__main__":
    unittest.main()
