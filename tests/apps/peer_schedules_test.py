"""PyTorch's pipelines beside Kerf's, live: what PyTorch dumps Kerf proves and writes back byte for byte, what Kerf writes
PyTorch loads and trains by. KERF_PEER_PYTHON names a Python that has PyTorch (2.6 or newer), or it is the python3 of
PATH; exit code 77 where it has not."""

import json
import pathlib
import sys
import unittest

from kerf_command import KerfTest, run
from peer_test import PYTHON, run_peer

SCRIPT = pathlib.Path(__file__).resolve().with_name("torch_pipeline.py")
# Sums of float32 in another order.
NEAR = 1e-4


def missing():
    """Why there is no peer; empty if there is."""
    if not PYTHON:
        return "there is no python3 in PATH; KERF_PEER_PYTHON names one"
    try:
        run_peer("-c", "from torch.distributed.pipelining.schedules import ScheduleDualPipeV")
    except (RuntimeError, OSError) as error:
        return f"{PYTHON} has no PyTorch with pipelines ({str(error).splitlines()[-1]}); KERF_PEER_PYTHON names one that has"
    return ""


class PyTorchsSchedules(KerfTest):
    def test_are_proved_and_written_back(self):
        run_peer(SCRIPT, "dump", self.folder)
        files = sorted(self.folder.glob("*.csv"))
        self.assertEqual(len(files), 10)
        for file in files:
            with self.subTest(file=file.name):
                back = self.folder / "back"
                answer = run("schedule", file, "--buffer", "unbounded", "--csv", back, "--json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                report = json.loads(answer.stdout)
                self.assertEqual((report["workers"], report["stages"], report["micro_batches"]), (4, 8, 8))
                # Looped BFS goes back by descending micro-batch.
                self.assertEqual((report["verified"], report["same_bits"]), (True, "LoopedBFS" not in file.name))
                self.assertEqual(report["transfers"], "written" if ".comms" in file.name else "derived")
                self.assertEqual(back.read_bytes(), file.read_bytes())

    def test_are_those_of_the_same_name(self):
        run_peer(SCRIPT, "dump", self.folder)
        for theirs, ours in (("ScheduleZBVZeroBubble", "zbv"), ("ScheduleDualPipeV", "dualpipe-v")):
            flags = ("--workers", 4, "--micro-batches", 8, "--json")
            self.assertEqual(json.loads(run("schedule", self.folder / f"{theirs}.csv", "--json").stdout)["rows"],
                             json.loads(run("schedule", ours, *flags).stdout)["rows"])


class KerfsSchedules(KerfTest):
    def test_train_a_model_of_pytorch(self):
        file = self.folder / "kerf.csv"
        names = ("gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved", "looped-bfs", "zbv", "v-half", "v-min", "dualpipe-v", "hanayo")
        for name in names:
            with self.subTest(name=name):
                answer = run("schedule", name, "--workers", 2, "--micro-batches", 4, "--csv", file, "--json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                places = ",".join(str(group[0]) for group in json.loads(answer.stdout)["groups"])
                self.assertLess(float(run_peer(SCRIPT, "train", file, places, 4)), NEAR)


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
