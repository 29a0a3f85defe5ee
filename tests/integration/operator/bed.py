"""What the operator's integration checks use: the operator as a process, kubectl, waiting."""
import collections
import datetime
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PROGRAM = os.environ.get("PACELINE_OPERATOR", os.path.join(ROOT, "build", "bin", "paceline-operator"))
SYSTEM = "paceline-system"
# Names of the chart, whose roles allow the operator these and no others.
HOOK, HOOK_SECRET = "paceline", "paceline-webhook-certificate"
PYTHON = "registry.test:5000/python:1"
BUSYBOX = "registry.test:5000/busybox:1"

CHECKS = []


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


class Failure(Exception):
    """A check's claim does not hold."""


def check(function):
    CHECKS.append(function)
    return function


def run(*command, stdin=None, timeout=60, ok=True):
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout)
    if not ok:
        return done.returncode, done.stdout + done.stderr
    if done.returncode != 0:
        raise Failure(f"exit {done.returncode}: {' '.join(command)}\n{(done.stdout + done.stderr).strip()[-1500:]}")
    return done.stdout


def kubectl(*arguments, **options):
    return run("kubectl", "--request-timeout=20s", *arguments, **options)


def apply(obj, output="name", **options):
    return kubectl("apply", "--server-side", "--force-conflicts", "-o", output, "-f", "-", stdin=json.dumps(obj), **options)


def create(obj):
    return json.loads(kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(obj)))


def get(kind, name, ns=None):
    """The object, or None."""
    code, text = kubectl("get", kind, name, "-o", "json", "--ignore-not-found", *(("-n", ns) if ns else ()), ok=False)
    if code != 0:
        raise Failure(text.strip()[-500:])
    return json.loads(text) if text.strip() else None


def items(kind, ns, selector=None):
    return json.loads(kubectl("get", kind, "-n", ns, "-o", "json", *(("-l", selector) if selector else ())))["items"]


def patch_status(kind, name, ns, status):
    scope = ("-n", ns) if ns else ()
    kubectl("patch", kind, name, *scope, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


def wait_for(what, condition, timeout=60):
    """Repeats until the condition returns something true. A Failure inside counts as not yet, and so does a field or an
    object that is not there: what has just been made has no status for a moment. Returns what was true."""
    end = time.monotonic() + timeout
    last = ""
    while True:
        try:
            value = condition()
            if value:
                return value
        except (Failure, KeyError, StopIteration) as error:
            last = f" (last: {type(error).__name__} {error})"
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {timeout} s{last}")
        time.sleep(0.25)


def expect(is_true, text):
    if not is_true:
        raise Failure(text)


def condition(obj, kind):
    for entry in (obj or {}).get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return entry
    return {}


def phase(obj):
    return (obj or {}).get("status", {}).get("phase")


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Operator:
    """One operator process; its log goes to a file that failures quote."""

    kubeconfig = None  # of its account (see roles.py); None: the caller's own
    started = 0        # of this program

    def __init__(self, name, *flags):
        self.log = tempfile.NamedTemporaryFile("w+", prefix=f"operator-{name}-", suffix=".log", delete=False)
        own = ["--metrics-address=127.0.0.1", "--metrics-port=0", "--page-port=0"]
        if self.kubeconfig:
            own.append(f"--kubernetes-kubeconfig={self.kubeconfig}")
        given = {flag.split("=")[0] for flag in flags}
        Operator.started += 1
        self.process = subprocess.Popen(
            [PROGRAM, f"--namespace={SYSTEM}", f"--identity={name}-{random.randrange(1 << 30)}", "--log-format=json",
             *(flag for flag in own if flag.split("=")[0] not in given), *flags],
            stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def has_logged(self, text):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return text in file.read()

    def is_leading(self):
        return self.process.poll() is None and self.has_logged('"leading"')

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, timeout=30):
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise Failure(f"no end within {timeout} s of SIGTERM") from error

    def tail(self, lines=25):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return "".join(collections.deque(file, lines))

    def close(self):
        # The short way first: it gives the Lease back, and the next check need not wait for its end.
        try:
            self.stop(10)
        except Failure:
            pass
        self.log.close()
        os.unlink(self.log.name)


class Context:
    """One check: its namespace and its operators."""

    def __init__(self, ns):
        self.ns = ns
        self.operators = []
        self.is_hooked = False

    def set_up(self):
        apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.ns}})
        testbed = os.path.join(ROOT, "scripts", "testbed")
        run(testbed, "pull-secret", self.ns, "--service-account", "default")

    def start(self, name="a", *flags, webhook=False):
        operator = Operator(name, *flags, *(() if webhook else ("--webhook-enabled=false", "--page-enabled=false")))
        self.operators.append(operator)
        return operator

    def start_leading(self, name="a", *flags, timeout=60, webhook=False):
        operator = self.start(name, *flags, webhook=webhook)
        wait_for(f"operator {name} leads", operator.is_leading, timeout)
        return operator

    def make_hook(self, client_config, failure_policy="Ignore"):
        """Lets the API server call the webhook for the pods of this namespace."""
        self.is_hooked = True
        apply({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": HOOK}, "webhooks": [{
            "name": "pods.paceline.dev", "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun", "failurePolicy": failure_policy,
            "timeoutSeconds": 5, "reinvocationPolicy": "IfNeeded", "clientConfig": client_config,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.ns}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "Namespaced"}]}]})

    def start_hooked(self, name="w", *flags):
        """A leading operator whose webhook the API server calls for the pods of this namespace."""
        address, port = os.environ["PACELINE_TESTBED_MACHINE_IP"], free_port()
        apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": HOOK_SECRET, "namespace": SYSTEM}, "type": "Opaque"})
        self.make_hook({"url": f"https://{address}:{port}/mutate-pods"})
        operator = self.start_leading(name, f"--webhook-port={port}", f"--webhook-ip-addresses={address}", *flags, webhook=True)
        wait_for("the webhook is served", lambda: operator.has_logged('"webhook served"'), 60)
        wait_for("the API server trusts it", lambda: get("mutatingwebhookconfiguration", HOOK)["webhooks"][0]["clientConfig"].get("caBundle"))
        return operator

    def describe(self):
        text = []
        for operator in self.operators:
            text.append(f"--- log of {operator.log.name}\n{operator.tail()}")
        _, objects = kubectl("get", "trainingjobs,trainingruns,jobs,pods", "-n", self.ns, ok=False)
        return "\n".join(text + ["--- objects", objects])

    def tear_down(self):
        for operator in self.operators:
            operator.close()
        if self.is_hooked:
            kubectl("delete", "mutatingwebhookconfiguration", HOOK, "--ignore-not-found")
            kubectl("delete", "secret", "-n", SYSTEM, HOOK_SECRET, "--ignore-not-found")
        kubectl("delete", "namespace", self.ns, "--wait=false", ok=False)

    # A TrainingJob whose workers meet over TCP through MASTER_ADDR, then end; no image but Python.
    def training_job(self, name, workers=2, script=None, **spec):
        container = {
            "name": "main", "image": PYTHON, "command": ["python3", "-u", "-c", script or MEET],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
        return create({
            "apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": self.ns},
            "spec": {"workers": workers,
                     "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}, **spec}})

    def job(self, name):
        return get("trainingjob", name, self.ns)

    def runs(self, uid):
        return [run_ for run_ in items("trainingruns", self.ns) if run_["spec"]["job"]["uid"] == uid]

    def wait_phase(self, name, wanted, timeout=120):
        return wait_for(f"TrainingJob {name} {wanted}", lambda: (lambda j: j if phase(j) == wanted else None)(self.job(name)), timeout)

    def wait_run(self, uid, wanted, generation=0, timeout=60):
        def find():
            for run_ in self.runs(uid):
                if run_["spec"]["generation"] == generation and phase(run_) == wanted:
                    return run_
            return None
        return wait_for(f"run {generation} {wanted}", find, timeout)

    def event_notes(self, name, reason):
        found = [e for e in items("events", self.ns) if e["involvedObject"]["name"] == name and e["reason"] == reason]
        return "\n".join(e.get("message", "") for e in found)


# Rank 0 waits for all others; everybody ends well only when all have met.
MEET = """
import os, socket, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert os.environ["NODE_RANK"] == os.environ["RANK"] and os.environ["PACELINE_RUN"], os.environ
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(("", address[1]))
    server.settimeout(90)
    peers = [server.accept()[0] for _ in range(world - 1)]
    for peer in peers:
        peer.sendall(b"go")
else:
    end = time.time() + 90
    while True:
        try:
            peer = socket.create_connection(address, timeout=5)
            break
        except OSError:
            if time.time() > end:
                raise
            time.sleep(0.2)
    assert peer.recv(2) == b"go"
print("met", rank)
"""
SLEEP = "import time; time.sleep(600)"
