#!/usr/bin/env python3
"""What people look at, on a real run: boards, alerts, job page. scripts/testbed up kubernetes hdfs prometheus --nodes 2
--lazy-snapshotter build/test/bin/paceline-snapshotter.

  eval "$(scripts/testbed env)"; tests/integration/boards_test.py

Agents, holders and two operators run as processes, on the nodes n1 and n2 and here; Prometheus scrapes them and evaluates the
rules as the chart renders them. A traced TrainingJob of four workers with a GPU each (nodes are told to have some) installs
dependencies, loads and saves through a checkpoint volume and does collectives. A rank is killed, so that the gang starts again
on the same nodes; then the workers on n2 take longer for each step, a StragglerPolicy cordons the node; a pod starts lazily from
a converted image. Each stage has to be in the run, every query of every board has to give data, the alert about the slow node
has to arrive at the Alertmanager, and the job page of both operators has to say which ranks are slow. Ends with "N passed, N
failed, N skipped". Without KUBECONFIG, HDFS_URI or PROMETHEUS_URL, and on nodes without the snapshotter, all is skipped.

PACELINE_PICTURES=FOLDER has it leave pictures of the boards and of the job page there (needs Chromium).
"""
import json
import os
import re
import shutil
import ssl
import sys
import time
import urllib.parse
import urllib.request

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402
import deps_test  # noqa: E402
import lazy_images_test  # noqa: E402
import straggler_test  # noqa: E402
import trace_test  # noqa: E402
from nodes import AGENT_PORT, NODES, PROGRAMS, NodeProcess  # noqa: E402

sys.path[:0] = [os.path.join(bed.ROOT, "tests", "boards"), os.path.join(bed.ROOT, "tests", "chart")]
import boards  # noqa: E402
import render  # noqa: E402

RANKS = trace_test.RANKS
RULES_FILE = "paceline.yaml"
RUNBOOKS = "https://example.test/runbooks"
STAGES = ["Queued", "Scheduling", "Image", "ContainerStart", "Dependencies", "Checkpoint", "CommunicatorReady", "FirstStep"]
POLICY = "boards"
PICTURES = os.environ.get("PACELINE_PICTURES")

# Loads what an earlier start saved, saves, and goes on as a rank of the collectives harness.
TRAIN = """
import os
rank, folder = os.environ["RANK"], "/checkpoints"
saved = f"{folder}/rank-{rank}"
if os.path.exists(saved):
    with open(saved, "rb") as file:
        while file.read(1 << 20):
            pass
with open(saved + ".tmp", "wb") as file:
    for _ in range(8):
        file.write(os.urandom(1 << 20))
    os.fsync(file.fileno())
os.rename(saved + ".tmp", saved)
""" + straggler_test.WORKER
STEP = f"compute:{straggler_test.WORK_MS * 1000};allreduce:dp:20000;sync"
SLOW = (f"extra-compute-us={straggler_test.EXTRA_MS * 1000}", f"extra-compute-from={straggler_test.SLOW_FROM}")


def job(context, name):
    body = trace_test.manifest(context, name, TRAIN)
    spec = body["spec"]
    spec["restartPolicy"] = {"mode": "OnFailure", "maxRestarts": 2}
    spec["stragglerPolicy"] = POLICY
    spec["startup"] = {"dependencies": {"install": "mkdir -p /opt/deps && echo 1 > /opt/deps/version && sleep 1", "capture": ["/opt/deps"]}}
    spec["checkpoints"] = [{"name": "model", "uri": f"{os.environ['HDFS_URI']}/{context.ns}", "mountPath": "/checkpoints",
                            "createDirectory": True}]
    container = spec["template"]["spec"]["containers"][0]
    container["command"] += [STEP, *SLOW]
    container["env"] = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    container["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    return bed.create(body)


def give_gpus(node, count):
    value = {"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(count)}
    bed.kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps([value]))
    bed.wait_for(f"{node} offers GPUs", lambda: bed.get("node", node)["status"]["allocatable"].get("nvidia.com/gpu") == str(count))


# --- Prometheus


def ask(path, **parameters):
    url = f"{os.environ['PROMETHEUS_URL']}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise bed.Failure(f"{parameters}: {error.read().decode()[:500]}") from error


def has_data(expression):
    return any(sample["value"][1] != "NaN" for sample in ask("query", query=expression)["result"])


def reload_prometheus():
    urllib.request.urlopen(urllib.request.Request(f"{os.environ['PROMETHEUS_URL']}/-/reload", method="POST"), timeout=30).close()


def let_prometheus_scrape(port):
    """Operator, agents and snapshotters, with the rules of the chart's PrometheusRule."""
    targets = [{"targets": [f"{os.environ['PACELINE_TESTBED_MACHINE_IP']}:{port}"], "labels": {"job": "paceline-operator"}}]
    for node in NODES:
        address = nodes.address_of(node)
        targets.append({"targets": [f"{address}:{AGENT_PORT}"], "labels": {"job": "paceline-agent", "node": node}})
        targets.append({"targets": [f"{address}:9465"], "labels": {"job": "paceline-snapshotter", "node": node}})
    with open(os.path.join(os.environ["PROMETHEUS_TARGETS"], "boards.yaml"), "w", encoding="utf-8") as file:
        yaml.safe_dump(targets, file)
    chart = render.Rendered(settings=("monitoring.prometheusRule.enabled=true", f"monitoring.prometheusRule.runbookBaseUrl={RUNBOOKS}"))
    with open(os.path.join(os.environ["PROMETHEUS_RULES"], RULES_FILE), "w", encoding="utf-8") as file:
        yaml.safe_dump(chart.one("PrometheusRule")["spec"], file)
    reload_prometheus()
    def all_up():
        seen = [t for t in ask("targets", state="active")["activeTargets"] if t["labels"]["job"].startswith("paceline-")]
        down = [(t["scrapeUrl"], t["lastError"]) for t in seen if t["health"] != "up"]
        bed.expect(len(seen) == len(targets) and not down, f"{len(seen)} targets, not up: {down}")
        return True
    bed.wait_for("Prometheus scrapes operator, agents and snapshotters", all_up)
    for target in targets:
        url = f"http://{target['targets'][0]}/metrics"
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": "application/openmetrics-text;version=1.0.0"}), timeout=30) as answer:
            bed.expect(answer.headers["Content-Type"].startswith("application/openmetrics-text"), f"{url}: {answer.headers['Content-Type']}")
            bed.expect(answer.read().endswith(b"\n# EOF\n"), f"{url} has no end")


def stop_scraping():
    for path in (os.path.join(os.environ["PROMETHEUS_TARGETS"], "boards.yaml"), os.path.join(os.environ["PROMETHEUS_RULES"], RULES_FILE)):
        if os.path.exists(path):
            os.unlink(path)
    reload_prometheus()


def check_panels(values):
    """Each query, until all have data or a minute and a half has gone."""
    waiting = {(board_name, panel, expression) for board_name, board in boards.load().items() for panel, expression in boards.queries(board, values)}
    count, end = len(waiting), time.monotonic() + 90
    while waiting and time.monotonic() < end:
        waiting = {query for query in waiting if not has_data(query[2])}
        time.sleep(2 if waiting else 0)
    print(f"        {count - len(waiting)} of {count} queries have data", flush=True)
    bed.expect(not waiting, "no data:\n" + "\n".join(f"  {board_name} / {panel}: {expression}" for board_name, panel, expression in sorted(waiting)))
    for board_name, board in boards.load().items():
        for variable, selector, label in boards.variable_queries(board):
            for other, value in values.items():
                selector = selector.replace(f"${other}", value)
            bed.expect(ask(f"label/{label}/values", **{"match[]": selector}), f"{board_name}: the variable {variable} has no values")


def check_rules():
    groups = ask("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    bad = [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] == "err"]
    bed.expect(rules and not bad, f"rules fail: {bad}")


def check_alert(context, run):
    """The chart's alert about the slow node fires in Prometheus and is told to the Alertmanager, with what a person needs."""
    def find():
        answer = bed.run("amtool", f"--alertmanager.url={os.environ['ALERTMANAGER_URL']}", "alert", "query", "-o", "json",
                         "alertname=PacelineIncidentOpen", f"namespace={context.ns}", "category=Compute")
        return next(iter(json.loads(answer)), None)
    alert = bed.wait_for("the alert arrives at the Alertmanager", find, 150)
    labels, said = alert["labels"], alert["annotations"]
    bed.expect(labels["severity"] == "critical" and labels["job"] == "train" and labels["run"] == run, json.dumps(labels))
    bed.expect(f"{context.ns}/train" in said["summary"] and said["runbook_url"] == f"{RUNBOOKS}/PacelineIncidentOpen.md", json.dumps(said))
    bed.expect(os.path.exists(os.path.join(bed.ROOT, "docs", "runbooks", os.path.basename(said["runbook_url"]))), said["runbook_url"])
    print(f"        at the Alertmanager: {said['summary']}", flush=True)


# --- the run


def expect_stages(context, run, names):
    """What the agents know of a start comes a moment after it has begun to run."""
    def find():
        stages = bed.get("trainingrun", run["metadata"]["name"], context.ns)["status"]["stages"]
        is_whole = [stage["name"] for stage in stages] == names and all(stage["workers"] == RANKS for stage in stages)
        if not is_whole:
            raise bed.Failure(json.dumps(stages))
        return stages
    stages = bed.wait_for(f"the run has the stages {names} of all workers", find, 60)
    bed.expect(all(stage["minSeconds"] <= stage["p50Seconds"] <= stage["maxSeconds"] and stage["slowestNode"] for stage in stages),
               json.dumps(stages))


def two_starts(context):
    """A full start, which has no checkpoint to load, and after the death of a rank a hot restart with every stage. Gives the name
    of the second run."""
    uid = job(context, "train")["metadata"]["uid"]
    first = context.wait_run(uid, "Running", timeout=150)
    expect_stages(context, first, [name for name in STAGES if name != "Checkpoint"])
    bed.expect(first["status"]["startup"]["kind"] == "Full", json.dumps(first["status"]["startup"]))
    time.sleep(12)  # as long as counters need to be seen twice, and rates to be rates
    trace_test.signal(trace_test.pod_of(context, "train", 1), 1, "KILL")
    run = context.wait_run(uid, "Running", generation=1, timeout=150)
    expect_stages(context, run, STAGES)
    cost = run["status"]["startup"]
    bed.expect(cost["kind"] == "HotRestart" and cost["gpus"] == RANKS and cost["gpuSeconds"] > 0, json.dumps(cost))
    print(f"        startup: {first['status']['wallSeconds']:.1f} s in full, {run['status']['wallSeconds']:.1f} s again", flush=True)
    return run["metadata"]["name"]


def lazy_start(context):
    lazy_images_test.start_pod(context, "lazy", NODES[0], bed.PYTHON, ["python3", "-u", "-c", lazy_images_test.START])
    lazy_images_test.expect_late_import(context, "lazy")


def slow_node(context, run):
    """Until the policy has found and cordoned the node whose workers are slow. Gives the ranks on it."""
    def found():
        return next((i for i in bed.items("incidents", context.ns) if i.get("status", {}).get("verdict", {}).get("category") == "Compute"
                     and i["spec"]["run"] == run), None)
    incident = bed.wait_for("an incident about the slow node", found, 180)
    bed.expect(incident["status"]["verdict"]["nodes"] == [straggler_test.SLOW_NODE], json.dumps(incident["status"]))
    bed.wait_for("the node is cordoned", lambda: straggler_test.is_out(straggler_test.SLOW_NODE), 60)
    status = bed.wait_for("the run says what it costs", lambda: (lambda s: s if s.get("slowdown", 0) > 1.1 else None)(
        bed.get("trainingrun", run, context.ns)["status"]), 60)
    ranks = {worker["rank"] for worker in status["workers"] if worker["node"] == straggler_test.SLOW_NODE}
    print(f"        ranks {sorted(ranks)} make steps {status['slowdown']:.2f} times as long", flush=True)
    return ranks


# --- the job page


def page_of(operator):
    bed.wait_for("the job page is served", lambda: operator.has_logged('"job page served"'))
    with open(operator.log.name, encoding="utf-8") as file:
        return int(re.search(r'"job page served".*?"port":"?(\d+)', file.read()).group(1))


def viewer(context):
    """Token of an account that may see the runs of the namespace and the nodes."""
    name = f"{context.ns}-viewer"
    bed.kubectl("create", "serviceaccount", "viewer", "-n", context.ns)
    bed.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [
        {"apiGroups": ["paceline.dev"], "resources": ["trainingruns", "incidents"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]})
    bed.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--serviceaccount={context.ns}:viewer")
    return bed.kubectl("create", "token", "viewer", "-n", context.ns).strip()


def check_ranks(addresses, token, ns, run, slow):
    """Leader and replica say the same of the ranks: the one knows it, the other asks the agents."""
    for address in addresses:
        def heat(address=address):
            request = urllib.request.Request(f"{address}/api/ranks?namespace={ns}&name={run}", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=30) as answer:
                found = json.load(answer)
            return found if found.get("slowdown", 0) > 1.1 else None
        found = bed.wait_for(f"the job page at {address} knows the ranks", heat, 60)
        bed.expect(found["ranks"] == list(range(RANKS)) and {row["rank"] for row in found["slow"]} == slow, json.dumps(found))
        last = next(window["lost"] for window in reversed(found["windows"]) if "lost" in window)
        bed.expect(all((last[rank] is not None and last[rank] > 100) == (rank in slow) for rank in range(RANKS)), json.dumps(found))


def take_pictures(context, address, token, run, values):
    bed.run(os.path.join(bed.ROOT, "tests", "boards", "picture"), "--prometheus", os.environ["PROMETHEUS_URL"], "--to", PICTURES, "--minutes", "6",
            *(f"--set={name}={value}" for name, value in values.items()), timeout=180)
    program = os.path.join(bed.ROOT, "tests", "job_page", "picture")
    for name, route, scheme in (("traced-run", f"#/run/{context.ns}/{run}", ()), ("traced-run-dark", f"#/run/{context.ns}/{run}", ("--dark",)), ("nodes", "#/nodes", ())):
        bed.run(program, "--address", address, "--namespace", context.ns, "--route", route, "--full", *scheme,
                "--to", os.path.join(PICTURES, f"job-page-{name}.png"), stdin=token, timeout=120)


# --- all of it


def processes():
    """Holders and agents that record dependencies, not started."""
    holders = [NodeProcess(node, "holder", f"{PROGRAMS}/paceline-holder --programs {PROGRAMS}/paceline-hdfs-mount,{PROGRAMS}/paceline-snapshotter "
                           "--stop-mounts yes") for node in NODES]
    return holders, nodes.agents("--hdfs-memory-limit", "64Mi", "--dependencies-store", f"file://{deps_test.STORE}",
                                 "--dependencies-wrapper", f"{PROGRAMS}/paceline-deps")


def look(context):
    port = bed.free_port()
    leader = context.start_hooked("w", "--metrics-address=0.0.0.0", f"--metrics-port={port}", f"--registry-hosts-folder={deps_test.hosts_folder()}")
    replica = bed.Operator("r", "--webhook-enabled=false", "--page-tls=false")
    context.operators.append(replica)
    let_prometheus_scrape(port)
    bed.apply(straggler_test.policy_object(POLICY, {"kubernetes.io/os": "linux"}, action="Cordon", budget={"maxActions": 9}))
    run = two_starts(context)
    lazy_start(context)
    slow = slow_node(context, run)
    values = {"namespace": context.ns, "job": "train", "run": ".*"}
    check_panels(values)
    check_rules()
    addresses = [f"https://127.0.0.1:{page_of(leader)}", f"http://127.0.0.1:{page_of(replica)}"]
    bed.expect(not replica.is_leading(), "the second operator leads")
    token = viewer(context)
    check_ranks(addresses, token, context.ns, run, slow)
    check_alert(context, run)
    if PICTURES:
        take_pictures(context, addresses[0], token, run, values)


def check(context):
    nodes.need_lazy_nodes()
    lazy_images_test.convert_anew("python")
    holders, agents = processes()
    try:
        for process in holders + agents:
            process.start()
        for node in NODES:
            bed.wait_for(f"the agent of {node} is ready", lambda node=node: nodes.is_ready(node))
            give_gpus(node, RANKS)
        look(context)
    except bed.Failure as error:
        raise bed.Failure(str(error) + "\n" + "\n".join(process.tail() for process in agents + holders)) from error
    finally:
        bed.kubectl("delete", "stragglerpolicy", POLICY, "--ignore-not-found", "--timeout=30s", ok=False)
        bed.kubectl("delete", "trainingjobs,pods", "--all", "-n", context.ns, "--wait=false", ok=False)
        bed.wait_for("the pods are gone", lambda: not bed.items("pods", context.ns), 60)
        bed.kubectl("delete", "clusterrole,clusterrolebinding", f"{context.ns}-viewer", "--ignore-not-found", ok=False)
        for process in agents + holders:
            process.end("TERM")
        stop_scraping()
        bed.run(nodes.TESTBED, "hdfs", "dfs", "-rm", "-r", "-skipTrash", f"/{context.ns}", ok=False)
        shutil.rmtree(deps_test.WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(nodes.run_check("what_people_look_at_is_right", "boards", ("KUBECONFIG", "HDFS_URI", "PROMETHEUS_URL"),
                             "scripts/testbed up kubernetes hdfs prometheus --nodes 2 --lazy-snapshotter PROGRAM", check))
