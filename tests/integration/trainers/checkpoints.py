"""What trainers do with checkpoints, by the real libraries, in one directory: save, load, compare.

    checkpoints.py DIRECTORY CASE [--fault COMMAND]     CASE: torch | dcp | sharded | safetensors

Runs with the Python that has PyTorch. Ends with 0 when every byte came back. --fault is run by the shell in the middle
of the writing. tests/integration/trainers_test drives it on mounts.
"""
import argparse
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import torch

ELEMENTS = 6 << 20  # of each large tensor: 24 MiB


def tensors(seed, count=3, elements=ELEMENTS):
    generator = torch.Generator().manual_seed(seed)
    made = {f"layer{i}.weight": torch.randn(elements, generator=generator) for i in range(count)}
    made["step"] = torch.tensor(seed)
    return made


def check(left, right, what):
    if left.keys() != right.keys():
        sys.exit(f"{what}: other keys came back")
    for name, tensor in left.items():
        if not torch.equal(tensor, right[name]):
            sys.exit(f"{what}: {name} differs")
    print(f"{what}: equal", flush=True)


def case_torch(directory, fault):
    for round_number in range(2):  # the second one replaces the file of the first
        state = tensors(round_number)
        path = os.path.join(directory, "model.pt")
        if round_number == 1:
            fault()
        torch.save(state, path)
        check(state, torch.load(path, weights_only=True), "torch.load")
        check(state, torch.load(path, weights_only=True, mmap=True), "torch.load with mmap")
    # As CheckFreq does: the finished file is opened again just to force it to disk.
    with open(path, "a+b") as again:
        os.fsync(again.fileno())
    with open(os.path.join(directory, "stream.pt"), "wb") as stream:
        torch.save(state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    check(state, torch.load(os.path.join(directory, "stream.pt"), weights_only=True), "torch.save to a stream")


def dcp_rank(rank, world, port, directory, fault_command):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    full = tensors(7)
    state = {k: distribute_tensor(v, mesh, [Shard(0)]) if v.dim() else v for k, v in full.items()}
    for step in range(2):
        if rank == 0 and step == 1 and fault_command:
            subprocess.run(fault_command, shell=True, check=True)
        dcp.save(state, storage_writer=dcp.FileSystemWriter(os.path.join(directory, "dcp")))
    fresh = {k: distribute_tensor(torch.zeros_like(v), mesh, [Shard(0)]) if v.dim() else torch.tensor(-1) for k, v in full.items()}
    dcp.load(fresh, storage_reader=dcp.FileSystemReader(os.path.join(directory, "dcp")))
    for name, tensor in state.items():
        mine = tensor.to_local() if tensor.dim() else tensor
        other = fresh[name].to_local() if tensor.dim() else fresh[name]
        if not torch.equal(mine, other):
            sys.exit(f"dcp: {name} of rank {rank} differs")
    dist.barrier()
    dist.destroy_process_group()


def case_dcp(directory, fault):
    run_ranks(dcp_rank, 2, directory, fault.command)
    print("dcp: equal", flush=True)
    names = sorted(os.listdir(os.path.join(directory, "dcp")))
    if names != [".metadata", "__0_0.distcp", "__1_0.distcp"]:
        sys.exit(f"dcp: the directory holds {names}")


def sharded_rank(rank, world, port, directory, fault_command):
    """A rank of a tensor-parallel and pipeline-parallel job: its own files, saved by a child while training goes on."""
    folder = os.path.join(directory, "iter_0000100", f"mp_rank_{rank:02d}")
    os.makedirs(folder, exist_ok=True)
    state = tensors(100 + rank, count=2)
    model, optimizer = os.path.join(folder, "model_optim_rng.pt"), os.path.join(folder, "distrib_optim.pt")
    if rank == 0 and fault_command:
        subprocess.run(fault_command, shell=True, check=True)
    child = os.fork()
    if child == 0:
        torch.save(state, optimizer)
        os._exit(0)
    torch.save(state, model)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"sharded: the saving child of rank {rank} failed")
    for path in (model, optimizer):
        back = torch.load(path, weights_only=True)
        if any(not torch.equal(state[k], back[k]) for k in state):
            sys.exit(f"sharded: {path} differs")


def case_sharded(directory, fault):
    run_ranks(sharded_rank, 4, directory, fault.command)
    tracker = os.path.join(directory, "latest_checkpointed_iteration.txt")
    for step in ("100", "200"):  # replaced in place, as Megatron does
        with open(tracker, "w") as file:
            file.write(step)
    if open(tracker).read() != "200":
        sys.exit("sharded: the tracker is stale")
    print("sharded: equal", flush=True)


def case_safetensors(directory, fault):
    import safetensors
    from safetensors.torch import load_file, save_file

    state = {k: v for k, v in tensors(3).items() if v.dim()}
    path = os.path.join(directory, "model.safetensors")
    for round_number in range(2):
        if round_number == 1:
            fault()
        save_file(state, path, metadata={"format": "pt"})
        check(state, load_file(path), f"safetensors {safetensors.__version__} load_file")
    with safetensors.safe_open(path, framework="pt") as file:
        check({"layer1.weight": state["layer1.weight"]}, {"layer1.weight": file.get_tensor("layer1.weight")}, "safe_open")
    if sorted(os.listdir(directory)) != ["model.safetensors"]:
        sys.exit(f"safetensors: the directory holds {os.listdir(directory)}")


def run_ranks(function, world, directory, fault_command):
    context = multiprocessing.get_context("spawn")
    port = 20000 + os.getpid() % 20000
    ranks = [context.Process(target=function, args=(r, world, port, directory, fault_command)) for r in range(world)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(timeout=240)
        if process.exitcode != 0:
            sys.exit(f"{function.__name__}: a rank ended with {process.exitcode}")


class Fault:
    """Runs its command a moment after it is called, beside the write that follows."""

    def __init__(self, command):
        self.command = command

    def __call__(self):
        if self.command:
            threading.Timer(0.2, lambda: subprocess.run(self.command, shell=True, check=True)).start()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("case", choices=["torch", "dcp", "sharded", "safetensors"])
    parser.add_argument("--fault", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.monotonic()
    globals()["case_" + arguments.case](arguments.directory, Fault(arguments.fault))
    print(f"{arguments.case}: {time.monotonic() - start:.1f} s")
