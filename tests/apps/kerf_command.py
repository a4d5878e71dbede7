"""What the tests of the kerf command share: running it, and looking at what it leaves behind."""

import gzip
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

KERF = os.path.abspath(os.environ.get("KERF", "build/release/bin/kerf"))
# Sanitizers make everything slower; promises in seconds are kept by the release build.
SLOW = float(os.environ.get("KERF_TEST_SLOWNESS", "1"))
NAME = os.path.basename(KERF)
ERROR_LINE = re.compile(rf"^{re.escape(NAME)}( worker)?: error: ")


def run(*arguments, timeout=120, **more):
    """Runs kerf to its end, without input. Returns exit code, stdout and stderr."""
    return subprocess.run([KERF, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=timeout * SLOW, check=False, **more)


def start(*arguments, **more):
    """Starts kerf in a process group of its own, so that all it started can be found by the group."""
    return subprocess.Popen([KERF, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True, **more)


def shared_data(part):
    """A folder of files that belong to nobody's checkout, as tests/support/shared_data.h has it; None where it is not there."""
    named = os.environ.get("KERF_DATA")
    places = [pathlib.Path(named)] if named else [above / "shared/data" for above in pathlib.Path(__file__).resolve().parents]
    return next((place / part for place in places if (place / part).is_dir()), None)


def processes_of(session):
    """pid -> command line of every live process of a session."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            fields = stat[stat.rindex(")") + 2:].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError):
            continue  # it ended meanwhile
    return found


def workers_of(session):
    return sorted(pid for pid, line in processes_of(session).items() if line.startswith(f"{NAME} worker"))


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds * SLOW
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    return condition()


def child_of(pid):
    """The worker of a keeper."""
    return wait_until(lambda: [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()], 10)[0]


PORTS_GIVEN = set()


def free_port():
    """Another with each call; outside of those that the system itself gives and that launched runs take: nobody gets it meanwhile."""
    given = range(*map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()))
    launched = range(23000, 31000)
    ports = [port for port in range(10000, 65536) if port not in given and port not in launched]
    while True:
        port = random.choice(ports or range(10000, 23000))
        if port in PORTS_GIVEN:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        PORTS_GIVEN.add(port)
        return port


def free_address():
    return f"tcp://127.0.0.1:{free_port()}"


def connect(address, seconds=20):
    """A connection to whoever listens there, as soon as somebody does."""
    host, port = address.removeprefix("tcp://").split(":")

    def attempt():
        try:
            return socket.create_connection((host, int(port)), timeout=5)
        except ConnectionRefusedError:
            return None

    return wait_until(attempt, seconds)


def shared_memory():
    """But for what runs with --keep-workers have, which may be another test's."""
    folder = pathlib.Path("/dev/shm")
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    return {name for name in names if "kerf" in name and not name.startswith("kerf-kept-")}


def safetensors_header(path):
    """The header, and what lies behind it."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8:8 + length]), data[8 + length:]


def read_safetensors(path):
    """name -> (shape, bytes)."""
    header, data = safetensors_header(path)
    return {name: (entry["shape"], data[entry["data_offsets"][0]:entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def write_safetensors(path, tensors):
    """Of float32 arrays by name."""
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    data = b"".join(array.astype("<f4").tobytes() for array in tensors.values())
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_images(folder, rows, test_rows=32):
    """A small data set in Fashion-MNIST's format whose classes can be told apart."""
    for split, count in (("train", rows), ("t10k", test_rows)):
        labels = bytes(i * 7 % 10 for i in range(count))
        images = b"".join(bytes((i * 31 + j * (label + 1)) % 256 for j in range(784)) for i, label in enumerate(labels))
        for name, contents in (("images-idx3", struct.pack(">4I", 0x803, count, 28, 28) + images),
                               ("labels-idx1", struct.pack(">2I", 0x801, count) + labels)):
            with gzip.open(pathlib.Path(folder) / f"{split}-{name}-ubyte.gz", "wb", compresslevel=1) as file:
                file.write(contents)


class KerfTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            for pid in processes_of(process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def start(self, *arguments, **more):
        process = start(*arguments, **more)
        self.started.append(process)
        return process

    def assert_nothing_runs_on(self, shared_before=frozenset()):
        """Of all that this test started and that has ended, no process is left, and no shared memory that was not there before."""
        ended = [process.pid for process in self.started if process.poll() is not None]
        self.assertTrue(wait_until(lambda: not any(processes_of(pid) for pid in ended), 5), [processes_of(pid) for pid in ended])
        self.assertEqual(shared_memory() - shared_before, set())

    def train(self, *arguments, out="run", expect=0):
        """Trains and returns the report."""
        answer = run("train", *arguments, "--json", "--out", self.folder / out)
        self.assertEqual(answer.returncode, expect, answer.stderr[-2000:])
        return json.loads(answer.stdout)

    def assert_one_error(self, answer, *parts, code=2):
        """One error line, nothing before it but notes of how a file was read, nothing that looks like a stack trace, and the
        exit code."""
        lines = [line for line in answer.stderr.splitlines() if not line.startswith("kerf: note: ")]
        errors = [line for line in lines if ERROR_LINE.match(line)]
        self.assertEqual(len(errors), 1, answer.stderr)
        self.assertEqual(lines, errors, "more than the error line")
        self.assertEqual(answer.returncode, code, answer.stderr)
        for part in parts:
            self.assertIn(str(part), errors[0])
        for trace in ("terminate called", "what():", "Aborted", "bug:"):
            self.assertNotIn(trace, answer.stderr)
