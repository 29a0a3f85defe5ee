#!/usr/bin/env python3
"""Checkpoints on a real HDFS in a real Kubernetes: scripts/testbed up kubernetes hdfs, at least two nodes.

  eval "$(scripts/testbed env)"; tests/integration/checkpoint_test.py

Agent, holder and operator run as processes, on the nodes n1 and n2 and here. A TrainingJob of two workers writes a
checkpoint while the agent of one node is killed and that of the other is restarted; the job goes; a second one reads the
checkpoint, and so does an annotated Job. Nothing is lost, and the run shows the stage Checkpoint. Ends with "N passed, N failed, N skipped". Without
KUBECONFIG or HDFS_URI all is skipped.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402
from checks_foreign import ENABLED, indexed_job  # noqa: E402
from nodes import NODES, PROGRAMS, TESTBED, NodeProcess, in_node  # noqa: E402

MEGABYTES = 48

WRITE = f"""
import hashlib, os, sys, time
rank = os.environ["RANK"]
digest = hashlib.sha256()
with open(f"/checkpoints/rank-{{rank}}.tmp", "wb") as file:
    for piece in range({MEGABYTES}):
        data = hashlib.sha256(f"{{rank}}-{{piece}}".encode()).digest() * 32768
        digest.update(data)
        file.write(data)
        if piece % 8 == 7:
            file.flush()
            os.fsync(file.fileno())
            print("wrote", piece + 1, flush=True)
        time.sleep(0.15)
os.rename(f"/checkpoints/rank-{{rank}}.tmp", f"/checkpoints/rank-{{rank}}")
print("sha256", digest.hexdigest(), flush=True)
"""
READ = """
import hashlib, os, time
rank = os.environ["RANK"]
digest = hashlib.sha256()
with open(f"/checkpoints/rank-{rank}", "rb") as file:
    while data := file.read(1 << 20):
        digest.update(data)
print("sha256", digest.hexdigest(), flush=True)
try:
    open("/checkpoints/new", "wb")
except OSError as error:
    print("refused:", error.strerror, flush=True)
time.sleep(600)
"""


def processes():
    holders = [NodeProcess(node, "holder", " ".join((
        f"{PROGRAMS}/paceline-holder", "--programs", f"{PROGRAMS}/paceline-hdfs-mount", "--stop-mounts", "yes")))
        for node in NODES]
    agents = nodes.agents("--hdfs-memory-limit", "64Mi")
    return holders, agents


def job(context, name, script, read_only=False):
    spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"paceline.dev/job": name}}}]
    container = {"name": "main", "image": bed.PYTHON, "command": ["python3", "-u", "-c", script],
                 "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
    how = {"readOnly": True, "prefetch": ["rank-0", "rank-1"]} if read_only else {"createDirectory": True}
    return bed.create({
        "apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": context.ns},
        "spec": {"workers": 2,
                 "checkpoints": [{"name": "model", "uri": f"{os.environ['HDFS_URI']}/{context.ns}", "mountPath": "/checkpoints", **how}],
                 "template": {"metadata": {"labels": {"paceline.dev/job": name}},
                              "spec": {"terminationGracePeriodSeconds": 1, "containers": [container],
                                       "topologySpreadConstraints": spread}}}})


def log_of(context, name, rank):
    pods = bed.items("pods", context.ns, f"batch.kubernetes.io/job-name={name}-g0")
    pod = next(p["metadata"]["name"] for p in pods if p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == str(rank))
    return bed.kubectl("logs", pod, "-n", context.ns)


def await_logged(context, name, text, timeout=60):
    return [bed.wait_for(f"worker {rank} of {name} says {text}",
                         lambda rank=rank: next((line for line in log_of(context, name, rank).splitlines() if text in line), None),
                         timeout) for rank in (0, 1)]


def write_through_the_agents_death(context, agents):
    job(context, "write", WRITE)
    await_logged(context, "write", "wrote 8")
    for node in NODES:
        bed.expect(hdfs_mounts(node), f"{node} shows no mount while its worker writes")
    agents[0].end("KILL")
    agents[1].end("TERM")
    await_logged(context, "write", "wrote 24")  # with no agent at all
    for agent in agents:
        agent.start()
    sums = await_logged(context, "write", "sha256")
    context.wait_phase("write", "Complete", 60)
    uid = context.job("write")["metadata"]["uid"]
    run = bed.wait_for("the run knows what was written", lambda: next(
        (r for r in context.runs(uid) if r["status"].get("bytes", {}).get("checkpointWritten", 0) >= 2 * MEGABYTES << 20), None))
    bed.expect(bed.condition(run, "CheckpointsMounted").get("status") == "True", f"{run['status']['conditions']}")
    bed.kubectl("delete", "trainingjob", "write", "-n", context.ns, "--timeout=60s")
    return sums


def read_it_back(context, sums):
    uid = job(context, "read", READ, read_only=True)["metadata"]["uid"]
    bed.expect(await_logged(context, "read", "sha256") == sums, "other bytes came back")
    await_logged(context, "read", "refused: Read-only file system")

    def stage():
        for run in context.runs(uid):
            for entry in run["status"].get("stages", []):
                if entry["name"] == "Checkpoint" and entry["workers"] == 2:
                    return run, entry
        return None

    run, entry = bed.wait_for("the run shows the stage Checkpoint", stage, 30)
    bed.expect(entry["source"] == "Mount" and 0 < entry["maxSeconds"] < 30 and entry["slowestNode"] in NODES, json.dumps(entry))
    bed.expect(run["status"]["bytes"]["checkpointRead"] >= 2 * MEGABYTES << 20, json.dumps(run["status"]["bytes"]))
    print(f"        {MEGABYTES} MiB for each worker, read in {entry['minSeconds']:.2f} to {entry['maxSeconds']:.2f} s", flush=True)
    bed.kubectl("delete", "trainingjob", "read", "-n", context.ns, "--timeout=60s")


def read_by_annotation(context, sums):
    wanted = [{"name": "model", "uri": f"{os.environ['HDFS_URI']}/{context.ns}", "mountPath": "/checkpoints", "readOnly": True}]
    indexed_job(context.ns, "annotated-g0", {**ENABLED, "paceline.dev/checkpoints": json.dumps(wanted)},
                READ.replace('os.environ["RANK"]', 'os.environ["JOB_COMPLETION_INDEX"]'))
    bed.expect(await_logged(context, "annotated", "sha256") == sums, "other bytes came back to the annotated job")
    bed.kubectl("delete", "job", "annotated-g0", "-n", context.ns, "--timeout=60s", "--cascade=foreground")


def hdfs_mounts(node):
    """Those that kubelet, the agent and the holder made there: the machine may have mounts of its own."""
    lines = in_node(node, "cat", "/proc/self/mounts").splitlines()
    return [line for line in lines if " fuse.paceline-hdfs " in line and " /var/lib/kubelet/" in line]


def nothing_is_left():
    for node in NODES:
        bed.wait_for(f"no mount is left on {node}", lambda node=node: not hdfs_mounts(node), 30)
        held = in_node(node, f"{PROGRAMS}/paceline-holder", "list")
        bed.expect('"mounts":[]' in held, f"{node}: {held}")


def check(context):
    holders, agents = processes()
    try:
        with nodes.running(context, holders, agents):
            context.start_hooked()
            sums = write_through_the_agents_death(context, agents)
            nodes.await_agents(" again")
            read_it_back(context, sums)
            read_by_annotation(context, sums)
            nothing_is_left()
    finally:
        bed.run(TESTBED, "hdfs", "dfs", "-rm", "-r", "-skipTrash", f"/{context.ns}", ok=False)


if __name__ == "__main__":
    sys.exit(nodes.run_check("checkpoints_outlive_the_agent", "ckpt", ("KUBECONFIG", "HDFS_URI"), "scripts/testbed up kubernetes hdfs", check))
