#!/usr/bin/env python3
"""TCP proxy with a rate limit and a delay, because not every kernel has netem.

throttle.py [--mbit N] [--delay-ms N] LISTEN_IP:PORT=TARGET_IP:PORT...

The rate is shared by all connections and counted per direction; the delay is added to each direction without
holding back what follows (bytes in flight overlap, as on a long line).
"""
import argparse
import asyncio

CHUNK_BYTES = 64 * 1024
QUEUE_CHUNKS = 256


class Rate:
    """Hands out sending times so that the sum of all users stays at a rate."""

    def __init__(self, bytes_per_second):
        self.bytes_per_second = bytes_per_second
        self.free_at = 0.0

    async def take(self, count):
        if not self.bytes_per_second:
            return
        now = asyncio.get_running_loop().time()
        begin = max(self.free_at, now)
        self.free_at = begin + count / self.bytes_per_second
        if self.free_at > now:
            await asyncio.sleep(self.free_at - now)


async def receive(reader, queue, delay):
    """Reads chunks and stamps each with the time at which it may leave."""
    loop = asyncio.get_running_loop()
    try:
        while data := await reader.read(CHUNK_BYTES):
            await queue.put((loop.time() + delay, data))
    except ConnectionError:
        pass
    await queue.put((loop.time() + delay, None))


async def send(writer, queue, rate):
    loop = asyncio.get_running_loop()
    try:
        while True:
            due, data = await queue.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            if data is None:
                break
            await rate.take(len(data))
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except ConnectionError:
        pass


async def pump(reader, writer, rate, delay):
    queue = asyncio.Queue(QUEUE_CHUNKS)
    receiving = asyncio.create_task(receive(reader, queue, delay))
    try:
        await send(writer, queue, rate)
    finally:
        receiving.cancel()


def make_handler(target, up, down, delay):
    async def handle(client_reader, client_writer):
        server_writer = None
        try:
            server_reader, server_writer = await asyncio.open_connection(*target)
            await asyncio.gather(
                pump(client_reader, server_writer, up, delay), pump(server_reader, client_writer, down, delay)
            )
        except OSError as error:
            print(f"connection to {target[0]}:{target[1]} failed: {error}", flush=True)
        finally:
            for writer in (client_writer, server_writer):
                if writer:
                    writer.close()

    return handle


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mbit", type=float, default=0, help="megabits per second and direction, 0 = no limit")
    parser.add_argument("--delay-ms", type=float, default=0, help="added to each direction")
    parser.add_argument("routes", nargs="+", metavar="LISTEN=TARGET")
    options = parser.parse_args()
    up, down = Rate(options.mbit * 1e6 / 8), Rate(options.mbit * 1e6 / 8)
    servers = []
    for route in options.routes:
        listen, target = (address(part) for part in route.split("="))
        handler = make_handler(target, up, down, options.delay_ms / 1000)
        servers.append(await asyncio.start_server(handler, *listen))
    print("ready", flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


asyncio.run(main())
