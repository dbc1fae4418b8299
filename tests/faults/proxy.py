"""A TCP proxy between consumer and server that does to the bytes what networks do to them."""

import asyncio
import random
import socket
import struct
import threading
import time


class Pair:
    """A client's connection, the server's beside it, and who carries the bytes."""

    def __init__(self, client, server):
        self.client, self.server, self.pumps, self.forgotten = client, server, [], False


class Proxy:
    """Carries bytes faithfully until told otherwise. One fault at a time; `heal` ends it.

    One thread does it all, so that a socket is closed in the moment in which it is told to.
    """

    def __init__(self, target, seed):
        self.target, self.draw, self.pairs = target, random.Random(seed), set()
        self.mode, self.allowance = "faithful", 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_until_complete, args=(self.accept(),), daemon=True).start()

    def at_once(self, what):
        """Does something in the proxy's thread, and waits for it."""

        async def call():
            return what()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result()

    async def accept(self):
        self.changed = asyncio.Event()
        carried = set()
        while True:
            client, _ = await self.loop.sock_accept(self.listener)
            task = self.loop.create_task(self.carry(client))
            carried.add(task)
            task.add_done_callback(carried.discard)

    async def while_mode(self, *modes):
        while self.mode in modes:
            await self.changed.wait()

    async def carry(self, client):
        # A host that is silent to its connections is silent to new ones, too.
        await self.while_mode("silent", "stalled")
        host, port = self.target().rsplit(":", 1)
        server = socket.socket()
        server.setblocking(False)
        try:
            await self.loop.sock_connect(server, (host, int(port)))
        except OSError:
            return client.close()
        pair = Pair(client, server)
        self.pairs.add(pair)
        pair.pumps = [self.loop.create_task(self.pump(pair, *ends)) for ends in ((client, server), (server, client))]
        await asyncio.wait(pair.pumps, return_when=asyncio.FIRST_COMPLETED)
        # Silence swallows the goodbye as well. Who was forgotten never hears of it.
        await self.while_mode("silent")
        if not pair.forgotten:
            self.end(pair, politely=True)

    async def pump(self, pair, source, sink):
        try:
            while chunk := await self.loop.sock_recv(source, 4_096):
                if not await self.pass_on(chunk, sink, to_client=sink is pair.client):
                    return
        except OSError:
            pass

    async def pass_on(self, chunk, sink, to_client):
        if self.mode == "stalled" and to_client:
            # Not read any further: the server's buffers fill.
            await self.while_mode("stalled")
        elif self.mode == "silent":
            # Lost, with no word to either side.
            return True
        elif self.mode == "corrupting" and to_client:
            at = self.draw.randrange(len(chunk))
            chunk = chunk[:at] + bytes([chunk[at] ^ (1 << self.draw.randrange(8))]) + chunk[at + 1:]
        elif self.mode == "truncating" and to_client:
            chunk, cut = chunk[:self.allowance], len(chunk) >= self.allowance
            self.allowance -= len(chunk)
            await self.loop.sock_sendall(sink, chunk)
            return not cut
        await self.loop.sock_sendall(sink, chunk)
        return True

    def end(self, pair, politely):
        self.pairs.discard(pair)
        for pump in pair.pumps:
            pump.cancel()
        for side in (pair.client, pair.server):
            if not politely:
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            side.close()

    def set_mode(self, mode, allowance=0):
        self.mode, self.allowance = mode, allowance
        self.changed.set()
        self.changed.clear()

    def begin(self, mode, allowance=0):
        """From now on every connection suffers `mode`. Says how many there are."""

        def start():
            self.set_mode(mode, allowance)
            return len(self.pairs)

        return self.at_once(start)

    def cut(self, politely):
        """Ends every connection, by FIN or by RST. Says how many."""

        def start():
            pairs = list(self.pairs)
            for pair in pairs:
                self.end(pair, politely)
            return len(pairs)

        return self.at_once(start)

    def forget(self):
        """The server's side of every connection goes; the client is not told, and never will be. Says how many."""

        def start():
            self.set_mode("silent")
            pairs = list(self.pairs)
            for pair in pairs:
                pair.forgotten = True
                # The client's bytes are still taken, and lost.
                for pump in pair.pumps:
                    pump.cancel()
                pair.server.close()
                self.loop.create_task(self.swallow(pair))
            return len(pairs)

        return self.at_once(start)

    async def swallow(self, pair):
        try:
            while await self.loop.sock_recv(pair.client, 4_096):
                pass
        except OSError:
            pass
        pair.client.close()
        self.pairs.discard(pair)

    def heal(self):
        self.at_once(lambda: self.set_mode("faithful"))
        return time.monotonic()
