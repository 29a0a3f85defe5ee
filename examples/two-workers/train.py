"""A training loop small enough to read: real processes, real steps, one TCP barrier a step; needs only Python.

Every worker computes a gradient on its own data, worker 0 averages them over TCP (the rendezvous that the operator gives
in MASTER_ADDR and MASTER_PORT), all apply the average. Losses must fall and end up equal everywhere, or the exit code is
not zero. The line that it appends to /run/paceline/stage after the first step is the optional stage marker
(docs/formats/stage-marker.md): with it the startup waterfall ends at the first step. With CHECKPOINT_DIR each worker saves
its weights there every ten steps, and a start goes on from the last ones that all workers have.
"""
import os
import random
import socket
import struct
import sys
import time

RANK = int(os.environ["NODE_RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
MASTER = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
STEPS = int(os.environ.get("STEPS", "20"))
DIMENSIONS = 8
CHECKPOINT_DIR = os.environ.get("CHECKPOINT_DIR")
STAGE_FILE = "/run/paceline/stage"
RENDEZVOUS_SECONDS = 120


def mark(stage):
    """Reports a stage if Paceline's volume is there; training never depends on it."""
    try:
        with open(STAGE_FILE, "a", encoding="ascii") as f:
            f.write(f"{stage} {time.time():.3f}\n")
    except OSError as error:
        print(f"no stage marker: {error}", flush=True)


def receive(connection):
    data = b""
    while len(data) < 8 * DIMENSIONS:
        piece = connection.recv(8 * DIMENSIONS - len(data))
        if not piece:
            raise ConnectionError("a worker went away")
        data += piece
    return list(struct.unpack(f"{DIMENSIONS}d", data))


def send(connection, values):
    connection.sendall(struct.pack(f"{DIMENSIONS}d", *values))


def rendezvous():
    """Connections of worker 0 to all others, or of another worker to worker 0."""
    if RANK == 0:
        server = socket.create_server(("", MASTER[1]), backlog=WORLD)
        server.settimeout(RENDEZVOUS_SECONDS)
        return [server.accept()[0] for _ in range(WORLD - 1)]
    end = time.monotonic() + RENDEZVOUS_SECONDS
    while True:  # the name of worker 0 resolves only after its endpoint is published
        try:
            return [socket.create_connection(MASTER, timeout=5)]
        except OSError as error:
            if time.monotonic() > end:
                sys.exit(f"worker 0 at {MASTER} not reached in {RENDEZVOUS_SECONDS} s: {error}")
            time.sleep(0.1)


def all_reduce_mean(connections, values):
    if RANK == 0:
        total = list(values)
        for connection in connections:
            total = [a + b for a, b in zip(total, receive(connection))]
        mean = [v / WORLD for v in total]
        for connection in connections:
            send(connection, mean)
        return mean
    send(connections[0], values)
    return receive(connections[0])


def save(step, weights):
    """A reader sees the last checkpoint or this one, never half of it."""
    path = os.path.join(CHECKPOINT_DIR, f"rank-{RANK}-step-{step}")
    with open(path + ".part", "wb") as f:
        f.write(struct.pack(f"{DIMENSIONS}d", *weights))
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".part", path)


def restore():
    """The step to go on from and the weights after it: of the last step that every worker has saved."""
    saved = set(os.listdir(CHECKPOINT_DIR))
    steps = [step for step in range(10, STEPS, 10) if all(f"rank-{r}-step-{step}" in saved for r in range(WORLD))]
    if not steps:
        return 0, [0.0] * DIMENSIONS
    with open(os.path.join(CHECKPOINT_DIR, f"rank-{RANK}-step-{steps[-1]}"), "rb") as f:
        return steps[-1], list(struct.unpack(f"{DIMENSIONS}d", f.read()))


def main():
    truth = [float(i) for i in range(DIMENSIONS)]
    data = random.Random(RANK)
    first, weights = restore() if CHECKPOINT_DIR else (0, [0.0] * DIMENSIONS)
    losses = []
    connections = rendezvous()
    for step in range(first, STEPS):
        gradient, loss = [0.0] * DIMENSIONS, 0.0
        for _ in range(200):
            x = [data.gauss(0, 1) for _ in range(DIMENSIONS)]
            error = sum((w - t) * xi for w, t, xi in zip(weights, truth, x))
            loss += error * error / 200
            gradient = [g + 2 * error * xi / 200 for g, xi in zip(gradient, x)]
        gradient = all_reduce_mean(connections, gradient)
        weights = [w - 0.1 * g for w, g in zip(weights, gradient)]
        losses.append(loss)
        if step == first:
            mark("first_step")
        print(f"rank {RANK}/{WORLD} step {step + 1}/{STEPS} loss {loss:.4f}", flush=True)
        if CHECKPOINT_DIR and (step + 1) % 10 == 0:
            save(step + 1, weights)
    if len(losses) > 5 and losses[-1] >= losses[0]:
        sys.exit(f"loss did not fall: {losses[0]:.4f} -> {losses[-1]:.4f}")
    if max(abs(a - b) for a, b in zip(weights, all_reduce_mean(connections, weights))) > 1e-9:
        sys.exit("workers ended with different weights")


if __name__ == "__main__":
    main()
