"""The bundle for machines with a GPU: it is small enough, brings the libraries that it needs, and runs from where it
was unpacked. bundle_test.py SOURCE BUILD"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
# What the other machine has: its C library, CUDA's Toolkit and driver.
THERE = re.compile("({})[.-]".format("|".join((SOURCE / "bench/bundle_outside.txt").read_text().split())))


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        archive = pathlib.Path(cls.folder.name, "bundle.tar.xz")
        # A level that is done soon and leaves more bytes: what is small enough by it is so by what people pack.
        made = subprocess.run([SOURCE / "bench/bundle.sh", BUILD, archive], env={**os.environ, "XZ_OPT": "-1"},
                              capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
        cls.bytes = archive.stat().st_size
        subprocess.run(["tar", "-C", cls.folder.name, "-xJf", archive], check=True)
        archive.unlink()
        cls.root = pathlib.Path(cls.folder.name, "kerf-gpu")
        tests = cls.root / "tests.txt"
        cls.tests = dict(line.split() for line in tests.read_text().splitlines())
        tests.write_text("device_conformance device_conformance_test\n")  # one is enough here

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_there(self, *command, **more):
        """With nothing of this machine's environment but where CUDA is."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": self.folder.name, **more}
        if "CUDA_HOME" in os.environ:
            environment["CUDA_HOME"] = os.environ["CUDA_HOME"]
        return subprocess.run(list(map(str, command)), env=environment, cwd=self.folder.name, capture_output=True, text=True,
                              check=False, timeout=600)

    def test_it_is_small_enough(self):
        self.assertLessEqual(self.bytes, 48 * 1024 * 1024)

    def test_it_has_every_test_of_gpus(self):
        self.assertEqual(self.tests, {name: f"{name}_test" for name in
                                      ("operator_conformance", "device_conformance", "cuda_workbench", "schedmp_cuda", "schedmp_cuda_loss")})
        for program in self.tests.values():
            self.assertTrue((self.root / "bin" / program).is_file(), program)

    def test_every_library_is_its_own_but_what_is_there(self):
        programs = sorted((self.root / "bin").iterdir())
        self.assertIn("kerf", [program.name for program in programs])
        for program in programs:
            with self.subTest(program=program.name):
                loaded = self.run_there(program, LD_TRACE_LOADED_OBJECTS="1")
                found = re.findall(r"^\t(\S+) => (.+?)(?: \(0x|$)", loaded.stdout, re.MULTILINE)
                self.assertTrue(found, loaded.stderr)
                for name, path in found:
                    if not THERE.match(name):
                        self.assertTrue(path.startswith(str(self.root)), f"{name} is {path}")

    def test_it_runs_and_prints_one_table_last(self):
        program = self.root / "bin" / "operator_bench"
        # One operator is enough here.
        whole = program.with_name("whole_operator_bench")
        program.rename(whole)
        program.write_text(f'#!/bin/sh\nexec {whole} --benchmark_filter=Relu/F "$@"\n')
        program.chmod(0o755)
        answer = self.run_there(self.root / "run.sh", "cpu")
        program.unlink()
        whole.rename(program)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        table = answer.stdout[answer.stdout.rindex("on cpu"):].splitlines()
        self.assertEqual([line.split()[:2] for line in table[1:]],
                         [["devices", "ok"], ["device_conformance", "ok"], ["train-lenet5-1-workers", "ok"],
                          ["train-lenet5-2-workers", "ok"], ["same", "losses"], ["operators", "ok"], ["Relu/F", "ok"]])
        self.assertRegex(table[3], r"images/s, accuracy 0\.99")
        self.assertRegex(table[5], r"^same losses on 1 and 2 workers +ok")

    def test_a_failure_is_told(self):
        answer = self.run_there(self.root / "run.sh", "cuda:99")
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(answer.stdout, r"train-lenet5-1-workers +FAILED .*cuda:99")
        self.assertRegex(answer.stdout, r"same losses on 1 and 2 workers +FAILED")
        self.assertRegex(answer.stdout, r"Relu/F +FAILED .*cuda:99")
        # device_conformance alone skips what is of a GPU.
        if not json.loads(self.run_there(self.root / "bin" / "kerf", "devices", "--json").stdout)["cuda"]["devices"]:
            self.assertRegex(answer.stdout, r"tests of GPUs +FAILED .*skipped")


unittest.main(argv=sys.argv[:1])
