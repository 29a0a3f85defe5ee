#!/usr/bin/env python3
"""Dependency snapshots in a real Kubernetes: scripts/testbed up kubernetes --nodes 2.

  eval "$(scripts/testbed env)"; tests/integration/deps_test.py

Agent, holder and operator run as processes, on the nodes n1 and n2 and here. A job installs into a virtual environment and
is recorded; the same job on the other node mounts what was recorded, and goes on when its agent is killed; the first node
fetches first what that one has read; two workers that install at once make one snapshot; an agent that is killed during an
install records it afterwards, one that is killed while it records leaves all or nothing; without the store the install
runs; what cannot be cached is said; what has lost its signature or its bytes is put aside and recorded anew; what has ended
is removed, but not under a pod; a store in a registry does as well. Ends with "N passed, N failed, N skipped". Without
KUBECONFIG all is skipped.
"""
import json
import os
import shutil
import sys
import tempfile
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402
from checks_foreign import ENABLED  # noqa: E402
from nodes import NODES, PROGRAMS, TESTBED, NodeProcess, in_node, is_ready  # noqa: E402

WORK = tempfile.mkdtemp(prefix="paceline-deps-")
STORE = os.path.join(WORK, "store")
KEYS = os.path.join(WORK, "keys")

# A virtual environment with a package of some hundred modules, as an install leaves it.
MAKE = r"""
import compileall, os, sys, time
root = "/opt/venv/lib/python3.11/site-packages/wide"
os.makedirs(root)
for number in range(MODULES):
    with open(f"{root}/m{number}.py", "w") as file:
        file.write(f"VALUE = {number}\n" + f"TEXT = '{number:032x}' * 8\n")
for number in range(BLOBS):
    with open(f"{root}/data{number}", "wb") as file:
        file.write(os.urandom(2 << 20))
open(root + "/__init__.py", "w").close()
compileall.compile_dir(root, quiet=1)
time.sleep(3)
"""
INSTALL = "python3 -m venv --without-pip /opt/venv && python3 - <<'EOF'\n{}EOF\n"

USE = """
import os, subprocess, sys, time
mounts = [line.split() for line in open("/proc/mounts")]
print("kind", next(m[2] for m in mounts if m[1] == "/opt/venv"), flush=True)
code = "import importlib, sys; print('sum', sum(importlib.import_module(f'wide.m{n}').VALUE for n in range(*map(int, sys.argv[1:]))))"
def add(first, last):
    print(subprocess.run(["/opt/venv/bin/python", "-c", code, str(first), str(last)], check=True, capture_output=True, text=True).stdout.strip(), flush=True)
add(0, 200)
with open("/opt/venv/written", "w") as file:
    file.write("x")
while os.environ.get("WAITS") and not os.path.exists("/opt/venv/go"):
    time.sleep(0.2)
add(200, MODULES)
print("done", flush=True)
"""


def install_command(modules=400, blobs=0):
    return INSTALL.format(MAKE.replace("MODULES", str(modules)).replace("BLOBS", str(blobs)))


def make_keys():
    """As docs/dependency-snapshots.md says."""
    os.makedirs(KEYS, mode=0o700)
    bed.run("openssl", "genpkey", "-algorithm", "ed25519", "-out", f"{KEYS}/signing.pem")
    bed.run("openssl", "pkey", "-in", f"{KEYS}/signing.pem", "-pubout", "-out", f"{KEYS}/trusted.pem")


def processes():
    holders = [NodeProcess(node, "holder", " ".join((
        f"{PROGRAMS}/paceline-holder", "--programs", f"{PROGRAMS}/paceline-hdfs-mount,{PROGRAMS}/paceline-snapshotter",
        "--stop-mounts", "yes"))) for node in NODES]
    agents = nodes.agents("--dependencies-store", f"file://{STORE}", "--dependencies-wrapper", f"{PROGRAMS}/paceline-deps",
                          "--dependencies-find-limit", "3s", "--dependencies-signing-key", f"{KEYS}/signing.pem",
                          "--dependencies-require-signatures", "--dependencies-collect-period", "2s", "--dependencies-collect-grace", "5s")
    return holders, agents


def agents_with_a_registry(context):
    """The same with a store in a registry that asks for a password."""
    credentials = os.path.join(WORK, "config.json")
    entry = {"username": os.environ["REGISTRY_USER"], "password": os.environ["REGISTRY_PASSWORD"]}
    with open(credentials, "w", encoding="utf-8") as file:
        json.dump({"auths": {"registry.test:5000": entry}}, file)
    return nodes.agents("--dependencies-store", f"docker://registry.test:5000/{context.ns}/snapshots", "--dependencies-wrapper",
                        f"{PROGRAMS}/paceline-deps", "--dependencies-signing-key", f"{KEYS}/signing.pem", "--dependencies-require-signatures",
                        "--registry-credentials", credentials, "--registry-ca-files", os.environ["REGISTRY_CA"])


def hosts_folder():
    """What tells the operator, which runs outside of the cluster, where the registry of its images is."""
    folder = os.path.join(WORK, "hosts", "registry.test:5000")
    os.makedirs(folder)
    host, port = os.environ["REGISTRY_ADDRESS"].rsplit(":", 1)
    with open(os.path.join(folder, "hosts.toml"), "w", encoding="utf-8") as file:
        file.write(f'[host."https://{host}:{int(port) + 1}"]\n  capabilities = ["pull", "resolve"]\n  ca = "{os.environ["REGISTRY_CA"]}"\n')
    return os.path.dirname(folder)


def job(context, name, node=None, workers=1, modules=400, blobs=0, env=None, container=None, **dependencies):
    spec = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": [{
        "name": "main", "image": bed.PYTHON, "command": ["python3", "-u", "-c", USE.replace("MODULES", str(modules))],
        "env": [{"name": n, "value": v} for n, v in (env or {}).items()],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}, **(container or {})}]}
    spec["containers"] = [{key: value for key, value in spec["containers"][0].items() if value is not None}]
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    else:
        spec["topologySpreadConstraints"] = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                                              "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"deps-job": name}}}]
    return bed.create({
        "apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": context.ns},
        "spec": {"workers": workers, "startup": {"dependencies": {
            "install": install_command(modules, blobs), "capture": ["/opt/venv"], **dependencies}},
            "template": {"metadata": {"labels": {"deps-job": name}}, "spec": spec}}})


def pods_of(context, name):
    return sorted(bed.items("pods", context.ns, f"batch.kubernetes.io/job-name={name}-g0"), key=lambda p: p["metadata"]["name"])


def log_of(context, name, rank=0):
    pods = pods_of(context, name)
    bed.expect(len(pods) > rank, f"{name} has {len(pods)} pods")
    return bed.kubectl("logs", pods[rank]["metadata"]["name"], "-n", context.ns)


def await_log(context, name, text, rank=0, timeout=90):
    return bed.wait_for(f"worker {rank} of {name} says {text}",
                        lambda: next((line for line in log_of(context, name, rank).splitlines() if text in line), None), timeout)


def finish(context, name, is_mounted, modules=400):
    """The log of a job that has found its environment, mounted or not."""
    context.wait_phase(name, "Complete", 120)
    log = log_of(context, name)
    bed.expect(("kind overlay" in log) == is_mounted, f"{name}: {log}")
    bed.expect(f"sum {sum(range(200))}\n" in log and f"sum {sum(range(200, modules))}\n" in log and "done" in log, log)
    return log


def remove(context, *names):
    for name in names:
        bed.kubectl("delete", "trainingjob", name, "-n", context.ns, "--timeout=60s")


def pacectl_deps(context, *words, ok=True):
    return bed.run(f"{PROGRAMS}/pacectl", "deps", *words, "--store", f"file://{STORE}", "-n", context.ns, ok=ok)


def snapshots(context):
    code, text = pacectl_deps(context, "ls", "-o", "json", ok=False)
    return json.loads(text) if code == 0 else []


def named(context, name):
    """The snapshot of a DependencySnapshot as the store has it; None when it has none."""
    key = objects(context)[name]["spec"]["key"]
    return next((snapshot for snapshot in snapshots(context) if snapshot["key"] == key), None)


def manifest(digest):
    with open(os.path.join(STORE, "blobs/sha256", digest.split(":")[1]), encoding="utf-8") as file:
        return json.load(file)


def agent_counter(node, line):
    page = in_node(node, "curl", "-s", f"http://127.0.0.1:{nodes.AGENT_PORT}/metrics")
    found = [text for text in page.splitlines() if text.startswith(line)]
    return float(found[0].split()[-1]) if found else 0


def stage_seconds(context, uid):
    def find():
        for run in context.runs(uid):
            for stage in run["status"].get("stages", []):
                if stage["name"] == "Dependencies" and stage.get("workers"):
                    return [stage["maxSeconds"]]  # which may be none at all
        return None
    return bed.wait_for("the run shows the stage Dependencies", find, 30)[0]


def outcome(context, uid, wanted):
    bed.wait_for(f"the run says {wanted}", lambda: any(
        run["status"].get("snapshot", {}).get("outcome") == wanted for run in context.runs(uid)), 30)


def objects(context):
    return {item["metadata"]["name"]: item for item in bed.items("dependencysnapshots", context.ns)}


def worker_dependencies(context, uid, wanted):
    """What the run says of its first worker, once it says `wanted`."""
    def find():
        for run in context.runs(uid):
            for worker in run["status"].get("workers", []):
                if worker.get("dependencies", {}).get("outcome") == wanted:
                    return worker["dependencies"]
        return None
    return bed.wait_for(f"the run says {wanted} of its worker", find, 30)


def await_object(context, name, **wanted):
    """The DependencySnapshot once its status has the `wanted` fields."""
    def find():
        found = objects(context).get(name, {}).get("status", {})
        return found if all(found.get(key) == value for key, value in wanted.items()) else None
    return bed.wait_for(f"{name} says {wanted}", find, 30)


def first_run_is_recorded(context):
    uid = job(context, "first", NODES[0])["metadata"]["uid"]
    line = await_log(context, "first", "paceline-deps:")
    bed.expect("dependencies installed after" in line and "they are being recorded for the next start" in line, line)
    finish(context, "first", False)
    bed.wait_for("the snapshot is there", lambda: len(snapshots(context)) == 1, 60)
    seconds = stage_seconds(context, uid)
    outcome(context, uid, "Recorded")
    told = worker_dependencies(context, uid, "Recorded")
    bed.expect(told["reason"] == "no snapshot yet" and told["seconds"] > 1, told)
    (run,) = context.runs(uid)
    name = run["status"]["snapshot"]["name"]
    stored = snapshots(context)[0]
    status = await_object(context, name, state="Ready", recordedByRun=run["metadata"]["name"], recordedByNode=NODES[0])
    bed.expect(status["sizeBytes"] > 10000 and not status.get("uses") and objects(context)[name]["spec"]["key"] == stored["key"], status)
    inputs = objects(context)[name]["spec"]["inputs"]
    bed.expect(inputs["capture"] == ["/opt/venv"] and "venv" in inputs["install"], inputs)
    told = (run["metadata"]["name"], status["recordedByPod"], "service account default", NODES[0], stored["digest"], stored["key"])
    bed.wait_for("the event of who recorded what", lambda: all(text in context.event_notes(name, "DependenciesRecorded") for text in told), 30)
    bed.expect(stored["recordedBy"] == {"namespace": context.ns, "pod": status["recordedByPod"], "serviceAccount": "default", "node": NODES[0]}, stored)
    pacectl_deps(context, "verify", "--key", f"{KEYS}/trusted.pem")
    remove(context, "first")
    return seconds, name


def kill_the_server(node):
    """Of the one mounted snapshot of a node, at once; readers wait until the holder has another one."""
    def mounts():
        return json.loads(in_node(node, f"{PROGRAMS}/paceline-holder", "list"))["mounts"]
    (mount,) = [mount for mount in mounts() if mount["name"].startswith("deps-")]
    in_node(node, "kill", "-KILL", str(mount["pid"]))


def second_run_mounts_it(context, agents, installed_seconds, name):
    uid = job(context, "second", NODES[1], env={"WAITS": "1"})["metadata"]["uid"]
    line = await_log(context, "second", "paceline-deps:")
    bed.expect("dependencies in place after 0.0 s" in line, line)
    await_log(context, "second", f"sum {sum(range(200))}")
    kill_the_server(NODES[1])
    agents[1].end("KILL")
    pod = pods_of(context, "second")[0]["metadata"]["name"]
    bed.kubectl("exec", pod, "-n", context.ns, "--", "touch", "/opt/venv/go")
    await_log(context, "second", "done")  # half of the modules is read with no agent at all, after a death of their server
    agents[1].start()
    bed.wait_for("the agent is ready again", lambda: is_ready(NODES[1]))
    finish(context, "second", True)
    seconds = stage_seconds(context, uid)
    outcome(context, uid, "Restored")
    told = worker_dependencies(context, uid, "Restored")
    bed.expect(told["seconds"] < 10 and not told.get("reason"), told)
    status = await_object(context, name, state="Ready", uses=1)
    bed.expect(status["lastUsed"] and status["recordedByNode"] == NODES[0], status)
    (run,) = context.runs(uid)
    text = bed.run(f"{PROGRAMS}/pacectl", "run", "explain", run["metadata"]["name"], "-n", context.ns)
    bed.expect("Restored" in text and f"snapshot: {name}" in text, text)
    bed.expect(seconds < installed_seconds / 3, f"{seconds} s after {installed_seconds} s")
    remove(context, "second")
    print(f"        stage Dependencies: {installed_seconds:.2f} s installed and recorded, {seconds:.2f} s mounted", flush=True)


def third_run_fetches_first_what_the_second_read(context):
    """On the node that has recorded and not mounted it, so that it has no chunk of it."""
    def fetched_ahead():
        return agent_counter(NODES[0], 'paceline_dependency_read_bytes_total{source="prefetch"}')
    bed.wait_for("the hot set is in the store", lambda: any(t.startswith("paceline-hot-v1-") for t in os.listdir(os.path.join(STORE, "tags"))), 30)
    before = fetched_ahead()
    job(context, "third", NODES[0], env={"WAITS": "1"})
    await_log(context, "third", f"sum {sum(range(200))}")
    ahead = bed.wait_for("the agent tells of bytes that were fetched ahead", lambda: fetched_ahead() - before, 30)
    bed.kubectl("exec", pods_of(context, "third")[0]["metadata"]["name"], "-n", context.ns, "--", "touch", "/opt/venv/go")
    finish(context, "third", True)
    remove(context, "third")
    print(f"        {ahead:.0f} bytes fetched ahead", flush=True)


def two_workers_make_one_snapshot(context):
    job(context, "pair", workers=2, modules=401)
    lines = [await_log(context, "pair", "paceline-deps:", rank) for rank in (0, 1)]
    context.wait_phase("pair", "Complete", 120)
    bed.wait_for("one more snapshot is there", lambda: len(snapshots(context)) == 2, 60)
    recorded = [line for line in lines if "they are being recorded" in line]
    bed.expect(len(recorded) == 1 or any("another worker has recorded them" in line for line in lines), "\n".join(lines))
    remove(context, "pair")


def an_agent_that_dies_during_the_install_records_it_afterwards(context, agents):
    before = len(snapshots(context))
    job(context, "patient", NODES[0], modules=402)
    pod = bed.wait_for("the install has begun", lambda: next(p for p in pods_of(context, "patient") if p["status"]["phase"] == "Running"))
    agents[0].end("KILL")
    report = ["kubectl", "exec", pod["metadata"]["name"], "-n", context.ns, "--", "cat", "/run/paceline/dependencies/run/report"]
    bed.wait_for("the install is over", lambda: bed.run(*report, ok=False)[0] == 0)
    agents[0].start()
    line = await_log(context, "patient", "paceline-deps:")
    bed.expect("they are being recorded for the next start" in line, line)
    finish(context, "patient", False, 402)
    bed.wait_for("the snapshot is there", lambda: len(snapshots(context)) == before + 1, 60)
    remove(context, "patient")


def an_agent_that_dies_while_it_records_leaves_all_or_nothing(context, agents):
    before = len(snapshots(context))
    big = {"modules": 500, "blobs": 200}  # some seconds' work
    job(context, "killed", NODES[0], **big)
    await_log(context, "killed", "they are being recorded for the next start", timeout=180)
    agents[0].end("KILL")
    after = len(snapshots(context))
    bed.run(f"{PROGRAMS}/pacectl", "deps", "verify", "--store", f"file://{STORE}", "-n", context.ns)
    await_log(context, "killed", "done")
    bed.expect(len(snapshots(context)) == after, "somebody has published what a dead agent had begun")
    agents[0].start()
    bed.wait_for("the agent is ready again", lambda: is_ready(NODES[0]))
    finish(context, "killed", False, 500)
    remove(context, "killed")
    print(f"        killed while it recorded: {'the snapshot was whole' if after > before else 'no snapshot'}", flush=True)
    job(context, "again", NODES[0], **big)
    finish(context, "again", after > before, 500)
    bed.wait_for("the snapshot is there", lambda: len(snapshots(context)) == before + 1, 120)
    remove(context, "again")
    job(context, "then", NODES[1], **big)
    finish(context, "then", True, 500)
    remove(context, "then")


def without_the_store_the_install_runs(context, name):
    os.rename(STORE, STORE + ".away")
    with open(STORE, "w", encoding="utf-8"):
        pass  # what is no folder can be made by nobody
    try:
        uid = job(context, "alone", NODES[1])["metadata"]["uid"]
        line = await_log(context, "alone", "paceline-deps:")
        bed.expect("dependencies installed after" in line and "not recorded" in line, line)
        finish(context, "alone", False)
        told = worker_dependencies(context, uid, "FellBack")
        bed.expect("cannot be used" in told["reason"] and "not recorded" in told["reason"], told)
        (run,) = context.runs(uid)
        bed.expect("1 of 1 workers installed" in run["status"]["snapshot"]["reason"], run["status"]["snapshot"])
        await_object(context, name, state="Ready")  # a store that is away says nothing about what is in it
    finally:
        os.unlink(STORE)
        os.rename(STORE + ".away", STORE)
    remove(context, "alone")


def what_nobody_has_signed_is_put_aside_and_recorded_anew(context, name):
    """Somebody who may write to the store has put something of his own there: it has no good signature."""
    before = named(context, name)["digest"]
    os.unlink(os.path.join(STORE, "tags", "paceline-sig-v1-" + before.split(":")[1]))
    code, text = pacectl_deps(context, "verify", "--key", f"{KEYS}/trusted.pem", ok=False)
    bed.expect(code == 3 and "it is not signed" in text, text)
    uid = job(context, "unsigned", NODES[1])["metadata"]["uid"]
    line = await_log(context, "unsigned", "paceline-deps:")
    bed.expect("dependencies installed after" in line and "they are being recorded" in line, line)
    bed.wait_for("the event of the quarantine", lambda: "it is not signed" in context.event_notes(name, "NotTrusted"), 30)
    finish(context, "unsigned", False)
    told = worker_dependencies(context, uid, "Recorded")
    bed.expect("it is not signed" in told["reason"], told)
    status = await_object(context, name, state="Ready", recordedByNode=NODES[1])
    bed.expect(status["digest"] != before and agent_counter(NODES[1], 'paceline_dependency_quarantines_total{cause="NotTrusted"}') == 1, status)
    pacectl_deps(context, "verify", "--key", f"{KEYS}/trusted.pem")
    remove(context, "unsigned")
    job(context, "signed", NODES[0])
    finish(context, "signed", True)
    remove(context, "signed")


def what_has_lost_bytes_is_put_aside_until_it_is_lifted(context):
    """Under a running pod, which gets an I/O error: nobody else should."""
    job(context, "whole", NODES[0], modules=404)
    finish(context, "whole", False, 404)
    (run,) = [run for run in bed.items("trainingruns", context.ns) if run["metadata"]["name"].startswith("whole")]
    name = bed.wait_for("the run names its snapshot", lambda: bed.get("trainingrun", run["metadata"]["name"], context.ns)["status"].get("snapshot", {}).get("name"), 30)
    await_object(context, name, state="Ready")
    remove(context, "whole")
    data = [layer["digest"] for layer in manifest(named(context, name)["digest"])["layers"] if layer["mediaType"].endswith(".data.v1")]
    blobs = [os.path.join(STORE, "blobs/sha256", digest.split(":")[1]) for digest in data]
    blob = max(blobs, key=os.path.getmtime)  # the others are those of snapshots before
    with open(blob, "rb") as file:
        right = file.read()
    with open(blob, "wb") as file:
        file.write(bytes(byte ^ 1 for byte in right))
    job(context, "hurt", NODES[1], modules=404)
    await_object(context, name, state="Quarantined")
    bed.wait_for("the event of the quarantine", lambda: "no right bytes" in context.event_notes(name, "Damaged"), 30)
    bed.expect(named(context, name)["state"] == "quarantined" and "no right bytes" in pacectl_deps(context, "show", objects(context)[name]["spec"]["key"]), "pacectl")
    remove(context, "hurt")
    with open(blob, "wb") as file:
        file.write(right)
    pacectl_deps(context, "lift", objects(context)[name]["spec"]["key"][:12])
    job(context, "healed", NODES[0], modules=404)
    finish(context, "healed", True, 404)
    await_object(context, name, state="Ready")
    remove(context, "healed")


def what_has_ended_goes_but_not_under_a_pod(context):
    blobs = lambda: set(os.listdir(os.path.join(STORE, "blobs/sha256")))  # noqa: E731
    before, before_blobs = len(snapshots(context)), blobs()
    job(context, "brief", NODES[0], modules=405, ttl="30s")
    finish(context, "brief", False, 405)
    bed.wait_for("the snapshot is there", lambda: len(snapshots(context)) == before + 1, 60)
    remove(context, "brief")
    job(context, "holds", NODES[1], modules=405, ttl="30s", env={"WAITS": "1"})
    await_log(context, "holds", f"sum {sum(range(200))}")
    uses = lambda: [tag for tag in os.listdir(os.path.join(STORE, "tags")) if tag.startswith("paceline-use-v1-")]  # noqa: E731
    bed.wait_for("the node says what it uses", uses, 30)
    (snapshot,) = [found for found in snapshots(context) if found["expires"] == min(s["expires"] for s in snapshots(context))]
    bed.wait_for("its end and the grace are over", lambda: bed.run("date", "-u", "-d", "-8 sec", "+%Y-%m-%dT%H:%M:%SZ").strip() > snapshot["expires"], 60)
    bed.expect(snapshot["key"] in {found["key"] for found in snapshots(context)}, "removed under a pod")
    bed.kubectl("exec", pods_of(context, "holds")[0]["metadata"]["name"], "-n", context.ns, "--", "touch", "/opt/venv/go")
    finish(context, "holds", True, 405)
    remove(context, "holds")
    bed.wait_for("the snapshot is gone", lambda: len(snapshots(context)) == before and not uses(), 60)
    bed.wait_for("and what was its own in the store", lambda: blobs() <= before_blobs, 30)


def what_must_not_travel_is_told(context):
    """An install that leaves a password: nothing is stored, the object says why, and an event does."""
    before = len(snapshots(context))
    leak = "echo 'index-url = https://me:hunter2@index.test/simple' > /opt/venv/pip.conf\n"
    uid = job(context, "leaky", NODES[0], install=install_command() + leak)["metadata"]["uid"]
    line = await_log(context, "leaky", "paceline-deps:")
    # The program does not wait for what is found in the files.
    bed.expect("being recorded" in line or ("not recorded" in line and "/opt/venv/pip.conf" in line), line)
    finish(context, "leaky", False)
    told = worker_dependencies(context, uid, "Installed")
    bed.expect("pip.conf" in told["reason"], told)
    (run,) = context.runs(uid)
    name = run["status"]["snapshot"]["name"]
    await_object(context, name, state="Failed")
    bed.wait_for("the event of the failure", lambda: "pip.conf" in context.event_notes(name, "NotRecorded"), 30)
    bed.expect(len(snapshots(context)) == before, "stored all the same")
    remove(context, "leaky")


def a_restarted_operator_changes_nothing(context, flags):
    """Nothing is counted or told twice."""
    def picture():
        return {name: (item["status"]["state"], item["status"].get("uses"), item["metadata"]["uid"])
                for name, item in objects(context).items()}
    before = picture()
    bed.expect(len(before) >= 3, before)
    context.operators[-1].stop()
    port = bed.free_port()
    context.start_hooked("x", *flags, f"--metrics-port={port}")

    def metrics():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
            return page.read().decode()
    bed.wait_for("it has looked at the snapshots", lambda: 'reconcile_total{controller="dependencysnapshot",result="success"}' in metrics(), 60)
    bed.expect(picture() == before, f"{before} became {picture()}")


def what_cannot_be_cached_is_said(context):
    before = len(snapshots(context))
    job(context, "opaque", NODES[0], container={"envFrom": [{"configMapRef": {"name": "none", "optional": True}}]})
    context.wait_phase("opaque", "Failed", 120)  # without the volume nothing is mounted at /opt/venv, which the program wants
    log = log_of(context, "opaque")
    bed.expect("dependencies installed after" in log, log)
    bed.wait_for("the job's event", lambda: "envFrom" in context.event_notes("opaque", "DependenciesNotCacheable"), 30)
    bed.expect(len(snapshots(context)) == before, "recorded all the same")
    remove(context, "opaque")


def an_annotated_job_mounts_it_too(context):
    """With an input in a ConfigMap."""
    before = len(snapshots(context))
    bed.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inputs", "namespace": context.ns}, "data": {"requirements.txt": "wide==1.0\n"}})
    wanted = {**ENABLED, "paceline.dev/dependencies-install": install_command(), "paceline.dev/dependencies-capture": "/opt/venv",
              "paceline.dev/dependencies-inputs": "/inputs/requirements.txt"}
    for name in ("annotated-a", "annotated-b"):
        container = {"name": "main", "image": bed.PYTHON, "command": ["python3", "-u", "-c", USE.replace("MODULES", "400")],
                     "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}, "volumeMounts": [{"name": "inputs", "mountPath": "/inputs"}]}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container],
                "volumes": [{"name": "inputs", "configMap": {"name": "inputs"}}]}
        bed.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": context.ns, "annotations": wanted},
                    "spec": {"completionMode": "Indexed", "completions": 1, "parallelism": 1, "backoffLimit": 0, "template": {"spec": spec}}})
        selector = f"batch.kubernetes.io/job-name={name}"
        pods = lambda: bed.items("pods", context.ns, selector)  # noqa: E731, B023
        bed.wait_for(f"{name} is over", lambda: pods() and all(p["status"]["phase"] == "Succeeded" for p in pods()), 120)
        bed.wait_for("the snapshot is there", lambda: len(snapshots(context)) == before + 1, 60)
        log = bed.kubectl("logs", pods()[0]["metadata"]["name"], "-n", context.ns)
        bed.expect(("in place" in log) == (name == "annotated-b"), log)
    bed.kubectl("delete", "jobs", "annotated-a", "annotated-b", "-n", context.ns, "--timeout=60s", "--cascade=foreground")


def a_command_of_the_image_runs_behind_the_wrapper(context):
    folder = os.path.join(WORK, "rootfs")
    os.makedirs(os.path.join(folder, "app"))
    with open(os.path.join(folder, "app", "main.py"), "w", encoding="utf-8") as file:
        file.write(USE.replace("MODULES", "400"))
    bed.run(TESTBED, "image", "deps-tool:1", folder, "--base", "python", "--cmd", "python3", "--cmd", "/app/main.py", timeout=120)
    job(context, "tool", NODES[1], container={"image": "registry.test:5000/deps-tool:1", "command": None})
    line = await_log(context, "tool", "paceline-deps:")
    bed.expect("dependencies installed after" in line and "they are being recorded" in line, line)
    finish(context, "tool", False)
    remove(context, "tool")


def a_registry_keeps_them_as_well(context, agents):
    job(context, "remote", NODES[0], modules=403)
    line = await_log(context, "remote", "paceline-deps:")
    bed.expect("they are being recorded for the next start" in line, line)
    finish(context, "remote", False, 403)
    bed.wait_for("the snapshot is in the registry", lambda: "dependencies recorded" in agents[0].text(), 60)
    bed.expect(agents[0].text().count("agents remove no dependency snapshots from this store") == 1, "said once that a registry is left alone")
    remove(context, "remote")
    job(context, "fetched", NODES[1], modules=403)
    finish(context, "fetched", True, 403)
    remove(context, "fetched")


def nothing_is_left():
    for node in NODES:
        def left(node=node):
            lines = in_node(node, "cat", "/proc/self/mounts").splitlines()
            return [line for line in lines if " /run/paceline/images/" in line or (" /var/lib/kubelet/" in line and " overlay " in line)]
        bed.wait_for(f"no mount is left on {node}", lambda: not left(), 30)
        held = in_node(node, f"{PROGRAMS}/paceline-holder", "list")
        bed.expect('"mounts":[]' in held, f"{node}: {held}")
        folders = "cd /var/lib/paceline && ls deps deps-new deps-state 2>/dev/null | grep -v : | tr -d '\\n'"
        bed.wait_for(f"no folder is left on {node}", lambda node=node: in_node(node, "sh", "-c", folders).strip() == "", 30)


def check(context):
    make_keys()
    holders, agents = processes()
    try:
        with nodes.running(context, holders, agents):
            flags = [f"--registry-hosts-folder={hosts_folder()}"]
            context.start_hooked("w", *flags)
            installed_seconds, name = first_run_is_recorded(context)
            second_run_mounts_it(context, agents, installed_seconds, name)
            third_run_fetches_first_what_the_second_read(context)
            what_nobody_has_signed_is_put_aside_and_recorded_anew(context, name)
            two_workers_make_one_snapshot(context)
            what_has_lost_bytes_is_put_aside_until_it_is_lifted(context)
            what_has_ended_goes_but_not_under_a_pod(context)
            without_the_store_the_install_runs(context, name)
            what_must_not_travel_is_told(context)
            a_restarted_operator_changes_nothing(context, flags)
            what_cannot_be_cached_is_said(context)
            an_annotated_job_mounts_it_too(context)
            an_agent_that_dies_during_the_install_records_it_afterwards(context, agents)
            an_agent_that_dies_while_it_records_leaves_all_or_nothing(context, agents)
            a_command_of_the_image_runs_behind_the_wrapper(context)
            for agent in agents:
                agent.end("TERM")
            agents[:] = agents_with_a_registry(context)
            for agent in agents:
                agent.start()
            nodes.await_agents(" again")
            a_registry_keeps_them_as_well(context, agents)
            nothing_is_left()
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(nodes.run_check("dependencies_are_installed_once", "deps", ("KUBECONFIG", "REGISTRY_ADDRESS"),
                             "scripts/testbed up kubernetes --nodes 2", check, (f"dependencies.store=file://{STORE}",)))
