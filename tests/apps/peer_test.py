"""The newest PyTorch and ONNX Runtime beside Kerf, live: as exported_test.py, with models that are exported now, a whole
ResNet-18 among them, and with what ONNX Runtime says of the fine-tuned ones. KERF_PEER_PYTHON names the Python that has
them, or it is the python3 of PATH; exit code 77 where it has not."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy

from exported_test import HERE, INPUTS, ExportedModels, FixedBatches

PYTHON = os.environ.get("KERF_PEER_PYTHON") or shutil.which("python3")
NEEDED = ("torch", "torchvision", "onnxscript", "onnx", "onnxruntime")


def run_peer(*arguments):
    done = subprocess.run([PYTHON, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{PYTHON} {arguments[0]}: {done.stderr[-3000:]}")
    return done.stdout


def missing():
    """Why there is no peer; empty if there is."""
    if not PYTHON:
        return "there is no python3 in PATH; KERF_PEER_PYTHON names one"
    try:
        run_peer("-c", "import " + ", ".join(NEEDED))
    except (RuntimeError, OSError) as error:
        return f"{PYTHON} has not all of {', '.join(NEEDED)} ({str(error).splitlines()[-1]}); KERF_PEER_PYTHON names one that has"
    return ""


class LivePeers(ExportedModels):
    @classmethod
    def setUpClass(cls):
        cls.exported = pathlib.Path(tempfile.mkdtemp(prefix="kerf-peer-"))
        cls.addClassCleanup(shutil.rmtree, cls.exported)
        run_peer(HERE / "exported" / "make_exported.py", "--to", cls.exported, "--narrow", 1, "--image", 64)

    def check_elsewhere(self, model, name, wanted):
        answers = self.folder / "onnxruntime.npy"
        run_peer(HERE / "exported" / "answer_with_onnxruntime.py", self.folder / model,
                 f"{INPUTS[name]}={self.folder / 'x.npy'}", answers)
        self.assert_same(numpy.load(answers), wanted, "ONNX Runtime's answers")


class LiveFixedBatches(FixedBatches):
    @classmethod
    def setUpClass(cls):
        cls.exported = pathlib.Path(tempfile.mkdtemp(prefix="kerf-peer-"))
        cls.addClassCleanup(shutil.rmtree, cls.exported)
        run_peer(HERE / "exported" / "make_fixed_batch.py", "--to", cls.exported, "--width", 32)


if __name__ == "__main__":
    why = missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    print(run_peer("-c", "import torch, onnxruntime; print('PyTorch', torch.__version__, 'and ONNX Runtime', onnxruntime.__version__)"))
    del ExportedModels, FixedBatches  # which are run by themselves
    unittest.main()
