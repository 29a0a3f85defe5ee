#!/usr/bin/env python3
"""Images converted by the operator, and what runs say of how images came, in a real Kubernetes:
scripts/testbed up --nodes 2 --lazy-snapshotter build/bin/paceline-snapshotter.

  eval "$(scripts/testbed env)"; tests/integration/image_conversion_test.py

Agents run on the nodes, the operator here, the converter in pods of Paceline's namespace. Two jobs at once ask for one image to
be converted, and the operator is killed meanwhile: it is converted once. Later starts open it lazily, and the run, the profile,
`pacectl run explain` and `pacectl image status` say so with numbers. A converter without the right to read fails with advice,
and its job runs all the same. Ends with "N passed, N failed, N skipped". Without KUBECONFIG or on nodes without the plugin all
is skipped.
"""
import base64
import json
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402
from nodes import NODES, PROGRAMS, TESTBED, in_node  # noqa: E402

WORK = tempfile.mkdtemp(prefix="paceline-convert-")
KEEP_MISSING = 31  # seconds
STATUS_SOCKET = "/run/paceline/snapshotter/status.sock"
CONVERTER_SECRET, DENIED_SECRET = "converter", "denied"
REPOSITORY = "registry.test:5000/convertible"
# The image's own repository: where the plugin of the test bed looks.
STORE = f"docker://{REPOSITORY}"
START = "import json, ssl, asyncio, hashlib, time; print('started', flush=True); time.sleep(SECONDS)"


def docker_config(password):
    entry = {"username": os.environ["REGISTRY_USER"], "password": password}
    return json.dumps({"auths": {"registry.test:5000": entry}})


def make_secret(name, password):
    with open(os.environ["REGISTRY_CA"], "rb") as file:
        authority = file.read()
    data = {"config.json": base64.b64encode(docker_config(password).encode()).decode(), "ca.crt": base64.b64encode(authority).decode()}
    bed.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": bed.SYSTEM}, "data": data})


def pod_template(secret):
    """As the chart makes it; the CA is the test bed's own."""
    pod = {"metadata": {"labels": {"app.kubernetes.io/component": "converter"}}, "spec": {
        "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 5,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532},
        "containers": [{
            "name": "converter", "image": "registry.test:5000/pacectl:1",
            "args": ["--threads=1", "--docker-config=/etc/paceline-registry", "--ca-file=/etc/paceline-registry/ca.crt"],
            "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
            "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "registry", "mountPath": "/etc/paceline-registry", "readOnly": True}]}],
        "volumes": [{"name": "registry", "secret": {"secretName": secret}}]}}
    path = os.path.join(WORK, f"{secret}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(pod, file)
    return path


def conversion_flags(secret, store=STORE):
    return [f"--conversion-store={store}", f"--conversion-pod-template={pod_template(secret)}"]


def make_images():
    """One to convert, that nobody has converted in an earlier round; and pacectl's, with what deploy/images/rootfs puts in."""
    folder = os.path.join(WORK, "mine")
    os.makedirs(folder)
    with open(os.path.join(folder, "round"), "wb") as file:
        file.write(os.urandom(64))
    bed.run(TESTBED, "image", "convertible:1", folder, "--base", "python", timeout=180)
    folder = os.path.join(WORK, "rootfs")
    bed.run(os.path.join(bed.ROOT, "deploy/images/rootfs"), f"{PROGRAMS}/pacectl", folder, timeout=120)
    bed.run(TESTBED, "image", "pacectl:1", folder, "--entrypoint", "/usr/bin/pacectl", timeout=180)


def job(context, name, node=None, image=f"{REPOSITORY}:1", command=None, seconds=600, workers=1):
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{
        "name": "main", "image": image, "imagePullPolicy": "Always",
        "command": command or ["python3", "-u", "-c", START.replace("SECONDS", str(seconds))],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    else:
        spec["topologySpreadConstraints"] = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                                              "labelSelector": {"matchLabels": {"convert-job": name}}}]
    return bed.create({
        "apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": context.ns},
        "spec": {"workers": workers, "startup": {"image": {"convert": "Auto"}},
                 "template": {"metadata": {"labels": {"convert-job": name}}, "spec": spec}}})["metadata"]["uid"]


def await_started(context, name, workers=1):
    def logs():
        pods = bed.items("pods", context.ns, f"convert-job={name}")
        return len(pods) == workers and all("started" in bed.kubectl("logs", p["metadata"]["name"], "-n", context.ns, ok=False)[1] for p in pods)
    bed.wait_for(f"all workers of {name} have started", logs, 120)


def profiles():
    return {p["spec"]["image"]: p for p in json.loads(bed.kubectl("get", "imageprofiles", "-o", "json"))["items"]}


def profile_of(image, state):
    def find():
        profile = profiles().get(image)
        return profile if profile and profile.get("status", {}).get("state") == state else None
    return bed.wait_for(f"the profile of {image} is {state}", find, 180)


def conversions_made():
    """Jobs of conversions that the Job controller has made pods for."""
    events = bed.items("events", bed.SYSTEM)
    return {e["involvedObject"]["uid"] for e in events if e["reason"] == "SuccessfulCreate"
            and e["involvedObject"]["kind"] == "Job" and e["involvedObject"]["name"].startswith("paceline-convert-")}


def run_of(context, uid):
    return context.runs(uid)[0]["status"]


def image_of(context, uid, node):
    return next(i for i in run_of(context, uid)["images"] if i["node"] == node)


def image_with(context, uid, node, *fields, **values):
    """What the run says of the image on `node` once it has these fields among its figures and these values."""
    image = image_of(context, uid, node)
    if any(image.get(key) != value for key, value in values.items()) or not all(image.get("figures", {}).get(field) for field in fields):
        raise bed.Failure(json.dumps(image))
    return image


def is_converted_once(context):
    """The operator is killed while it goes on, and two jobs ask at once."""
    before = conversions_made()  # by an earlier round on this cluster
    operator = context.start_leading("a", *conversion_flags(CONVERTER_SECRET))
    first, second = job(context, "first", workers=2), job(context, "other", NODES[0])
    await_started(context, "first", 2)
    await_started(context, "other")
    pulled_at = time.monotonic()
    bed.wait_for("the conversion has begun", lambda: profiles().get(REPOSITORY, {}).get("status", {}).get("state"), 60)
    operator.kill()
    bed.kubectl("delete", "lease", "-n", bed.SYSTEM, "paceline-operator", "--ignore-not-found")
    context.start_leading("b", *conversion_flags(CONVERTER_SECRET))
    profile = profile_of(REPOSITORY, "Ready")
    bed.expect(profile["status"]["artifact"]["repository"] == STORE and profile["status"]["artifact"]["sizeBytes"] > 1 << 20, json.dumps(profile))
    bed.expect(bed.condition(profile, "Converted").get("status") == "True", json.dumps(profile))
    bed.wait_for("its Job is gone", lambda: not bed.items("jobs", bed.SYSTEM), 30)
    made = conversions_made() - before
    bed.expect(len(made) == 1, f"{made}")
    for uid, where in ((first, NODES), (second, NODES[:1])):
        for node in where:
            image = bed.wait_for(f"the run says how the image came to {node}", lambda uid=uid, node=node: image_of(context, uid, node), 30)
            bed.expect(image["mode"] == "Pulled" and image["reason"] == "NotConverted", json.dumps(image))
    bed.wait_for("the job is told", lambda: "convert to Auto" in context.event_notes("first", "ImageNotConverted"), 30)
    bed.wait_for("and of the conversion", lambda: "lazily" in context.event_notes("first", "Converted"), 30)
    seconds = bed.seconds(profile["status"]["convertedAt"]) - bed.seconds(profile["metadata"]["creationTimestamp"])
    print(f"        {profile['status']['sourceBytes'] >> 10} KiB of layers to {profile['status']['artifact']['sizeBytes'] >> 10} KiB, "
          f"{seconds:.0f} s after the first container ran, over the operator's death", flush=True)
    return pulled_at


def forget_images(context):
    """As if the nodes had never seen them."""
    bed.kubectl("delete", "trainingjobs", "--all", "-n", context.ns, "--timeout=60s")
    bed.wait_for("the pods are gone", lambda: not bed.items("pods", context.ns), 60)
    for node in NODES:
        nodes.forget_images(node)


def later_starts_are_lazy(context, pulled_at):
    profile = profiles()[REPOSITORY]
    forget_images(context)
    time.sleep(max(0.0, pulled_at + KEEP_MISSING - time.monotonic()))  # for so long a plugin does not look again
    third = job(context, "third", NODES[0])
    await_started(context, "third")
    image = bed.wait_for("the run says that it was lazy", lambda: image_with(context, third, NODES[0], "readBytes", mode="Lazy"), 60)
    bed.expect(image.get("hotSet") in ("Recording", "Recorded") and "readySeconds" in image and not image.get("wasThere"), json.dumps(image))
    bed.expect("fallbacks" not in run_of(context, third), json.dumps(run_of(context, third)))
    bed.wait_for("the hot set is known", lambda: profiles()[REPOSITORY]["status"].get("hotSet", {}).get("chunks"), 90)
    fourth = job(context, "fourth", NODES[1])
    await_started(context, "fourth")
    image = bed.wait_for("the other node fetched it ahead", lambda: image_with(context, fourth, NODES[1], "hits", hotSet="Fetched"), 60)
    status = bed.wait_for("the run has its bytes", lambda: (lambda s: s if s.get("bytes", {}).get("imageFromRegistry") and "hotSet" in s else None)(run_of(context, fourth)), 30)
    bed.expect(status["bytes"]["imageFromRegistry"] < profile["status"]["sourceBytes"], json.dumps(status["bytes"]))
    bed.expect(status["hotSet"]["hitRatio"] > 0.5, json.dumps(status))
    explained = bed.run(f"{PROGRAMS}/pacectl", "run", "explain", "fourth", "-n", context.ns)
    bed.expect("lazily" in explained and "Fetched" in explained and NODES[1] in explained, explained)
    told = in_node(NODES[1], f"{PROGRAMS}/pacectl", "image", "status", "--socket", STATUS_SOCKET)
    bed.expect(f"{REPOSITORY}:1" in told and "Lazy" in told, told)
    bed.wait_for("the profile has a hit ratio and its last use",
                 lambda: (lambda s: "hitRatio" in s and "lastUsed" in s)(profiles()[REPOSITORY]["status"]), 30)
    print("        " + "\n        ".join(line for line in explained.splitlines() if "lazily" in line or "HOT SET" in line), flush=True)
    print(f"        ready {image['readySeconds']:.2f} s after the runtime asked; {status['bytes']['imageFromRegistry'] >> 10} KiB of "
          f"{profile['status']['sourceBytes'] >> 10} KiB came, hit ratio {status['hotSet']['hitRatio']:.2f}", flush=True)


def a_failure_is_told(context):
    """Without the right to read the image; the job does not notice."""
    for operator in context.operators:
        operator.close()
    context.operators.clear()
    context.start_leading("c", *conversion_flags(DENIED_SECRET))
    uid = job(context, "denied", NODES[0], image=bed.BUSYBOX, command=["sh", "-c", "echo started; sleep 20"])
    await_started(context, "denied")
    profile = profile_of("registry.test:5000/busybox", "Failed")
    condition = bed.condition(profile, "Converted")
    bed.expect(condition["reason"] == "ConversionDenied" and "registrySecret" in condition["message"], json.dumps(profile))
    bed.expect(profile["status"]["tries"]["failures"] == 1 and "nextTryAt" in profile["status"]["tries"], json.dumps(profile))
    bed.wait_for("the job is told", lambda: "registrySecret" in context.event_notes("denied", "ConversionDenied"), 30)
    bed.expect(profiles()[REPOSITORY]["status"]["state"] == "Ready", "what was converted is converted")
    context.wait_phase("denied", "Complete", 120)
    context.wait_run(uid, "Succeeded")


def check(context):
    nodes.need_lazy_nodes()
    make_images()
    bed.run(TESTBED, "pull-secret", bed.SYSTEM, "--service-account", "default")
    make_secret(CONVERTER_SECRET, os.environ["REGISTRY_PASSWORD"])
    make_secret(DENIED_SECRET, "wrong")
    agents = nodes.agents("--snapshotter-socket", STATUS_SOCKET)
    try:
        with nodes.running(context, [], agents):
            later_starts_are_lazy(context, is_converted_once(context))
            a_failure_is_told(context)
    except bed.Failure as error:
        told = "\n".join(bed.kubectl(*words, ok=False)[1][-3000:] for words in (
            ("get", "imageprofiles", "-o", "yaml"), ("get", "jobs,pods", "-n", bed.SYSTEM), ("get", "events", "-n", bed.SYSTEM),
            ("get", "trainingruns", "-n", context.ns, "-o", "jsonpath={.items[*].status.images}"),
            ("get", "nodeplans", "-o", "jsonpath={.items[*].status.imageReports}")))
        raise bed.Failure(f"{error}\n{told}") from error
    finally:
        bed.kubectl("delete", "imageprofiles", "--all", "--wait=false", ok=False)
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(nodes.run_check("images_are_converted_once_and_explained", "convert", ("KUBECONFIG", "REGISTRY_ADDRESS"),
                             "scripts/testbed up --lazy-snapshotter build/bin/paceline-snapshotter", check))
