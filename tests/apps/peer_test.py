"""The newest PyTorch and ONNX Runtime beside Kerf, live: as exported_test.py, with models that are exported now, a whole
ResNet-18 among them, and with what ONNX Runtime says of the fine-tuned ones; what it says of every built-in model, exported,
and of exports of files; and whether the page of operators has ONNX's names. KERF_PEER_PYTHON names the Python that has
them, or it is the python3 of PATH; exit code 77 where it has not."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy

from exported_test import HERE, INPUTS, ExportedModels, FixedBatches
from kerf_command import KerfTest, run

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


def rows_of(model, folder):
    """Random rows for a file's inputs, in files: [(name, file)]; whole numbers are of the smallest vocabulary that a model picks from."""
    text = run_peer("-c", """
import json, sys, onnx
inputs = onnx.load(sys.argv[1], load_external_data=False).graph.input
print(json.dumps([(i.name, i.type.tensor_type.elem_type, [d.dim_value for d in i.type.tensor_type.shape.dim]) for i in inputs]))
""", model)
    random, given = numpy.random.default_rng(5), []
    for name, kind, (rows, *shape) in json.loads(text):
        shape = (rows or 5, *shape)
        whole = kind == 7  # int64
        values = random.integers(0, 7, shape) if whole else random.standard_normal(shape).astype(numpy.float32)
        numpy.save(folder / f"{name}.npy", values)
        given.append((name, folder / f"{name}.npy"))
    return given


CANNOT_READ = ("older.onnx", "external.onnx")  # by ONNX Runtime


def has_products_of_bytes():
    """Without VNNI, ONNX Runtime's products of 8-bit integers saturate at 16 bits, as its page on quantization says."""
    return "vnni" in pathlib.Path("/proc/cpuinfo").read_text()


class Exports(KerfTest):
    def kerf(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, f"kerf {' '.join(map(str, arguments))}\n{done.stderr}")
        return done

    def answers(self, model, given):
        """Kerf's of the first output."""
        inputs = [word for name, file in given for word in ("--input", f"{name}={file}")]
        told = json.loads(self.kerf("infer", model, *inputs, "--output", self.folder / "answers", "--json").stdout)
        return numpy.load(told["outputs"][0])

    def answers_elsewhere(self, model, given):
        answers = self.folder / "onnxruntime.npy"
        run_peer(HERE / "exported" / "answer_with_onnxruntime.py", model, *(f"{name}={file}" for name, file in given), answers)
        return numpy.load(answers)

    def assert_same(self, got, wanted):
        self.assertEqual(got.shape, wanted.shape)
        numpy.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * abs(wanted).max())

    def test_of_files_say_what_the_files_say(self):
        out = self.folder / "out.onnx"
        for model in sorted((HERE.parent / "partitioner" / "onnx" / "models").glob("*.onnx")):
            with self.subTest(model=model.name):
                given = rows_of(model, self.folder)
                self.kerf("export", model, "--out", out)
                wanted = self.answers(model, given)
                self.assert_same(self.answers_elsewhere(out, given), wanted)
                if model.name not in CANNOT_READ and (model.name != "quantized.onnx" or has_products_of_bytes()):
                    self.assert_same(self.answers_elsewhere(model, given), wanted)

    def test_of_built_in_models_say_what_kerf_says(self):
        sizes = {"gpt": ("--sizes", "2-64-4-16-32"), "vit": ("--sizes", "2-32-2-16", "--image-size", 32, "--classes", 10)}
        for model in json.loads(self.kerf("models", "--json").stdout)["models"]:
            name = model["name"]
            pixels = 96 if name in ("bvlc-alexnet", "inception-v3") else 64
            images = ("--width", 0.125, "--image-size", pixels, "--classes", 10) if model["images"] else ()
            flags = sizes.get(name, images)
            with self.subTest(model=name):
                folder, out = self.folder / name, self.folder / f"{name}.onnx"
                data = ("--data", "synthetic", "--batch", 8)
                self.kerf("train", name, *flags, *data, "--steps", 2, "--workers", 1, "--no-test", "--lr", 1e-3, "--out", folder)
                self.kerf("export", folder, "--out", out)
                given = rows_of(out, self.folder)
                self.assert_same(self.answers_elsewhere(out, given), self.answers(out, given))
                told = json.loads(self.kerf("eval", name, *flags, *data, "--weights", folder / "weights.safetensors", "--json").stdout)
                again = json.loads(self.kerf("eval", out, "--loss", "cross-entropy", *data, "--json").stdout)
                self.assertAlmostEqual(again["loss"] / told["loss"], 1, places=5)


class Operators(unittest.TestCase):
    def test_of_the_page_are_onnxs_but_those_that_it_calls_kerfs(self):
        known = set(run_peer("-c", "import onnx.defs; print(*(s.name for s in onnx.defs.get_all_schemas() if not s.domain))").split())
        page = (HERE.parent.parent / "docs" / "operators.md").read_text()
        rows = dict(re.findall(r"^\| (\w+) \| ([^|]+) \|", page, re.MULTILINE))
        self.assertGreater(len(rows), 100)
        own = {name for name, opsets in rows.items() if opsets == "Kerf's own"}
        self.assertEqual(own, rows.keys() - known - {"operator"})


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
