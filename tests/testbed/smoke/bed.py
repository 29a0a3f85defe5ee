"""What the smoke checks use: commands with deadlines, kubectl, waiting, and the list of checks."""
import json
import os
import subprocess
import time

SOURCE = os.path.dirname(os.path.realpath(__file__))
TESTBED = os.path.join(SOURCE, "..", "main")
MANIFESTS = os.path.join(SOURCE, "manifests")
NAMESPACE = "smoke"
BUSYBOX = "registry.test:5000/busybox:1"
PYTHON = "registry.test:5000/python:1"

CHECKS = []


class Failure(Exception):
    """A check's claim does not hold."""


class Skip(Exception):
    """A check cannot be made here; the text says why."""


# What the environment of the instance must name for a check of that part.
PART_SIGNS = {"kubernetes": "KUBECONFIG", "hdfs": "HDFS_URI"}


def check(name, part="kubernetes"):
    def register(function):
        def when_up():
            if PART_SIGNS[part] not in os.environ:
                raise Skip(f"part {part} is not up")
            function()

        CHECKS.append((name, when_up))
        return function

    return register


def run(*command, timeout=60, stdin=None, ok=True):
    """Runs a command; returns its standard output, or with ok=False (exit status, all output)."""
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"no end within {timeout} s: {' '.join(command)}") from error
    if not ok:
        return done.returncode, done.stdout + done.stderr
    if done.returncode != 0:
        raise Failure(f"exit {done.returncode}: {' '.join(command)}\n{(done.stdout + done.stderr).strip()[-1500:]}")
    return done.stdout


def testbed(*arguments, timeout=120):
    return run(TESTBED, *arguments, timeout=timeout)


def kubectl(*arguments, **options):
    return run("kubectl", "--namespace", NAMESPACE, *arguments, **options)


def apply(manifest, **values):
    """Applies a manifest of the folder; @NAME@ in it is replaced by values."""
    with open(os.path.join(MANIFESTS, manifest), encoding="utf-8") as file:
        text = file.read()
    for key, value in values.items():
        text = text.replace(f"@{key.upper()}@", str(value))
    kubectl("apply", "-f", "-", stdin=text)


def get(kind, name, path=None):
    """The object, or what a path of keys leads to in it (None where it ends)."""
    value = json.loads(kubectl("get", kind, name, "-o", "json"))
    for key in path or ():
        value = value.get(key) if isinstance(value, dict) else None
    return value


def wait_for(what, condition, timeout=60):
    """Repeats until the condition returns something true; a Failure inside counts as not yet."""
    end = time.monotonic() + timeout
    last = ""
    while True:
        try:
            value = condition()
            if value:
                return value
        except Failure as error:
            last = f" (last: {error})"
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {timeout} s{last}")
        time.sleep(0.2)


def wait_ready(pod, timeout=60):
    kubectl("wait", "--for=condition=Ready", f"pod/{pod}", f"--timeout={timeout}s", timeout=timeout + 5)


def wait_complete(job, timeout=60):
    kubectl("wait", "--for=condition=Complete", f"job/{job}", f"--timeout={timeout}s", timeout=timeout + 5)


def exec_in(pod, *command, **options):
    return kubectl("exec", pod, "--", *command, **options)


def nodes(ready_only=True):
    items = json.loads(run("kubectl", "get", "nodes", "-l", "paceline.dev/testbed-node", "-o", "json"))["items"]
    names = []
    for item in items:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in item["status"]["conditions"])
        if ready or not ready_only:
            names.append(item["metadata"]["name"])
    return sorted(names)


def second_node():
    names = nodes()
    if len(names) < 2:
        raise Skip("needs two nodes")
    return names[1]
