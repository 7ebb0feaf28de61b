"""A proxy before a server, which delays, drops and invents what the server says; the same at each run, by a seed."""

import asyncio
import random
import threading

PROMISED = 100 * 10**9
MOMENT = "Wed, 21 Oct 2015 07:28:00 GMT"
HTTP = {  # what a web server may answer instead of a pack
    **{
        str(status): f"HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno"
        for status in (403, 404, 429, 500, 503)
    },
    "redirect": "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n",
    "promised": f"HTTP/1.1 200 OK\r\nContent-Length: {PROMISED}\r\nLast-Modified: {MOMENT}\r\n\r\n",
}
REDIS = {
    "NOAUTH": "-NOAUTH Authentication required.\r\n",
    "LOADING": "-LOADING Redis is loading the dataset in memory\r\n",
    "READONLY": "-READONLY You can't write against a read only replica.\r\n",
    "OOM": "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "promised": f"${PROMISED}\r\n",
}
CUT_PUT = "cut put"  # what a client sends that is large ends in the middle
FAULTS = ("swallowed", "dripping", "cut", "garbage", "slow")


class Proxy:
    """A port that leads to another one, with a fault, or with a delay in seconds for each way of a round trip.

    `connections` counts those that were made. Used as a context.
    """

    def __init__(self, port, fault="", answer="", delay=0.0, seed=35) -> None:
        self.target, self.fault, self.answer, self.delay = port, fault, answer, delay
        self.connections = 0
        self.drawn = random.Random(seed)
        self.port = 0

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_error):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, ready):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            if self.answer:
                await self._invent(reader, writer)
            elif self.fault == "swallowed":
                await reader.read()  # until the client gives up
            elif self.fault == "garbage":
                writer.write(self.drawn.randbytes(5000))
                await writer.drain()
            else:
                await self._pass(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _invent(self, reader, writer):
        """Give one answer to every request; what was promised never ends."""
        while await reader.read(65536):
            writer.write(self.answer.encode())
            while self.fault == "promised":
                writer.write(bytes(1 << 20))
                await writer.drain()
            await writer.drain()

    async def _pass(self, reader, writer):
        there, out = await asyncio.open_connection("127.0.0.1", self.target)
        sent = self.fault if self.fault == CUT_PUT else ""
        ways = [self._copy(reader, out, sent), self._copy(there, writer, self.fault)]
        try:
            await asyncio.gather(*ways)
        finally:
            out.close()

    async def _copy(self, source, sink, fault):
        while blob := await source.read(65536):
            await asyncio.sleep(1.0 if fault == "slow" else self.delay)
            if fault == "cut" or (fault == CUT_PUT and len(blob) > 4096):
                sink.write(blob[: len(blob) // 2])
                await sink.drain()
                sink.close()
                return
            if fault == "dripping":
                for byte in blob:
                    sink.write(bytes([byte]))
                    await sink.drain()
                    await asyncio.sleep(0.3)
            sink.write(blob)
            await sink.drain()
        sink.close()
