#!/usr/bin/env python3
"""From a slow rank to the node that is cordoned, in a real Kubernetes: scripts/testbed up --nodes 2.

  eval "$(scripts/testbed env)"; tests/integration/straggler_test.py [CHECK...]

a_slow_node_is_found_and_cordoned: agents run on all nodes (two, or as many as there are); a traced TrainingJob with two workers
for each of two nodes, or one for each of more, does collectives through the NCCL plugin, and from some step on the workers on n2
take longer for their work: 20 ms on 50, or PACELINE_STRAGGLER_EXTRA_MS. Its policy first observes, then cordons, then has the job
begin anew on the other nodes. Nothing is wrong with the node itself: its probe passes, and it comes back.
a_probe_keeps_a_throttled_node_out (by name only): the node n2 gets less of a processor, is cordoned, and its probe fails as long as
that lasts, while agent and operator are killed; then it passes, and the node comes back.
Probes are compared with those of the other nodes; on a bed of less than four nodes with those of nodes that are objects only as well,
whose figures are copied from n1.
a_throttled_node_is_found (by name only): the work takes a processor, and the node n2 gets less of it (scripts/testbed node cpu-limit).
safeguards (by name only): nodes that are objects only, in pools of their own; a server here plays their agents and tells what each check needs.
Ends with "N passed, N failed, N skipped". Without KUBECONFIG all is skipped.
"""
import http.server
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402

WORKER_FOLDER = os.path.realpath(os.path.join(nodes.PROGRAMS, "..", "tests", "bin"))
PORT = 7000
SLOW_NODE = "n2"
WORK_MS, EXTRA_MS = 50, int(os.environ.get("PACELINE_STRAGGLER_EXTRA_MS", "20"))
SLOW_FROM = 700  # operations, of some 55 ms: after the warm-up and some healthy windows
# Of a core: what a worker burns in each step, and what all of the throttled node gets.
BURN_MS, LIMIT_PERCENT = 8, "25"
MARK = "paceline.dev/straggler"
FAST_LEASE = ("--leader-election-lease-duration=4s", "--leader-election-renew-deadline=3s", "--leader-election-retry-period=500ms")
DETECTION = {"window": "5s", "windows": 4, "required": 3}

# Arguments: what a step is, and the faults of the workers on the slow node.
WORKER = f"""
import os, sys
rank, master, size = os.environ["RANK"], os.environ["MASTER_ADDR"], int(os.environ["WORLD_SIZE"])
host, domain = master.split(".", 1)
ranks = [str(other) for other in range(size)]
addresses = ",".join(f"{{host[:-1]}}{{other}}.{{domain}}:{PORT}" for other in ranks)
slow = sys.argv[2:] if os.environ["NODE"] == "{SLOW_NODE}" else []
os.execv("/paceline/collectives-worker", ["collectives-worker", "rank=" + rank, "addresses=" + addresses, "listen=0.0.0.0:{PORT}",
         "comm=dp=" + ",".join(ranks), "slice-bytes=4096", "iterations=1000000", "check=0", "schedule=" + sys.argv[1]] + slow)
"""


def policy_object(name, selector, **spec):
    return {"apiVersion": "paceline.dev/v1alpha1", "kind": "StragglerPolicy", "metadata": {"name": name},
            "spec": {"nodeSelector": selector, "detection": DETECTION, **spec}}


def status_of(name):
    return (bed.get("stragglerpolicy", name) or {}).get("status", {})


def change(kind, name, patch, ns=None):
    bed.kubectl("patch", kind, name, *(("-n", ns) if ns else ()), "--type=merge", "-p", json.dumps(patch))


def is_out(node):
    return bool((bed.get("node", node) or {"spec": {}})["spec"].get("unschedulable"))


def looks(node):
    """What a policy could change of a node."""
    node = bed.get("node", node)
    taints = [t for t in node["spec"].get("taints", []) if not t["key"].startswith("node.kubernetes.io/")]
    return json.dumps([node["spec"].get("unschedulable"), taints, node["metadata"].get("labels"),
                       {k: v for k, v in node["metadata"].get("annotations", {}).items() if k.startswith("paceline.dev/")}], sort_keys=True)


# --- probes

# On two cores that everybody shares a figure may be half of what it was.
PROBE = {"enabled": True, "checks": ["Cpu", "Memory"], "putBackAfterPass": True, "minimumNodes": 2, "tolerance": 0.5, "period": "5s"}


def probe_of(node):
    return (bed.get("nodeplan", node) or {}).get("status", {}).get("probe", {})


def figures_of(node):
    return {figure["name"]: figure["value"] for figure in probe_of(node).get("figures", [])}


def know_fleet(context, real_nodes):
    """Waits until all real nodes were probed while idle. Gives the nodes that it has made."""
    for node in real_nodes:
        bed.wait_for(f"the probe of idle {node}", lambda node=node: figures_of(node), 60)
    print("        idle: " + "; ".join(f"{node} {figures_of(node)['cpuOneThread']:.0f} Mop/s" for node in real_nodes), flush=True)
    played = [f"{context.ns}-fleet-{number}" for number in range(4 - len(real_nodes))]
    if not played:
        return []
    objects = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}} for node in played]
    bed.apply({"apiVersion": "v1", "kind": "List", "items": objects})
    for number, node in enumerate(played):
        bed.wait_for(f"the plan of {node}", lambda node=node: bed.get("nodeplan", node))
        probe = probe_of(real_nodes[0])
        for figure in probe["figures"]:
            figure["value"] *= 1 + 0.02 * number
        bed.patch_status("nodeplan", node, None, {"probe": probe})
    return played


def acted_of(policy):
    return (status_of(policy).get("actedNodes") or [{}])[0]


# --- with real trainers


def training_job(context, name, workers, policy_name, *worker_arguments):
    spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
               "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"paceline.dev/job": name}}}]
    # The machine's programs and libraries in place of the image's: the worker is a fresh build.
    folders = {"usr": ("/usr", "/usr"), "lib": ("/usr/lib", "/lib"), "lib64": ("/usr/lib64", "/lib64"), "worker": (WORKER_FOLDER, "/paceline")}
    container = {"name": "main", "image": bed.BUSYBOX, "command": ["/usr/bin/python3", "-u", "-c", WORKER, *worker_arguments],
                 "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                 "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                 "volumeMounts": [{"name": key, "mountPath": path, "readOnly": True} for key, (_, path) in folders.items()]}
    return bed.create({
        "apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": context.ns},
        "spec": {"workers": workers, "tracing": {"enabled": True}, "stragglerPolicy": policy_name,
                 "template": {"metadata": {"labels": {"paceline.dev/job": name}},
                              "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], "topologySpreadConstraints": spread,
                                       "volumes": [{"name": key, "hostPath": {"path": path}} for key, (path, _) in folders.items()]}}}})


def steps_of(context, run):
    """Length of a step in each window that the agent of n1 has told: start in seconds -> seconds."""
    text = nodes.in_node("n1", "curl", "-s", f"http://127.0.0.1:{nodes.AGENT_PORT}/v1/traces/{context.ns}/{run}/pace")
    windows = json.loads(text)["ranks"][0]["windows"]
    return {start: (own + inside) / operations / 1e9 for start, operations, own, inside, _ in windows}


def middle(values):
    return sorted(values)[len(values) // 2]


class RealRun:
    """Agents on all nodes, an operator, and a traced job that runs. To be closed."""

    def __init__(self, context, name, *worker_arguments):
        self.context, self.policy = context, f"{name}-{context.ns}"
        self.nodes = [node["metadata"]["name"] for node in json.loads(bed.kubectl("get", "nodes", "-o", "json"))["items"]]
        self.workers = 4 if len(self.nodes) == 2 else len(self.nodes)
        self.agents = nodes.agents(where=self.nodes)
        self.name, self.worker_arguments, self.before, self.run = name, worker_arguments, {}, ""
        self.operator, self.played = None, []

    def start(self, **policy):
        for agent in self.agents:
            agent.start()
        for node in self.nodes:
            bed.wait_for(f"the agent of {node} is ready", lambda node=node: nodes.is_ready(node))
        self.before = {node: looks(node) for node in self.nodes}
        self.operator = self.context.start_hooked()
        # One node of two is half of them: breaker and budget are not what this is about.
        bed.apply(policy_object(self.policy, {"kubernetes.io/os": "linux"}, action="Observe", budget={"maxActions": 9}, **policy))
        if "probe" in policy:
            self.played = know_fleet(self.context, self.nodes)
        uid = training_job(self.context, self.name, self.workers, self.policy, *self.worker_arguments)["metadata"]["uid"]
        self.run = self.context.wait_run(uid, "Running", timeout=120)["metadata"]["name"]

    def status(self):
        return bed.get("trainingrun", self.run, self.context.ns)["status"]

    def slowdown(self, at_least, timeout):
        return bed.wait_for(f"a slowdown of {at_least:.3f}", lambda: (lambda s: s if s.get("slowdown", 0) >= at_least else None)(self.status()), timeout)

    def incident(self):
        """The one about the slow node, with its verdict."""
        def find():
            # Processes that end with a restart may have one of their own.
            return next((i for i in bed.items("incidents", self.context.ns) if i.get("status", {}).get("verdict")
                         and i["metadata"].get("annotations", {}).get("paceline.dev/straggler-policy") == self.policy), None)
        incident = bed.wait_for("an incident about the slow node", find, 120)
        verdict = incident["status"]["verdict"]
        bed.expect(verdict["nodes"] == [SLOW_NODE], json.dumps(incident["status"]))
        bed.expect(len(verdict["pods"]) == self.workers // len(self.nodes), json.dumps(incident["status"]))
        return incident

    def others_are_untouched(self):
        for node in self.nodes:
            bed.expect(node == SLOW_NODE or looks(node) == self.before[node], f"{node} was touched: {looks(node)}")

    def measured(self):
        """Length of the latest steps over that of the first ones."""
        steps = steps_of(self.context, self.run)
        starts = sorted(steps)
        return middle([steps[s] for s in starts[-3:]]) / middle([steps[s] for s in starts[:3]])

    def begins_anew_elsewhere(self):
        """Its next start runs without the slow node, and is no failure."""
        def find():
            return next((run for run in bed.items("trainingruns", self.context.ns)
                         if run["spec"]["generation"] == 1 and run.get("status", {}).get("phase") == "Running"), None)
        run = bed.wait_for("the next start runs", find, 90)
        bed.expect(run["status"]["nodes"] == [node for node in self.nodes if node != SLOW_NODE], json.dumps(run["status"]))
        job = bed.get("trainingjob", self.name, self.context.ns)["status"]
        bed.expect(job["generation"] == 1 and job.get("restarts", 0) == 0, json.dumps(job))
        asked = [a for i in bed.items("incidents", self.context.ns) for a in i["status"].get("actions", []) if a["action"] == "RestartJob"]
        bed.expect(len(asked) == 1 and asked[0]["node"] == SLOW_NODE, json.dumps(asked))
        bed.wait_for("the job is told", lambda: SLOW_NODE in self.context.event_notes(self.name, "RestartRequested"), 30)

    def comes_back(self, timeout):
        """Because its probe passes."""
        bed.wait_for(f"{SLOW_NODE} is back", lambda: not is_out(SLOW_NODE), timeout)
        bed.expect(looks(SLOW_NODE) == self.before[SLOW_NODE], f"something is left: {looks(SLOW_NODE)}")
        bed.wait_for("the incident says so", lambda: any(
            a["action"] == "Release" and a["result"].startswith("ProbePassed") for a in self.incident()["status"]["actions"]))
        actions = [a["result"] for a in self.incident()["status"]["actions"] if a["action"] == "Probe"]
        bed.expect(actions[-1].startswith("Passed: "), json.dumps(actions))
        print(f"        {actions[-1]}", flush=True)
        status = status_of(self.policy)
        bed.expect(not status.get("vetoes") and status["putBackByProbe"][0]["node"] == SLOW_NODE, json.dumps(status))
        self.others_are_untouched()

    def tail(self):
        return "\n".join(agent.tail() for agent in self.agents)

    def close(self):
        bed.kubectl("delete", "stragglerpolicy", self.policy, "--ignore-not-found", "--timeout=30s", ok=False)
        bed.kubectl("delete", "trainingjobs", "--all", "-n", self.context.ns, "--wait=false", ok=False)
        bed.wait_for("the pods are gone", lambda: not bed.items("pods", self.context.ns), 60)
        if self.played:
            bed.kubectl("delete", "node", *self.played, "--ignore-not-found", "--wait=false", ok=False)
        for agent in self.agents:
            agent.end("TERM")


def with_real_run(context, name, worker_arguments, check, **policy):
    real = RealRun(context, name, *worker_arguments)
    try:
        real.start(**policy)
        check(real)
    except bed.Failure as error:
        raise bed.Failure(f"{error}\n{real.tail()}") from error
    finally:
        real.close()


def compare(real, incident):
    """S as it is told against what the slow node costs by the clock."""
    # S is a median over windows: it is still on its way when the node has been found.
    slow = real.slowdown(real.measured() * 0.97, 60)
    measured = real.measured()
    print(f"        slow: S {slow['slowdown']:.3f} +- {slow['slowdownError']:.3f}, measured {measured:.3f}; "
          f"node: {incident['status']['evidence'][0]['value']:.3f}", flush=True)
    bed.expect(abs(slow["slowdown"] / measured - 1) < 0.05, f"S {slow['slowdown']} is not the measured {measured}")


def slow_node(context):
    def check(real):
        healthy = real.slowdown(0.5, 90)
        print(f"        healthy: S {healthy['slowdown']:.3f} +- {healthy['slowdownError']:.3f}", flush=True)
        incident = real.incident()
        bed.expect(looks(SLOW_NODE) == real.before[SLOW_NODE], "to observe has touched the node")
        compare(real, incident)
        change("stragglerpolicy", real.policy, {"spec": {"action": "Cordon"}})
        bed.wait_for(f"{SLOW_NODE} is cordoned", lambda: is_out(SLOW_NODE), 30)
        bed.wait_for("the incident says so", lambda: any(a["action"] == "Cordon" for a in real.incident()["status"]["actions"]))
        real.others_are_untouched()
        change("stragglerpolicy", real.policy, {"spec": {"restartJob": True}})
        real.begins_anew_elsewhere()
        real.others_are_untouched()
        change("stragglerpolicy", real.policy, {"spec": {"coolDown": "1s"}})
        real.comes_back(60)
        bed.kubectl("delete", "stragglerpolicy", real.policy, "--timeout=30s")

    step = f"compute:{WORK_MS * 1000};allreduce:dp:20000;sync"
    with_real_run(context, "slow", (step, f"extra-compute-us={EXTRA_MS * 1000}", f"extra-compute-from={SLOW_FROM}"), check, probe=PROBE)


def throttled_node(context):
    def check(real):
        healthy = real.slowdown(0.5, 120)
        print(f"        healthy: S {healthy['slowdown']:.3f} +- {healthy['slowdownError']:.3f}", flush=True)
        bed.run(nodes.TESTBED, "node", "cpu-limit", SLOW_NODE, LIMIT_PERCENT)
        try:
            incident = real.incident()
            # What it costs is not compared: a node without a processor is slow inside of operations, too.
            print(f"        throttled: {incident['status']['evidence'][0]['value']:.3f}, measured {real.measured():.3f}", flush=True)
            change("stragglerpolicy", real.policy, {"spec": {"action": "Taint"}})
            bed.wait_for(f"{SLOW_NODE} is tainted", lambda: MARK in looks(SLOW_NODE), 60)
            bed.expect(not is_out(SLOW_NODE), "Taint has cordoned")
            real.others_are_untouched()
        finally:
            bed.run(nodes.TESTBED, "node", "cpu-limit", SLOW_NODE, "off")
        bed.kubectl("delete", "stragglerpolicy", real.policy, "--timeout=30s")
        bed.expect(looks(SLOW_NODE) == real.before[SLOW_NODE], f"not put back with the policy: {looks(SLOW_NODE)}")

    with_real_run(context, "throttled", (f"burn:{BURN_MS * 1000};compute:{WORK_MS * 1000};allreduce:dp:20000;sync",), check)


def throttled_and_probed(context):
    def check(real):
        real.slowdown(0.5, 120)
        bed.run(nodes.TESTBED, "node", "cpu-limit", SLOW_NODE, LIMIT_PERCENT)
        try:
            real.incident()
            change("stragglerpolicy", real.policy, {"spec": {"action": "Cordon", "coolDown": "1s"}})
            bed.wait_for(f"{SLOW_NODE} is cordoned", lambda: is_out(SLOW_NODE), 60)
            bed.wait_for("a probe waits for the pods to leave", lambda: acted_of(real.policy).get("probe") == "Pending", 30)
            bed.expect("probeRound" not in acted_of(real.policy), f"asked for while the job runs there: {acted_of(real.policy)}")
            change("trainingjob", real.name, {"spec": {"suspend": True}}, context.ns)
            bed.wait_for("the probe fails", lambda: acted_of(real.policy).get("probe") == "Failed", 120)
            incident = bed.wait_for("the incident has the numbers", lambda: (lambda i: i if any(
                a["action"] == "Probe" for a in i["status"].get("actions", [])) else None)(real.incident()), 30)
            print("        " + next(a["result"] for a in incident["status"]["actions"] if a["action"] == "Probe"), flush=True)
            cpu = next(e for e in incident["status"]["evidence"] if e["name"] == "probe.cpuOneThread")
            bed.expect(cpu["value"] < 0.5 * cpu["usual"] and cpu["unit"] == "Mop/s", json.dumps(cpu))
            bed.wait_for("the node is told", lambda: "cpuOneThread" in node_events("ProbeFailed"), 30)
            # Whoever is killed goes on after its return, and the node stays out for as long as it is slow.
            agent = next(agent for agent in real.agents if agent.node == SLOW_NODE)
            agent.end("KILL")
            real.operator.kill()
            agent.start()
            context.start_leading("b", *FAST_LEASE)
            round_before = acted_of(real.policy)["probeRound"]
            bed.wait_for("two more probes", lambda: acted_of(real.policy)["probeRound"] >= round_before + 2, 120)
            bed.expect(is_out(SLOW_NODE) and acted_of(real.policy)["probe"] == "Failed", json.dumps(status_of(real.policy)))
            bed.expect(sum(a["action"] == "Probe" for a in real.incident()["status"]["actions"]) == 1, "the same was noted twice")
        finally:
            bed.run(nodes.TESTBED, "node", "cpu-limit", SLOW_NODE, "off")
        real.comes_back(90)
        probe_by_hand()

    with_real_run(context, "probed", (f"burn:{BURN_MS * 1000};compute:{WORK_MS * 1000};allreduce:dp:20000;sync",), check, probe=PROBE)


def probe_by_hand():
    """Everything, with the other nodes idle, so that the network is measured as well."""
    asked = bed.run(os.path.join(nodes.PROGRAMS, "pacectl"), "node", "probe", SLOW_NODE, "-o", "json", "--timeout", "60", timeout=90)
    found = json.loads(asked)
    figures = {f["name"].replace("Cached", ""): f["value"] for f in found["probe"]["figures"]}
    wanted = {"cpuOneThread", "cpuAllThreads", "memoryTriad", "diskSequentialRead", "diskRandomRead", "networkThroughput", "networkRoundTrip"}
    bed.expect(found["node"] == SLOW_NODE and set(figures) >= wanted and all(value > 0 for value in figures.values()), asked)
    print("        by hand: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()), flush=True)


def node_events(reason):
    events = json.loads(bed.kubectl("get", "events", "-A", "-o", "json", "--field-selector", f"reason={reason}"))["items"]
    return " ".join(event.get("message") or event.get("note") or "" for event in events)


# --- with nodes and agents that are played


class Agents:
    """Agents of nodes that are objects only. `slow`: nodes whose ranks are late; `modes`: how else a node's agent behaves."""

    def __init__(self):
        self.slow, self.modes, self.ranks, self.servers = set(), {}, {}, []

    def start(self, node, ranks):
        agents = self
        self.ranks[node] = ranks

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = agents.answer(node)
                self.send_response(200 if body else 503)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.servers.append(server)
        return f"127.0.0.1:{server.server_address[1]}"

    def answer(self, node):
        mode = self.modes.get(node, "")
        if mode == "silent":
            return ""
        now = int(time.time()) // 5 * 5 - (600 if mode == "old" else 0)
        own = 4_000_000_000 if node in self.slow else 3_000_000_000
        windows = [[start, 50, own, 5_000_000_000 - own, 0] for start in range(now - 300, now, 5)]
        if mode == "nan":
            windows = [[start, 50, float("nan"), None, 0] for start, *_ in windows]
        return json.dumps({"version": 1, "windowSeconds": 5, "ranks": [
            {"rank": rank, "comms": [{"id": "7", "collectives": True}], "windows": windows} for rank in self.ranks[node]]})

    def stop(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()


class Pool:
    """A policy, its nodes, and one run on them of a job that names it."""

    def __init__(self, context, agents, name, size=3, slow=(0,), labels=None, **spec):
        self.context, self.agents, self.name = context, agents, name
        self.policy = f"{context.ns}-{name}"
        self.nodes = [f"{context.ns}-{name}-{number}" for number in range(size)]
        self.agents.slow.update(self.nodes[number] for number in slow)
        objects = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {
            "pool": self.policy, **((labels or {}) if number == 0 else {})}}} for number, node in enumerate(self.nodes)]
        objects.append(policy_object(self.policy, {"pool": self.policy}, **spec))
        objects.append({"apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": context.ns},
                        "spec": {"workers": size, "suspend": True, "stragglerPolicy": self.policy, "template": {"spec": {
                            "containers": [{"name": "main", "image": bed.BUSYBOX}]}}}})
        made = json.loads(bed.apply({"apiVersion": "v1", "kind": "List", "items": objects}, output="json"))["items"]
        job = next(obj for obj in made if obj["kind"] == "TrainingJob")
        self.run = f"{name}-run"
        bed.apply({"apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": self.run, "namespace": context.ns},
                   "spec": {"job": {"apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob", "name": name, "uid": job["metadata"]["uid"]},
                            "generation": 0}})
        bed.patch_status("trainingrun", self.run, context.ns, {"phase": "Running", "nodes": self.nodes})

    def connect(self):
        """Tells the operator of the agents: their plans are its own, and are there."""
        for number, node in enumerate(self.nodes):
            address = self.agents.start(node, [2 * number, 2 * number + 1])
            bed.patch_status("nodeplan", node, None, {"agentAddress": address, "traces": [
                {"namespace": self.context.ns, "run": self.run, "processes": 2}]})

    def incidents(self):
        return bed.items("incidents", self.context.ns, f"paceline.dev/run={self.run}")

    def incident(self):
        return max(self.incidents(), key=lambda i: i["metadata"]["creationTimestamp"], default=None)

    def refused(self, reason):
        """Waits for an incident to say so."""
        def find():
            actions = [a for i in self.incidents() for a in i.get("status", {}).get("actions", [])]
            return next((a for a in actions if a["action"] == "Refused" and a["result"].startswith(reason + ":")), None)
        bed.wait_for(f"{self.name} is refused for {reason}", find, 40)

    def is_condition(self, kind):
        return bed.condition({"status": status_of(self.policy)}, kind).get("status") == "True"

    def run_status(self):
        return bed.get("trainingrun", self.run, self.context.ns)["status"]

    def remove(self):
        bed.kubectl("delete", "stragglerpolicy", self.policy, "--ignore-not-found", "--wait=false", ok=False)
        change("stragglerpolicy", self.policy, {"metadata": {"finalizers": None}}) if bed.get("stragglerpolicy", self.policy) else None
        bed.kubectl("delete", "node", *self.nodes, "--ignore-not-found", "--wait=false", ok=False)


def forbid_cordon(context, node):
    """The API server refuses it from now on: so the operator can be killed after its verdict and before the cordon."""
    name = f"{context.ns}-no-cordon"
    bed.apply({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"],
                                                "resourceNames": [node]}]},
        "validations": [{"expression": "!object.spec.?unschedulable.orValue(false)", "message": "not now"}]}})
    bed.apply({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
               "spec": {"policyName": name, "validationActions": ["Deny"]}})
    # Not "kubectl cordon", whose exit code does not tell.
    cordon = ("patch", "node", node, "--type=merge", "-p", '{"spec": {"unschedulable": true}}', "--dry-run=server")
    bed.wait_for("cordons are refused", lambda: bed.kubectl(*cordon, ok=False)[0] != 0)


def allow_cordon(context):
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        bed.kubectl("delete", kind, f"{context.ns}-no-cordon", "--ignore-not-found", ok=False)


def safeguards(context):
    agents = Agents()
    pools = []

    def pool(name, **arguments):
        pools.append(Pool(context, agents, name, **arguments))
        return pools[-1]

    cordon = {"action": "Cordon"}
    try:
        share = {"maxNodes": "20%"}
        third = pool("third", budget=share, **cordon)                      # 20 % of three nodes is one
        spent = pool("spent", budget=share, **cordon)                      # and somebody else has taken it
        foreign = pool("foreign", **cordon)                                # the slow node itself is cordoned already
        breaker = pool("breaker", size=6, slow=(0, 1), budget={"breakerNodes": "1", "maxNodes": "5"}, **cordon)
        half = pool("half", size=4, **cordon)                              # half of the ranks are silent
        gone = pool("gone", **cordon)                                      # nothing new for ten minutes
        nan = pool("nan", **cordon)
        dry = pool("dry")                                                  # a policy as it comes
        taint = pool("taint", action="Taint", recoveryPeriod="5s")
        paused = pool("paused", pauseRequests=["the fabric is being rebuilt"], **cordon)
        rate = pool("rate", size=6, slow=(0, 1), budget={"breakerNodes": "5", "maxNodes": "5", "maxActions": 1}, **cordon)
        labelled = pool("labelled", labels={"hands-off": "yes"}, excludeNodes={"hands-off": "yes"}, **cordon)
        spared = pool("spared", **cordon)                                  # by a person, on the node
        sentinel = pool("sentinel", labels={"dgxc.nvidia.com/nvsentinel-state": "quarantined"}, **cordon)
        asked = pool("asked", approval="Manual", **cordon)
        veto = pool("veto", **cordon)
        killed = pool("killed", **cordon)                                  # the operator is, between verdict and cordon
        forbid_cordon(context, killed.nodes[0])
        bed.kubectl("cordon", spent.nodes[1], foreign.nodes[0])
        bed.kubectl("annotate", "node", spared.nodes[0], "paceline.dev/straggler-exclude=under test")
        agents.modes.update({half.nodes[2]: "silent", half.nodes[3]: "silent", **{n: "old" for n in gone.nodes}, **{n: "nan" for n in nan.nodes}})
        untouched = {node: looks(node) for p in pools for node in p.nodes}
        operator = context.start_leading("a", *FAST_LEASE)
        wanted = {node for p in pools for node in p.nodes}
        bed.wait_for("the plans of all nodes", lambda: wanted <= {
            plan["metadata"]["name"] for plan in json.loads(bed.kubectl("get", "nodeplans", "-o", "json"))["items"]}, 60)
        for p in pools:
            p.connect()
        bed.wait_for("20 % of three nodes is one node", lambda: is_out(third.nodes[0]), 40)
        bed.wait_for("the intent to cordon", lambda: status_of(killed.policy).get("actedNodes"), 40)
        bed.expect(looks(killed.nodes[0]) == untouched[killed.nodes[0]], "the node was changed, which is forbidden")
        operator.kill()
        allow_cordon(context)
        context.start_leading("b", *FAST_LEASE)
        bed.wait_for("what was intended is done", lambda: is_out(killed.nodes[0]), 40)
        bed.wait_for("the node is tainted", lambda: MARK in looks(taint.nodes[0]), 40)
        bed.expect(not is_out(taint.nodes[0]), "Taint has cordoned")
        agents.slow.difference_update(taint.nodes)
        for p, reason in ((spent, "Budget"), (foreign, "AlreadyCordoned"), (dry, "ObserveOnly"), (paused, "Paused"),
                          (sentinel, "OtherWriter"), (asked, "WaitingForApproval"), (breaker, "BreakerTripped"),
                          (labelled, "Excluded"), (spared, "Excluded"), (rate, "Rate")):
            p.refused(reason)
        bed.expect(sum(is_out(node) for node in rate.nodes) == 1, "one action was allowed")
        for p in (half, gone, nan):
            bed.expect("slowdown" not in p.run_status(), json.dumps(p.run_status()))
            bed.expect(p.incident() is None, f"{p.name}: {json.dumps(p.incident())}")
        for p in (spent, foreign, breaker, half, gone, nan, dry, paused, sentinel, asked, labelled, spared):
            for node in p.nodes:
                bed.expect(looks(node) == untouched[node], f"{p.name} has touched {node}: {looks(node)}")
        bed.expect(breaker.is_condition("BreakerTripped") and paused.is_condition("Paused"), "a condition is missing")
        go_on(agents, breaker, asked, veto, taint, paused)
        for p in (third, killed):
            acted = status_of(p.policy)
            bed.expect(len(acted["actedNodes"]) == 1 and len(acted["recentActions"]) == 1, f"{p.name}: {json.dumps(acted)}")
            bed.expect(acted["actedNodes"][0].get("applied"), f"{p.name}: {json.dumps(acted)}")
        bed.expect(looks(foreign.nodes[0]) == untouched[foreign.nodes[0]], "a foreign cordon was touched")
    finally:
        allow_cordon(context)
        for p in pools:
            p.remove()
        agents.stop()


def go_on(agents, breaker, asked, veto, taint, paused):
    """What happens when people and nodes answer."""
    # The reset does not act on what was found before; both nodes are well by now.
    agents.slow.difference_update(breaker.nodes)
    change("stragglerpolicy", breaker.policy, {"metadata": {"annotations": {"paceline.dev/reset-breaker": "true"}}})
    change("incident", asked.incident()["metadata"]["name"], {"metadata": {"annotations": {"paceline.dev/approve": "true"}}}, asked.context.ns)
    change("stragglerpolicy", paused.policy, {"spec": {"pauseRequests": []}})
    bed.wait_for("the approved node is cordoned", lambda: is_out(asked.nodes[0]), 40)
    bed.wait_for("the pause is over", lambda: is_out(paused.nodes[0]), 40)
    bed.wait_for("it was seen cordoned", lambda: status_of(veto.policy)["actedNodes"][0]["applied"], 40)
    bed.kubectl("uncordon", veto.nodes[0])
    bed.wait_for("a veto", lambda: status_of(veto.policy).get("vetoes"), 40)
    veto.refused("Vetoed")
    bed.expect(not is_out(veto.nodes[0]) and MARK not in looks(veto.nodes[0]), looks(veto.nodes[0]))
    bed.wait_for("the node that is well again has no taint", lambda: MARK not in looks(taint.nodes[0]), 90)
    bed.expect(not status_of(taint.policy).get("vetoes"), "what the policy has put back is taken for a person's wish")
    # Slow again at once: what was done to it a moment ago is remembered.
    agents.slow.add(taint.nodes[0])
    taint.refused("CoolDown")
    bed.expect(MARK not in looks(taint.nodes[0]), looks(taint.nodes[0]))
    bed.wait_for("the breaker is reset", lambda: not breaker.is_condition("BreakerTripped"), 40)
    bed.expect("reset-breaker" not in json.dumps(bed.get("stragglerpolicy", breaker.policy)["metadata"].get("annotations", {})), "the reset stays")
    bed.expect(not any(is_out(node) for node in breaker.nodes), "the reset has replayed what was found before")


CHECKS = {"a_slow_node_is_found_and_cordoned": slow_node, "a_throttled_node_is_found": throttled_node,
          "a_probe_keeps_a_throttled_node_out": throttled_and_probed, "safeguards": safeguards}
USUAL = ("a_slow_node_is_found_and_cordoned",)  # what scripts/test has time for

if __name__ == "__main__":
    sys.exit(nodes.run_checks([(name, CHECKS[name]) for name in sys.argv[1:] or USUAL], "straggler", ("KUBECONFIG",), "scripts/testbed up --nodes 2"))
