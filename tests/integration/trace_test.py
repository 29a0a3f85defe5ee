#!/usr/bin/env python3
"""From a fault in a training process to the Incident that names it, in a real Kubernetes: scripts/testbed up --nodes 2.

  eval "$(scripts/testbed env)"; tests/integration/trace_test.py

Agents and operator run as processes, on the nodes n1 and n2 and here. A traced TrainingJob of four workers does collectives
over TCP through the NCCL plugin that the agents' trace volumes bring, driven as NCCL drives it (tests/collectives). One rank
is stopped, goes on, and is killed at last: each time the right rank, pod and node are named in time, and nothing is when all
is well. A line as NVIDIA's driver writes it to the kernel's log when a GPU fails stands beside the verdict. Ends with "N passed, N failed, N skipped". Without KUBECONFIG all is skipped.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402
from nodes import NODES, in_node  # noqa: E402

WORKER_FOLDER = os.path.realpath(os.path.join(nodes.PROGRAMS, "..", "tests", "bin"))
RANKS = 4
PORT = 7000
XID_DEVICE = "PCI:0000:18:00"
# Seconds. The verdict is due 2 s after the alert; here kubectl, this script and whatever else runs take their time, too.
ALERT_LIMIT, VERDICT_LIMIT = 10, 10

WORKER = f"""
import os
rank, master = os.environ["RANK"], os.environ["MASTER_ADDR"]
host, domain = master.split(".", 1)
addresses = ",".join(f"{{host[:-1]}}{{other}}.{{domain}}:{PORT}" for other in range({RANKS}))
os.execv("/paceline/collectives-worker", ["collectives-worker", "rank=" + rank, "addresses=" + addresses, "listen=0.0.0.0:{PORT}",
         "comm=dp=" + ",".join(str(other) for other in range({RANKS})), "slice-bytes=4096", "iterations=1000000", "check=0",
         "schedule=compute:3000;allreduce:dp:20000;sync"])
"""


def manifest(context, name, script):
    spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"paceline.dev/job": name}}}]
    # The machine's programs and libraries in place of the image's: the worker is a fresh build.
    folders = {"usr": ("/usr", "/usr"), "lib": ("/usr/lib", "/lib"), "lib64": ("/usr/lib64", "/lib64"), "worker": (WORKER_FOLDER, "/paceline")}
    container = {"name": "main", "image": bed.BUSYBOX, "command": ["/usr/bin/python3", "-u", "-c", script],
                 "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                 "volumeMounts": [{"name": key, "mountPath": path, "readOnly": True} for key, (_, path) in folders.items()]}
    return {
        "apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": context.ns},
        "spec": {"workers": RANKS, "tracing": {"enabled": True},
                 "template": {"metadata": {"labels": {"paceline.dev/job": name}},
                              "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], "topologySpreadConstraints": spread,
                                       "volumes": [{"name": key, "hostPath": {"path": path}} for key, (path, _) in folders.items()]}}}}


def job(context, name):
    return bed.create(manifest(context, name, WORKER))


def pod_of(context, name, rank):
    pods = bed.items("pods", context.ns, f"batch.kubernetes.io/job-name={name}-g0")
    return next(p for p in pods if p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == str(rank))


def signal(pod, rank, name):
    in_node(pod["spec"]["nodeName"], "pkill", f"-{name}", "-f", f"collectives-worker rank={rank} ")


def traced_processes():
    count = 0
    for node in NODES:
        plan = bed.get("nodeplan", node) or {}
        count += sum(run["processes"] for run in plan.get("status", {}).get("traces", []))
    return count


def incidents(context):
    return bed.items("incidents", context.ns)


def newest(context, state):
    found = [i for i in incidents(context) if i.get("status", {}).get("state") == state]
    return max(found, key=lambda i: i["metadata"]["creationTimestamp"], default=None)


def expect_verdict(incident, category, rank, pod):
    verdict = incident["status"]["verdict"]
    told = json.dumps(incident["status"])
    bed.expect(verdict["category"] in category, f"{category} expected: {told}")
    bed.expect(verdict["ranks"] == [rank], f"rank {rank} expected: {told}")
    bed.expect(verdict["pods"] == [pod["metadata"]["name"]], f"pod {pod['metadata']['name']} expected: {told}")
    bed.expect(verdict["nodes"] == [pod["spec"]["nodeName"]], f"node {pod['spec']['nodeName']} expected: {told}")


def within_limits(started, incident):
    """The alert and the verdict, in seconds since the fault."""
    alert = bed.seconds(incident["spec"]["trigger"]["at"]) - started
    seen = time.time() - started
    print(f"        alert {alert:.1f} s after the fault, incident read {seen:.1f} s after it: {incident['status']['verdict']['cause']}", flush=True)
    bed.expect(alert <= ALERT_LIMIT, f"the alert came {alert:.1f} s after the fault")
    bed.expect(seen - alert <= VERDICT_LIMIT, f"the verdict came {seen - alert:.1f} s after the alert")


def pacectl(context, *arguments, codes=(0,)):
    done = subprocess.run([os.path.join(nodes.PROGRAMS, "pacectl"), "trace", *arguments, "--direct", "-n", context.ns],
                          capture_output=True, text=True, timeout=60, check=False)
    bed.expect(done.returncode in codes, f"pacectl trace {' '.join(arguments)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def people_see_it(context, name, run, rank):
    """The same by hand: who is behind, why, and what was before."""
    top = json.loads(pacectl(context, "top", name, "-o", "json", "--every", "0.5"))
    slow = next(c for c in top["communicators"] if c["name"] == "dp")
    bed.expect(slow["ranksSeen"] == RANKS and slow["behind"]["rank"] == rank and slow["stillSeconds"] > 1, json.dumps(top))
    bed.expect([p["rank"] for p in top["notRunning"]] == [rank], json.dumps(top))
    verdict = json.loads(pacectl(context, "diagnose", "--of", run, "-o", "json", codes=(3,)))
    bed.expect([c["rank"] for c in verdict["culprits"]] == [rank], json.dumps(verdict))
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "tables.json")
        pacectl(context, "dump", run, "--save", saved)
        bed.expect(json.loads(pacectl(context, "diagnose", saved, "-o", "json", codes=(3,)))["culprits"] == verdict["culprits"], "the saved tables say something else")
        pacectl(context, "export", run, os.path.join(folder, "trace.json"))
        with open(os.path.join(folder, "trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    done = [e for e in events if e["ph"] == "X"]
    bed.expect(len(done) > 100 and {e["name"] for e in done} == {"AllReduce"}, f"{len(events)} events, {done[:2]}")


def write_xid():
    """As the driver of the machine, whose kernel all nodes share, would."""
    with open("/dev/kmsg", "w", encoding="utf-8") as file:
        file.write(f"NVRM: Xid ({XID_DEVICE}): 79, pid='<unknown>', written by a test of Paceline\n")


def stop_and_go_on(context, name, run):
    rank = 2
    pod = pod_of(context, name, rank)
    started = time.time()
    signal(pod, rank, "STOP")
    incident = bed.wait_for("an incident with a verdict", lambda: (newest(context, "Open") or {}).get("status", {}).get("verdict")
                            and newest(context, "Open"), 40)
    within_limits(started, incident)
    expect_verdict(incident, ("HostStuck", "NotLaunched"), rank, pod)
    bed.expect([e for e in incident["status"]["evidence"] if e["name"] == f"GPU {XID_DEVICE[4:]} of {pod['spec']['nodeName']}: Xid 79"],
               json.dumps(incident["status"]))
    bed.expect(incident["spec"]["run"] == run, json.dumps(incident["spec"]))
    bed.wait_for("the run names it", lambda: incident["metadata"]["name"] in (bed.get("trainingrun", run, context.ns)["status"].get("incidents") or []))
    notes = bed.wait_for("the job has an event", lambda: context.event_notes(name, "TrainingStalled"))
    bed.expect(pod["metadata"]["name"] in notes, notes)
    people_see_it(context, name, run, rank)
    signal(pod, rank, "CONT")
    bed.wait_for("the incident is resolved", lambda: newest(context, "Resolved"), 60)


def kill(context, name):
    rank = 1
    pod = pod_of(context, name, rank)
    started = time.time()
    signal(pod, rank, "KILL")
    incident = bed.wait_for("a second incident with a verdict", lambda: next(
        (i for i in incidents(context) if i["status"].get("verdict", {}).get("category") == "ProcessLost"), None), 40)
    within_limits(started, incident)
    expect_verdict(incident, ("ProcessLost",), rank, pod)


def check(context):
    agents = nodes.agents()
    name = "traced"
    try:
        for agent in agents:
            agent.start()
        for node in NODES:
            bed.wait_for(f"the agent of {node} is ready", lambda node=node: nodes.is_ready(node))
        context.start_hooked()
        uid = job(context, name)["metadata"]["uid"]
        bed.wait_for("all ranks are traced", lambda: traced_processes() == RANKS, 90)
        # No line of the worker's own: its collectives tell that it steps.
        started = context.wait_run(uid, "Running")
        run = started["metadata"]["name"]
        sources = {stage["name"]: stage.get("source") for stage in started["status"]["stages"]}
        bed.expect(sources.get("FirstStep") == sources.get("CommunicatorReady") == "Tracer", json.dumps(started["status"]["stages"]))
        write_xid()  # agents look every 10 s
        time.sleep(12)  # a healthy while: longer than it takes to raise an alert
        bed.expect(not incidents(context), json.dumps(incidents(context)))
        stop_and_go_on(context, name, run)
        kill(context, name)
        context.wait_phase(name, "Failed", 60)
        bed.wait_for("no incident is open", lambda: newest(context, "Open") is None, 30)
    except bed.Failure as error:
        raise bed.Failure(str(error) + "\n" + "\n".join(agent.tail() for agent in agents)) from error
    finally:
        bed.kubectl("delete", "trainingjobs", "--all", "-n", context.ns, "--wait=false", ok=False)
        bed.wait_for("the pods are gone", lambda: not bed.items("pods", context.ns), 60)
        for agent in agents:
            agent.end("TERM")


if __name__ == "__main__":
    sys.exit(nodes.run_check("faults_are_named_in_time", "trace", ("KUBECONFIG",), "scripts/testbed up --nodes 2", check))
