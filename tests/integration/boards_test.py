#!/usr/bin/env python3
"""Every query of the Grafana boards on a real Prometheus: scripts/testbed up kubernetes hdfs prometheus
--nodes 2.

  eval "$(scripts/testbed env)"; tests/integration/boards_test.py

Agents, holders and operator run as processes, on the nodes n1 and n2 and here, and Prometheus scrapes them and evaluates the
chart's rules. A traced TrainingJob of four workers with a GPU each (nodes are told to have some) loads and saves through a
checkpoint volume; a rank is killed, so that the gang starts again on the same nodes; a node is cordoned. Then every panel's
query has to give data, but for those that tests/boards/boards.py names with what they wait for. Ends with "N passed, N
failed, N skipped". Without KUBECONFIG, HDFS_URI or PROMETHEUS_URL all is skipped.
"""
import json
import os
import shutil
import sys
import time
import urllib.parse
import urllib.request

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402
import trace_test  # noqa: E402
from nodes import AGENT_PORT, NODES, PROGRAMS, NodeProcess  # noqa: E402

sys.path.insert(0, os.path.join(bed.ROOT, "tests", "boards"))
import boards  # noqa: E402

RANKS = trace_test.RANKS
RULES = os.path.join(bed.ROOT, "deploy", "helm", "paceline", "rules")

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
""" + trace_test.WORKER


def job(context, name):
    body = trace_test.manifest(context, name, TRAIN)
    spec = body["spec"]
    spec["restartPolicy"] = {"mode": "OnFailure", "maxRestarts": 2}
    spec["checkpoints"] = [{"name": "model", "uri": f"{os.environ['HDFS_URI']}/{context.ns}", "mountPath": "/checkpoints",
                            "createDirectory": True}]
    spec["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    return bed.create(body)


def give_gpus(node, count):
    value = {"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(count)}
    bed.kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps([value]))
    bed.wait_for(f"{node} offers GPUs", lambda: bed.get("node", node)["status"]["allocatable"].get("nvidia.com/gpu") == str(count))


def ask(path, **parameters):
    url = f"{os.environ['PROMETHEUS_URL']}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise bed.Failure(f"{parameters}: {error.read().decode()[:500]}") from error


def has_data(expression):
    return any(sample["value"][1] != "NaN" for sample in ask("query", query=expression)["result"])


def let_prometheus_scrape(port):
    targets = [{"targets": [f"{os.environ['PACELINE_TESTBED_MACHINE_IP']}:{port}"], "labels": {"job": "paceline-operator"}}]
    targets += [{"targets": [f"{nodes.address_of(node)}:{AGENT_PORT}"], "labels": {"job": "paceline-agent", "node": node}} for node in NODES]
    with open(os.path.join(os.environ["PROMETHEUS_TARGETS"], "boards.yaml"), "w", encoding="utf-8") as file:
        yaml.safe_dump(targets, file)
    for name in os.listdir(RULES):
        shutil.copy(os.path.join(RULES, name), os.environ["PROMETHEUS_RULES"])
    urllib.request.urlopen(urllib.request.Request(f"{os.environ['PROMETHEUS_URL']}/-/reload", method="POST"), timeout=30).close()
    bed.wait_for("Prometheus scrapes the operator and both agents", lambda: len(
        [t for t in ask("targets", state="active")["activeTargets"] if t["health"] == "up" and t["labels"]["job"].startswith("paceline-")]) == 3)


def stop_scraping():
    os.unlink(os.path.join(os.environ["PROMETHEUS_TARGETS"], "boards.yaml"))
    for name in os.listdir(RULES):
        os.unlink(os.path.join(os.environ["PROMETHEUS_RULES"], name))
    urllib.request.urlopen(urllib.request.Request(f"{os.environ['PROMETHEUS_URL']}/-/reload", method="POST"), timeout=30).close()


def fill(context, name):
    """From two starts to data in Prometheus: the second one is a hot restart after the death of a rank."""
    uid = job(context, name)["metadata"]["uid"]
    context.wait_run(uid, "Running", timeout=120)
    time.sleep(12)  # as long as counters need to be seen twice, and rates to be rates
    pod = trace_test.pod_of(context, name, 1)
    trace_test.signal(pod, 1, "KILL")
    run = context.wait_run(uid, "Running", generation=1, timeout=120)
    bed.expect(run["status"]["startup"]["kind"] == "HotRestart", json.dumps(run["status"].get("startup")))
    bed.expect(run["status"]["startup"]["gpus"] == RANKS and run["status"]["startup"]["gpuSeconds"] > 0, json.dumps(run["status"]["startup"]))
    bed.kubectl("cordon", "n2")


def check_panels(context, name):
    """Each query, until all have data or a minute and a half has gone."""
    values = {"namespace": context.ns, "job": name, "run": ".*"}
    waiting = {(board_name, panel, expression) for board_name, board in boards.load().items() for panel, expression in boards.queries(board, values)}
    count, end = len(waiting), time.monotonic() + 90
    while True:
        waiting = {query for query in waiting if not has_data(query[2])}
        loud = {query for query in waiting if query[:2] not in boards.QUIET}
        if not loud or time.monotonic() > end:
            break
        time.sleep(3)
    for board_name, panel, expression in sorted(waiting):
        print(f"        no data: {board_name} / {panel} (waits for {boards.QUIET.get((board_name, panel), 'NOTHING')})", flush=True)
        if (board_name, panel) not in boards.QUIET:
            print(f"                 {expression}", flush=True)
    print(f"        {count - len(waiting)} of {count} queries have data", flush=True)
    bed.expect(not loud, f"{len(loud)} panels show nothing")
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


def check(context):
    holders = [NodeProcess(node, "holder", f"{PROGRAMS}/paceline-holder --programs {PROGRAMS}/paceline-hdfs-mount --stop-mounts yes") for node in NODES]
    agents = nodes.agents("--hdfs-memory-limit", "64Mi")
    port = bed.free_port()
    try:
        for process in holders + agents:
            process.start()
        for node in NODES:
            bed.wait_for(f"the agent of {node} is ready", lambda node=node: nodes.is_ready(node))
            give_gpus(node, RANKS)
        context.start_hooked("w", "--metrics-address=0.0.0.0", f"--metrics-port={port}")
        let_prometheus_scrape(port)
        fill(context, "train")
        check_panels(context, "train")
        check_rules()
    except bed.Failure as error:
        raise bed.Failure(str(error) + "\n" + "\n".join(process.tail() for process in agents + holders)) from error
    finally:
        bed.kubectl("uncordon", "n2", ok=False)
        bed.kubectl("delete", "trainingjobs", "--all", "-n", context.ns, "--wait=false", ok=False)
        bed.wait_for("the pods are gone", lambda: not bed.items("pods", context.ns), 60)
        for process in agents + holders:
            process.end("TERM")
        stop_scraping()
        bed.run(nodes.TESTBED, "hdfs", "dfs", "-rm", "-r", "-skipTrash", f"/{context.ns}", ok=False)


if __name__ == "__main__":
    sys.exit(nodes.run_check("every_panel_has_data", "boards", ("KUBECONFIG", "HDFS_URI", "PROMETHEUS_URL"),
                             "scripts/testbed up kubernetes hdfs prometheus --nodes 2", check))
