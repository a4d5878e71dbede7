"""A proxy between two ends of TCP connections that does to them what networks do: a thread of its own, which dies with the process."""

import collections
import ctypes
import os
import random
import selectors
import socket
import struct
import threading
import time

CHUNK = 1 << 16


def enter_network(pid):
    """This thread's sockets are from now on in the network of that process."""
    clone_newnet = 0x40000000
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    failed = ctypes.CDLL(None, use_errno=True).setns(namespace, clone_newnet)
    os.close(namespace)
    if failed:
        raise OSError(ctypes.get_errno(), "this process may enter no networks")


class Flow:
    """One direction of a connection: bytes with the times at which they may go on."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.held = collections.deque()
        self.free_at = 0  # when what was taken before has gone on
        self.is_half_closed = False

    def size(self):
        return sum(len(each) for _, each in self.held)


class TcpProxy:
    """Forwards connections to a port of this host, or to wherever `target` says that this connection leads, within the network of the process
    `network` or of this one; faults may come and go. `sees` is told what passes."""

    def __init__(self, port=0, seed=1, target=None, network=None, sees=None):
        self.target = target or (lambda client: ("127.0.0.1", port))
        self.random = random.Random(seed)
        self.delay = 0  # seconds that everything takes longer
        self.bytes_a_second = None
        self.frozen = False  # nothing goes on, and nobody is told
        self.damage_every = None  # bytes of which one has a bit changed
        self.sees = sees or (lambda taken: None)  # what passes, before that
        self.cuts = self.damaged = self.accepted = 0
        self._damage_at = None
        self._orders = collections.deque()
        self._flows = []
        self._closing = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(network,), daemon=True)
        self._thread.start()
        self._ready.wait(10)

    @property
    def address(self):
        return f"tcp://127.0.0.1:{self.port}"

    def cut(self):
        """Resets all connections; what was under way is lost."""
        self._order(self._cut_all)

    def half_close(self):
        """Tells every target that no more comes, and goes on in the other direction."""
        self._order(self._half_close_all)

    def close(self):
        self._closing = True
        self._thread.join()

    def _order(self, order):
        done = threading.Event()
        self._orders.append((order, done))
        done.wait(10)

    def _run(self, network):
        if network:
            enter_network(network)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ready.set()
        with self._listener:
            while not self._closing:
                while self._orders:
                    order, done = self._orders.popleft()
                    order()
                    done.set()
                if self.frozen:
                    time.sleep(0.01)
                    continue
                self._exchange()
        self._cut_all()

    def _exchange(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ, self._accept)
            for flow in self._flows:
                if flow.size() < CHUNK * 4:
                    selector.register(flow.source, selectors.EVENT_READ, lambda flow=flow: self._receive(flow))
            for key, _ in selector.select(0.005):
                key.data()
        for flow in self._flows[:]:
            self._send(flow)

    def _accept(self):
        client, _ = self._listener.accept()
        self.accepted += 1
        try:
            server = socket.create_connection(self.target(client), timeout=2)
        except OSError:
            self._reset(client)
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.setblocking(False)
        self._flows += [Flow(client, server), Flow(server, client)]

    def _receive(self, flow):
        if flow not in self._flows:
            return  # it has ended with the other direction
        try:
            taken = flow.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            taken = b""
        if not taken:
            self._end(flow)
        elif not flow.is_half_closed:
            self.sees(taken)
            flow.free_at = max(flow.free_at, time.monotonic()) + len(taken) / (self.bytes_a_second or 1e12)
            flow.held.append((flow.free_at + self.delay, self._damage(taken)))

    def _send(self, flow):
        while flow in self._flows and flow.held and flow.held[0][0] <= time.monotonic():
            at, rest = flow.held.popleft()
            try:
                sent = flow.target.send(rest)
            except BlockingIOError:
                sent = 0
            except OSError:
                return self._end(flow)
            if sent < len(rest):
                return flow.held.appendleft((at, rest[sent:]))

    def _damage(self, taken):
        if not self.damage_every:
            return taken
        harmed = bytearray(taken)
        if self._damage_at is None:
            self._damage_at = self.random.randrange(self.damage_every)
        while self._damage_at < len(harmed):
            harmed[self._damage_at] ^= 1 << self.random.randrange(8)
            self.damaged += 1
            self._damage_at += 1 + self.random.randrange(2 * self.damage_every)
        self._damage_at -= len(harmed)
        return bytes(harmed)

    def _end(self, flow):
        """Of the connection that this is of."""
        ends = {flow.source, flow.target}
        self._flows = [each for each in self._flows if each.source not in ends]
        for end in ends:
            self._reset(end)

    def _reset(self, end):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()

    def _cut_all(self):
        while self._flows:
            self.cuts += 1
            self._end(self._flows[0])

    def _half_close_all(self):
        for flow in self._flows[::2]:
            try:
                flow.target.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has ended meanwhile
            flow.held.clear()
            flow.is_half_closed = True
