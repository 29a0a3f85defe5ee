#!/usr/bin/env python3
"""Nodes that share chunks of lazy images, in a real Kubernetes:
scripts/testbed up --nodes 2 --lazy-snapshotter build/bin/paceline-snapshotter.

  eval "$(scripts/testbed env)"; tests/integration/shared_images_test.py

The operator makes the peers' certificates and writes the peers of a job's nodes into their plans, agents tell the plugins, and
the plugins of both nodes fetch an image's data about once together: one after the other, at the same time, and with one of them
killed in the middle. The run says what came from peers. Ends with "N passed, N failed, N skipped". Without KUBECONFIG or on
nodes without the plugin all is skipped.
"""
import base64
import concurrent.futures
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402
import lazy_images_test  # noqa: E402
from nodes import NODES, PROGRAMS, TESTBED, in_node  # noqa: E402

WORK = tempfile.mkdtemp(prefix="paceline-shared-")
STATUS_SOCKET = "/run/paceline/snapshotter/status.sock"
METRICS = "http://127.0.0.1:9465"
SECRET = "paceline-snapshotter-peers"
CERTIFICATES = "/run/paceline/peers"  # where the plugins of the test bed look
PART_BYTES = 24 << 20
PARTS = ("after", "together", "killed")
COMMAND = ["python3", "-u", "-c", "import time; print('started', flush=True); time.sleep(600)"]


def make_image():
    """Nobody has any of its data yet. Returns the digest of each part."""
    digests = {}
    folder = os.path.join(WORK, "data")
    os.makedirs(folder)
    for part in PARTS:
        data = os.urandom(PART_BYTES)
        digests[part] = hashlib.sha256(data).hexdigest()
        with open(os.path.join(folder, part), "wb") as file:
            file.write(data)
    bed.run(TESTBED, "image", "shared:1", os.path.dirname(folder), "--base", "python", timeout=180)
    lazy_images_test.convert("shared")
    return digests


def hand_out_certificates():
    """As kubelets do with the Secret that the operator fills in."""
    data = bed.wait_for("the operator makes the certificates", lambda: (lambda d: d if d.get("tls.key") else None)(
        bed.get("secret", SECRET, bed.SYSTEM).get("data", {})), 60)
    for node in NODES:
        for name in ("ca.crt", "tls.crt", "tls.key"):
            path = os.path.join(WORK, name)
            with open(path, "wb") as file:
                file.write(base64.b64decode(data[name]))
            in_node(node, "sh", "-c", f"mkdir -p {CERTIFICATES} && cp {path} {CERTIFICATES}/{name}")


def metric(node, series):
    for line in in_node(node, "curl", "-s", f"{METRICS}/metrics").splitlines():
        if line.startswith(series + " "):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def figures(node):
    """What the plugin counts of our image."""
    images = json.loads(in_node(node, "curl", "-s", f"{METRICS}/v1/images"))["images"]
    return next(image for image in images if "/shared" in image["name"])


def bytes_by_source():
    return {node: (lambda f: (f["originBytes"], f["peerBytes"]))(figures(node)) for node in NODES}


def start_job(context):
    spec = {"terminationGracePeriodSeconds": 1, "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"shared-job": "reads"}}}],
        "containers": [{"name": "main", "image": "registry.test:5000/shared:1", "imagePullPolicy": "Always", "command": COMMAND,
                        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}
    uid = bed.create({"apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "reads", "namespace": context.ns},
                      "spec": {"workers": 2, "template": {"metadata": {"labels": {"shared-job": "reads"}}, "spec": spec}}})["metadata"]["uid"]

    def pods():
        found = bed.items("pods", context.ns, "shared-job=reads")
        started = [p for p in found if "started" in bed.kubectl("logs", p["metadata"]["name"], "-n", context.ns, ok=False)[1]]
        return {p["spec"]["nodeName"]: p["metadata"]["name"] for p in started} if len(started) == 2 else None
    return uid, bed.wait_for("both workers have started", pods, 120)


def read(context, pod, part):
    """Digest of a part, and the seconds that reading it took."""
    script = f"import hashlib; print(hashlib.sha256(open('/data/{part}', 'rb').read()).hexdigest())"
    began = time.monotonic()
    code, text = bed.run("kubectl", "--request-timeout=100s", "exec", pod, "-n", context.ns, "--", "python3", "-c", script, ok=False, timeout=110)
    bed.expect(code == 0, f"{pod}: exit {code}: {text[-600:]}")
    return text.strip().splitlines()[-1], time.monotonic() - began


def told(what, before, after, seconds):
    text = ", ".join(f"{node}: {(after[node][0] - before[node][0]) >> 10} KiB from the store, {(after[node][1] - before[node][1]) >> 10} "
                     f"KiB from its peer" for node in NODES)
    print(f"        {what}: {text}; {seconds:.1f} s", flush=True)
    return sum(after[node][0] - before[node][0] for node in NODES), after[NODES[1]][1] - before[NODES[1]][1]


def one_after_the_other(context, pods, digests):
    before = bytes_by_source()
    digest, _ = read(context, pods[NODES[0]], "after")
    bed.expect(digest == digests["after"], "wrong bytes on the first node")
    between = bytes_by_source()
    digest, seconds = read(context, pods[NODES[1]], "after")
    bed.expect(digest == digests["after"], "wrong bytes on the second node")
    origin, _ = told("one after the other", before, bytes_by_source(), seconds)
    bed.expect(origin <= 1.3 * PART_BYTES, f"{origin} bytes came from the store for {PART_BYTES}")
    of_second = bytes_by_source()[NODES[1]][0] - between[NODES[1]][0]
    bed.expect(of_second <= 0.3 * PART_BYTES, f"the second node fetched {of_second} bytes from the store when the first had them all")


def at_the_same_time(context, pods, digests):
    before = bytes_by_source()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda node: read(context, pods[node], "together"), NODES))
    bed.expect(all(digest == digests["together"] for digest, _ in results), f"{results}")
    origin, _ = told("at the same time", before, bytes_by_source(), max(seconds for _, seconds in results))
    bed.expect(origin <= 1.3 * PART_BYTES, f"{origin} bytes came from the store for {PART_BYTES}")


def with_a_peer_killed(context, pods, digests):
    """The second node reads what the first one is asked for, and that dies; it stays away."""
    given = "paceline_image_peer_answers_total{result=\"given\"}"
    before, answers = bytes_by_source()[NODES[1]], metric(NODES[0], given)
    pid = in_node(NODES[0], "cat", "/run/testbed/snapshotter.pid").strip()
    in_node(NODES[0], "touch", "/run/testbed/hold-snapshotter")
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read, context, pods[NODES[1]], "killed")
            deadline = time.monotonic() + 5
            while metric(NODES[0], given) == answers and not reading.done() and time.monotonic() < deadline:
                pass
            in_node(NODES[0], "kill", "-KILL", pid)
            digest, seconds = reading.result()
        bed.expect(digest == digests["killed"], "wrong bytes")
        bed.expect(seconds < 20, f"reading took {seconds:.1f} s")
        after = figures(NODES[1])
        bed.expect(after["failedReads"] == 0, json.dumps(after))
        print(f"        peer killed: {(after['originBytes'] - before[0]) >> 10} KiB from the store, {(after['peerBytes'] - before[1]) >> 10} KiB "
              f"from the peer before it died; {seconds:.1f} s", flush=True)
    finally:
        in_node(NODES[0], "rm", "-f", "/run/testbed/hold-snapshotter")
    bed.wait_for("the plugin is back", lambda: nodes.serves_lazily(NODES[0]), 30)
    bed.wait_for("and knows its peers again", lambda: metric(NODES[0], 'paceline_image_peers{state="known"}') == 1, 60)


def the_run_says_so(context, uid):
    status = bed.wait_for("the run has bytes from peers", lambda: (lambda s: s if s.get("bytes", {}).get("imageFromPeers") else None)(
        context.runs(uid)[0]["status"]), 60)
    explained = bed.run(f"{PROGRAMS}/pacectl", "run", "explain", "reads", "-n", context.ns)
    bed.expect("PEERS" in explained, explained)
    print(f"        the run: {status['bytes']['imageFromPeers'] >> 10} KiB of its images from peers, "
          f"{status['bytes'].get('imageFromRegistry', 0) >> 10} KiB from the registry", flush=True)


def check(context):
    nodes.need_lazy_nodes()
    digests = make_image()
    bed.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": bed.SYSTEM}, "type": "Opaque"})
    agents = [agent for node in NODES for agent in nodes.agents(
        "--snapshotter-socket", STATUS_SOCKET, "--snapshotter-node-address", nodes.address_of(node), where=(node,))]
    try:
        with nodes.running(context, [], agents):
            context.start_leading("a", f"--peers-secret={SECRET}")
            hand_out_certificates()
            for node in NODES:
                bed.wait_for(f"{node} shares", lambda node=node: metric(node, "paceline_image_sharing") == 1, 60)
            uid, pods = start_job(context)
            for node in NODES:
                bed.wait_for(f"{node} knows its peer", lambda node=node: metric(node, 'paceline_image_peers{state="known"}') == 1, 60)
            one_after_the_other(context, pods, digests)
            at_the_same_time(context, pods, digests)
            the_run_says_so(context, uid)
            with_a_peer_killed(context, pods, digests)
            bed.kubectl("delete", "trainingjobs", "--all", "-n", context.ns, "--timeout=60s")
            bed.wait_for("no plan names peers any more",
                         lambda: not any(p["spec"].get("peers") for p in bed.items("nodeplans", "")), 60)
    except bed.Failure as error:
        logs = "\n".join(bed.run(TESTBED, "logs", f"{node}-snapshotter", ok=False)[1][-2500:] for node in NODES)
        plans = bed.kubectl("get", "nodeplans", "-o", "json", ok=False)[1]
        raise bed.Failure(f"{error}\n{logs}\n{plans[-4000:]}") from error
    finally:
        for node in NODES:
            in_node(node, "rm", "-rf", CERTIFICATES)
        bed.kubectl("delete", "secret", SECRET, "-n", bed.SYSTEM, "--ignore-not-found", ok=False)
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(nodes.run_check("nodes_share_chunks_of_images", "shared", ("KUBECONFIG", "REGISTRY_ADDRESS"),
                             "scripts/testbed up --lazy-snapshotter build/bin/paceline-snapshotter", check,
                             ("snapshotter.enabled=true", "snapshotter.peers.certificates=self-managed")))
