#!/usr/bin/env python3
"""Images that start lazily in a real Kubernetes: scripts/testbed up --nodes 2 --lazy-snapshotter build/bin/paceline-snapshotter.

  eval "$(scripts/testbed env)"; tests/integration/lazy_images_test.py

Every pod of these nodes gets its files from our containerd plugin. An image is converted in the registry; a pod starts from
it without its layer being pulled, another one from an image that nobody converted; what the first one read is fetched ahead on
the second node. The plugin is killed, stopped and started under the running pods. At the end the images are removed and nothing of them is left. Ends with "N passed, N failed,
N skipped". Without KUBECONFIG or on nodes without the plugin all is skipped.
"""
import base64
import json
import os
import ssl
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402
from nodes import NODES, PROGRAMS, TESTBED, in_node  # noqa: E402

ROOT = "/var/lib/paceline/snapshotter"
METRICS = "http://127.0.0.1:9465"
# Reads files that the start did not: what comes after must still be fetched.
LATE_IMPORT = "import sqlite3, xml.dom.minidom, http.server, decimal, unittest, multiprocessing.pool; print('late', len(sqlite3.sqlite_version))"
START = "import json, ssl, asyncio, hashlib, time; print('started', flush=True); time.sleep(600)"


def registry(path, accept="*/*"):
    request = urllib.request.Request(f"https://{os.environ['REGISTRY_ADDRESS']}/v2/{path}", headers={"Accept": accept})
    secret = base64.b64encode(f"{os.environ['REGISTRY_USER']}:{os.environ['REGISTRY_PASSWORD']}".encode()).decode()
    request.add_header("Authorization", "Basic " + secret)
    context = ssl.create_default_context(cafile=os.environ["REGISTRY_CA"])
    with urllib.request.urlopen(request, context=context, timeout=20) as answer:
        return json.load(answer)


def convert(name):
    with tempfile.TemporaryDirectory() as folder:
        entry = {"username": os.environ["REGISTRY_USER"], "password": os.environ["REGISTRY_PASSWORD"]}
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"auths": {os.environ["REGISTRY_ADDRESS"]: entry}}, file)
        repository = f"docker://{os.environ['REGISTRY_ADDRESS']}/{name}"
        bed.run(f"{PROGRAMS}/pacectl", "image", "convert", f"{repository}:1", "--store", repository, "--docker-config", folder,
                "--ca-file", os.environ["REGISTRY_CA"], timeout=180)


def convert_anew(name):
    """Converts it for nodes that may have pulled it for an earlier test, layer by layer: those layers would stay as they are."""
    for node in NODES:
        nodes.forget_images(node)
    convert(name)


def layers_of(name):
    manifest = registry(f"{name}/manifests/1", "application/vnd.oci.image.manifest.v1+json")
    return {layer["digest"]: layer["size"] for layer in manifest["layers"]}


def metric(node, name, labels=""):
    """The value of one series, 0 when it is not there."""
    for line in in_node(node, "curl", "-s", f"{METRICS}/metrics").splitlines():
        if line.startswith(name + (labels or " ")):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def records(node):
    text = in_node(node, "sh", "-c", f"cat {ROOT}/records/*.json")
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def lazy_layers(node):
    return [record for record in records(node) if "remote" in record]


def layer_mounts(node):
    return [line for line in in_node(node, "cat", "/proc/self/mounts").splitlines() if f" {ROOT}/snapshots/" in line]


def start_pod(context, name, node, image, command):
    began = time.monotonic()
    bed.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": context.ns}, "spec": {
        "nodeName": node, "terminationGracePeriodSeconds": 1, "restartPolicy": "Never",
        "containers": [{"name": "main", "image": image, "command": command, "imagePullPolicy": "Always"}]}})
    bed.wait_for(f"pod {name} says that it started", lambda: "started" in bed.kubectl("logs", name, "-n", context.ns, ok=False)[1], 90)
    print(f"        {name} on {node}: {time.monotonic() - began:.1f} s from its creation to its first line", flush=True)


def run_in(context, pod, *command):
    return bed.run("kubectl", "--request-timeout=60s", "exec", pod, "-n", context.ns, "--", *command, ok=False)


def expect_late_import(context, pod):
    code, text = run_in(context, pod, "python3", "-c", LATE_IMPORT)
    bed.expect(code == 0 and "late" in text, f"{pod}: exit {code}: {text[-600:]}")


def lazily(context, node, layers):
    start_pod(context, "lazy", node, bed.PYTHON, ["python3", "-u", "-c", START])
    bed.expect(len(lazy_layers(node)) == len(layers), f"{lazy_layers(node)}")
    held = in_node(node, "ctr", "-n", "k8s.io", "content", "ls", "-q")
    for digest in layers:
        bed.expect(digest not in held, f"the layer {digest} was pulled")
    kept = int(in_node(node, "du", "-sk", "--block-size=1", f"{ROOT}/cache/layers").split()[0])
    print(f"        {sum(layers.values()) >> 10} KiB of layers, {kept >> 10} KiB on the disk of {node}", flush=True)
    bed.expect(run_in(context, "lazy", "sh", "-c", "echo mine > /etc/mine && cat /etc/mine")[1].strip() == "mine", "no writes")


def as_usual(context, node):
    start_pod(context, "plain", node, bed.BUSYBOX, ["sh", "-c", "echo started; sleep 600"])
    reason = metric(node, "paceline_image_fallbacks_total", '{reason="NotConverted"}')
    bed.expect(reason >= 1, in_node(node, "curl", "-s", f"{METRICS}/metrics"))
    bed.expect(run_in(context, "plain", "sh", "-c", "echo x > /x && ls /bin | wc -l")[0] == 0, "the image is not usable")


def elsewhere(context, recorder, node):
    """What the first node read is fetched ahead by the second."""
    bed.wait_for("the hot set is kept beside the image", lambda: sum(
        metric(recorder, "paceline_image_hot_sets_total", f'{{result="{result}"}}') for result in ("shared", "superfluous")) >= 1, 60)
    start_pod(context, "second", node, bed.PYTHON, ["python3", "-u", "-c", START])
    bed.expect(metric(node, "paceline_image_hot_sets_total", '{result="fetched"}') == 1, "the second node took no hot set")
    image = json.loads(in_node(node, "curl", "-s", f"{METRICS}/v1/images"))["images"][0]
    print(f"        second start: {image['chunkHits']} chunks were here, {image['chunkMisses']} not; {image['originBytes'] >> 10} KiB came, "
          f"{image['prefetchedBytes'] >> 10} KiB of them ahead, in {image['originRequests']} requests", flush=True)
    bed.expect(image["prefetchedBytes"] > image["originBytes"] / 2, json.dumps(image))
    bed.expect(image["failedReads"] == 0, json.dumps(image))


def restart(context, node):
    for way in ("KILL", "TERM"):
        pid = in_node(node, "cat", "/run/testbed/snapshotter.pid").strip()
        in_node(node, "kill", f"-{way}", pid)
        bed.wait_for("the plugin is back", lambda pid=pid: in_node(node, "cat", "/run/testbed/snapshotter.pid").strip() != pid
                     and nodes.serves_lazily(node), 30)
        expect_late_import(context, "lazy")
        start_pod(context, f"after-{way.lower()}", node, bed.PYTHON, ["python3", "-u", "-c", START])
        expect_late_import(context, f"after-{way.lower()}")
        bed.expect(run_in(context, "plain", "ls", "/bin")[0] == 0, "the ordinary pod lost its files")


def remove(context, node):
    bed.kubectl("delete", "pods", "--all", "-n", context.ns, "--timeout=60s")
    nodes.forget_images(node)
    bed.wait_for("no layer is mounted any more", lambda: not lazy_layers(node) and not layer_mounts(node), 60)
    bed.wait_for("no folder is left without a record",
                 lambda: set(in_node(node, "ls", f"{ROOT}/snapshots").split()) <= {str(record["id"]) for record in records(node)}, 60)


def check(context):
    nodes.need_lazy_nodes()
    node = NODES[0]
    convert_anew("python")
    layers = layers_of("python")
    try:
        lazily(context, node, layers)
        as_usual(context, node)
        elsewhere(context, node, NODES[1])
        restart(context, node)
        remove(context, node)
    except bed.Failure as error:
        raise bed.Failure(f"{error}\n{bed.run(TESTBED, 'logs', f'{node}-snapshotter', ok=False)[1][-4000:]}") from error
    finally:
        bed.kubectl("delete", "pods", "--all", "-n", context.ns, "--wait=false", ok=False)


if __name__ == "__main__":
    sys.exit(nodes.run_check("images_start_lazily", "lazy", ("KUBECONFIG", "REGISTRY_ADDRESS"),
                             "scripts/testbed up --lazy-snapshotter build/bin/paceline-snapshotter", check))
