"""A TCP proxy between consumer and server that does to the bytes what networks do to them."""

import random
import socket
import struct
import threading
import time


class Proxy:
    """Carries bytes faithfully until told otherwise. One fault at a time; `heal` ends it."""

    def __init__(self, target, seed):
        self.target, self.draw = target, random.Random(seed)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.mode, self.allowance = self.listener.getsockname()[1], "faithful", 0
        self.lock, self.pairs = threading.Condition(), set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        with self.lock:
            # A host that is silent to its connections is silent to new ones, too.
            self.lock.wait_for(lambda: self.mode not in ("silent", "stalled"))
        host, port = self.target().rsplit(":", 1)
        try:
            server = socket.create_connection((host, int(port)), timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        pair = (client, server)
        with self.lock:
            self.pairs.add(pair)
        for source, sink in (pair, pair[::-1]):
            threading.Thread(target=self.pump, args=(pair, source, sink), daemon=True).start()

    def pump(self, pair, source, sink):
        try:
            while chunk := source.recv(4_096):
                if not self.pass_on(pair, source, sink, chunk):
                    break
        except OSError:
            pass
        self.part(pair, socket.SHUT_RDWR)

    def pass_on(self, pair, source, sink, chunk):
        with self.lock:
            mode, to_client = self.mode, sink is pair[0]
            if mode == "stalled" and to_client:
                # Not read any further: the server's buffers fill.
                self.lock.wait_for(lambda: self.mode != "stalled")
            elif mode == "silent":
                # Lost, with no word to either side.
                return True
            elif mode == "corrupting" and to_client:
                at = self.draw.randrange(len(chunk))
                chunk = chunk[:at] + bytes([chunk[at] ^ (1 << self.draw.randrange(8))]) + chunk[at + 1:]
            elif mode == "truncating" and to_client:
                chunk, cut = chunk[:self.allowance], len(chunk) >= self.allowance
                self.allowance -= len(chunk)
                if cut:
                    sink.sendall(chunk)
                    return False
        sink.sendall(chunk)
        return True

    def part(self, pair, how):
        with self.lock:
            self.pairs.discard(pair)
        for end in pair:
            try:
                end.shutdown(how)
            except OSError:
                pass

    def begin(self, mode, allowance=0):
        with self.lock:
            self.mode, self.allowance = mode, allowance

    def cut(self, politely):
        """Ends every connection, by FIN or by RST."""
        with self.lock:
            pairs, self.pairs = self.pairs, set()
        for pair in pairs:
            for end in pair:
                try:
                    if not politely:
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RDWR)
                    end.close()
                except OSError:
                    pass

    def forget(self):
        """The server's side of every connection goes; the client is not told."""
        with self.lock:
            self.mode = "silent"
            pairs = list(self.pairs)
        for _, server in pairs:
            try:
                server.close()
            except OSError:
                pass

    def heal(self):
        with self.lock:
            self.mode = "faithful"
            self.lock.notify_all()
        return time.monotonic()
