"""The list of ONNX's tests that pass only grows: onnx_backend_test --update writes no list from which one is lost."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop()


class ListOfPassing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kerf-test-")
        self.addCleanup(folder.cleanup)
        self.data = pathlib.Path(folder.name) / "data"
        for kind in ("node", "pytorch-converted", "pytorch-operator", "simple"):
            (self.data / kind).mkdir(parents=True)
        self.list = pathlib.Path(folder.name) / "passing.txt"

    def update(self):
        return subprocess.run([PROGRAM, self.list, "--update", "--data", self.data], capture_output=True, text=True, check=False)

    def test_is_written_anew(self):
        self.list.write_text("")
        self.assertEqual(self.update().returncode, 0)
        self.assertTrue(self.list.read_text().startswith("# ONNX's backend tests that pass."))

    def test_stays_while_one_is_lost(self):
        self.list.write_text("node/test_relu\n")
        done = self.update()
        self.assertEqual(done.returncode, 1)
        self.assertIn("LOST node/test_relu: there is no such test", done.stdout)
        self.assertIn("stays as it is", done.stdout)
        self.assertEqual(self.list.read_text(), "node/test_relu\n")


unittest.main()
