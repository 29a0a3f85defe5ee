"""Checks that disturb: killed kubelet, limits, power cut, restarted API server. They run last."""
import time

from bed import Failure, Skip, check, exec_in, get, kubectl, nodes, run, second_node, testbed, wait_for


@check("command inside a node")
def node_exec():
    node = nodes()[0]
    if testbed("exec", node, "--", "hostname").strip() != node:
        raise Failure("wrong host name")
    if run("bash", "-c", "command -v crictl", ok=False)[0] == 0:
        testbed("exec", node, "--", "crictl", "ps")


def containers_started():
    return [status["state"].get("running", {}).get("startedAt") for status in get("pod", "web", ["status", "containerStatuses"])]


@check("pod outlives a killed kubelet and a killed containerd")
def kubelet_killed():
    node = get("pod", "web", ["spec", "nodeName"])
    before = containers_started()
    testbed("node", "kill-kubelet", node)
    testbed("node", "kill-containerd", node)
    wait_for("exec in the old pod", lambda: "uid=0" in exec_in("web", "id"), timeout=60)
    if containers_started() != before:
        raise Failure("the container was started anew")


def busy_share(node):
    """Share of one core that a busy loop inside the node gets."""
    script = "end=$((SECONDS+2)); while [ $SECONDS -lt $end ]; do :; done; times | head -1"
    start = time.monotonic()
    user, system = testbed("exec", node, "--", "bash", "-c", script).split()
    seconds = sum(float(part.split("m")[0]) * 60 + float(part.split("m")[1].rstrip("s")) for part in (user, system))
    return seconds / (time.monotonic() - start)


@check("cpu-limit slows a whole node")
def cpu_limit():
    node = nodes()[-1]
    testbed("node", "cpu-limit", node, "20")
    try:
        share = busy_share(node)
    finally:
        testbed("node", "cpu-limit", node, "off")
    if share > 0.3:
        raise Failure(f"a loop got {share:.0%} of a core with a limit of 20 %")


@check("net-limit slows a node's link")
def net_limit():
    node = second_node()
    script = "exec 3<>/dev/tcp/{ip}/5001; openssl s_client -connect {ip}:5001 </dev/null >/dev/null 2>&1"
    testbed("node", "net-limit", node, "8")
    try:
        shown = testbed("exec", "hub", "--", "tc", "qdisc", "show", "dev", f"to-{node}")
        if "tbf" not in shown or "8Mbit" not in shown:
            raise Failure(shown)
        testbed("exec", node, "--", "bash", "-c", script.format(ip="registry.test"))
    finally:
        testbed("node", "net-limit", node, "off")


def ready_status(node):
    conditions = get("node", node, ["status", "conditions"])
    return next(condition["status"] for condition in conditions if condition["type"] == "Ready")


@check("power cut is seen, and the node comes back")
def power_cut():
    node = second_node()
    testbed("node", "power-cut", node)
    try:
        wait_for("NotReady", lambda: ready_status(node) != "True", timeout=60)
    finally:
        testbed("node", "boot", node)
    wait_for("Ready", lambda: ready_status(node) == "True", timeout=60)


@check("API server restarts alone, with other flags for one run")
def apiserver_restart():
    testbed("restart", "kube-apiserver", "--goaway-chance=0.01")
    try:
        kubectl("get", "pods")
        log = testbed("logs", "kube-apiserver")
        if "--goaway-chance=0.01" not in log:
            raise Failure("the flag was not passed")
    finally:
        testbed("restart", "kube-apiserver", "--kill")
    wait_for("nodes", lambda: nodes(), timeout=60)


@check("nothing of the nodes shows on the machine")
def no_leaks():
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        leaked = [line.split()[1] for line in mounts if "kubelet" in line or "containerd" in line or "/paceline-testbed/" in line]
    if leaked:
        raise Failure(f"mounts: {leaked}")
    if not nodes():
        raise Skip("no node is Ready")
