"""A worker that computes half as fast: it is stopped half of the time, in turns so short that a step has some, or some steps one."""

import os
import signal
import threading

TURN = 0.02  # seconds


class HalvedWorker:
    """Of the process that `find` tells, which may be another one by and by, or None; from start() until the end of the block."""

    def __init__(self, find):
        self.find, self.over = find, threading.Event()
        self.stopped = set()
        self.thread = threading.Thread(target=self.take_turns, daemon=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        if self.thread.ident is not None:
            self.thread.join()

    def start(self):
        self.thread.start()

    @staticmethod
    def tell(pid, what):
        try:
            os.kill(pid, what)
            return True
        except ProcessLookupError:
            return False

    def take_turns(self):
        pid = None
        while not self.over.is_set():
            if pid is None or not self.tell(pid, signal.SIGSTOP):
                pid = self.find()
                self.over.wait(TURN)
                continue
            self.stopped.add(pid)
            self.over.wait(TURN)
            self.tell(pid, signal.SIGCONT)
            self.over.wait(TURN)
