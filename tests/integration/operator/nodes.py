"""Programs as processes on the nodes of the test bed, for checks of what only a node can show."""
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import traceback

import bed
import roles

TESTBED = os.path.join(bed.ROOT, "scripts", "testbed")
PROGRAMS = os.path.dirname(bed.PROGRAM)
NODES = ("n1", "n2")
AGENT_PORT = 19464


class Skip(Exception):
    """A check that cannot run here, and why."""


class NodeProcess:
    """A program on one node, started through scripts/testbed exec; its log quotes itself in failures."""

    _logs = tempfile.TemporaryDirectory(prefix="paceline-nodes-")

    def __init__(self, node, name, command):
        self.node, self.name, self.command = node, name, command
        self.pid_file = f"/run/paceline-test-{name}.pid"
        self.log = os.path.join(self._logs.name, f"{node}-{name}.log")
        self.process = None

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            script = f"echo $$ > {self.pid_file}; exec {self.command}"
            self.process = subprocess.Popen([TESTBED, "exec", self.node, "--", "sh", "-c", script], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)

    def end(self, signal, timeout=60):
        if self.process is None:
            return
        bed.run(TESTBED, "exec", self.node, "--", "sh", "-c", f"kill -{signal} $(cat {self.pid_file})", ok=False)
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise bed.Failure(f"{self.name} on {self.node} did not end") from None
        self.process = None

    def text(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def tail(self):
        lines = self.text().splitlines(keepends=True)
        return f"--- {self.node} {self.name}\n" + "".join(lines[-12:]) if lines else ""


def in_node(node, *command):
    return bed.run(TESTBED, "exec", node, "--", *command, ok=False)[1]


def agents(*arguments, where=NODES):
    """One for each node, not started."""
    return [NodeProcess(node, "agent", " ".join((
        f"{PROGRAMS}/paceline-agent", "--node-name", node, "--kubeconfig", roles.kubeconfig("agent", node), "--metrics-port", str(AGENT_PORT),
        "--advertise-address", address_of(node),
        "--trace-plugin", os.path.realpath(f"{PROGRAMS}/../lib/libnccl-profiler-paceline.so"), "--stage-period", "500ms", "--clean-up-period", "5s", *arguments))) for node in where]


def address_of(node):
    addresses = bed.get("node", node)["status"]["addresses"]
    return next(a["address"] for a in addresses if a["type"] == "InternalIP")


def is_ready(node):
    return "ok" in in_node(node, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{AGENT_PORT}/readyz").replace("200", "ok")


def await_agents(again=""):
    for node in NODES:
        bed.wait_for(f"the agent of {node} is ready{again}", lambda node=node: is_ready(node))


@contextlib.contextmanager
def running(context, holders, agents):
    """Both lists run until the end of the block, which may put others into `agents`; then the jobs and pods of the namespace go,
    and after them the processes. A failure quotes their logs."""
    try:
        for process in holders + agents:
            process.start()
        await_agents()
        yield
    except bed.Failure as error:
        raise bed.Failure(str(error) + "\n" + "\n".join(p.tail() for p in holders + agents)) from error
    finally:
        bed.kubectl("delete", "trainingjobs,jobs", "--all", "-n", context.ns, "--wait=false", ok=False)
        bed.wait_for("the pods are gone", lambda: not bed.items("pods", context.ns), 60)
        for process in agents + holders:
            process.end("TERM")


def install(*settings):
    """CRDs, our namespace, the CSI driver, and the chart's accounts and roles, rendered with `settings`."""
    crdgen = os.path.join(PROGRAMS, "paceline-crdgen")
    bed.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=bed.run(crdgen, "print"))
    bed.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    bed.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bed.SYSTEM}})
    bed.kubectl("delete", "lease", "-n", bed.SYSTEM, "paceline-operator", "--ignore-not-found")
    bed.apply({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "csi.paceline.dev"},
               "spec": {"attachRequired": False, "podInfoOnMount": True, "requiresRepublish": True, "fsGroupPolicy": "None",
                        "volumeLifecycleModes": ["Ephemeral", "Persistent"]}})
    roles.install(*settings)


def uninstall():
    bed.kubectl("delete", "csidriver", "csi.paceline.dev", "--ignore-not-found")


def nothing_is_refused(audit):
    """The last check of a program: in what all others have done the chart's roles have lacked nothing. True when that is so."""
    try:
        audit.check()
        print("ok      the_roles_of_the_chart_are_enough", flush=True)
        return True
    except bed.Failure as error:
        print(f"FAILED  the_roles_of_the_chart_are_enough: {error}", flush=True)
        return False


def serves_lazily(node):
    """Whether the plugin for lazy images answers there."""
    return in_node(node, "curl", "-s", "http://127.0.0.1:9465/healthz").strip() == "ok"


def forget_images(node):
    """As if the node had never seen an image. The pods of the tests are gone; the kubelet removes a dead container of a pod that
    has gone at its next look at times, up to a minute later, and until then the container keeps its image's snapshots."""
    left = "ctr -n k8s.io containers ls -q 'labels.\"io.kubernetes.pod.namespace\"!=kube-system' 2>/dev/null"  # it writes warnings of its own
    bed.wait_for(f"no container is left on {node}", lambda: not in_node(node, "sh", "-c", left).strip(), 120)
    in_node(node, "sh", "-c", "ctr -n k8s.io images rm --sync $(ctr -n k8s.io images ls -q | grep -v /pause)")


def need_lazy_nodes():
    """For the first line of a check."""
    if not serves_lazily(NODES[0]):
        raise Skip("the nodes have no plugin; start scripts/testbed up --lazy-snapshotter PROGRAM and eval its env")


def run_check(name, prefix, variables, hint, check, settings=()):
    """One check as a program of its own; see run_checks."""
    return run_checks([(name, check)], prefix, variables, hint, settings)


def run_checks(checks, prefix, variables, hint, settings=()):
    """Checks (name, function of a context) as a program of their own: sets up with `settings` of the chart, runs one after the
    other, tells and tidies up. Gives the exit code."""
    if not all(os.environ.get(variable) for variable in variables):
        print(f"skipped: no {' or no '.join(variables)}; start {hint} and eval its env")
        print(f"0 passed, 0 failed, {len(checks)} skipped")
        return 0
    audit = roles.Audit()
    install(*settings)
    failed = skipped = 0
    for number, (name, check) in enumerate(checks):
        started = time.monotonic()
        context = bed.Context(f"{prefix}-{number}-{int(time.time()) % 100000}")
        try:
            context.set_up()
            check(context)
            print(f"ok      {name} ({time.monotonic() - started:.1f} s)", flush=True)
        except Skip as reason:
            skipped += 1
            print(f"SKIP {name}: {reason}", flush=True)
        except (bed.Failure, subprocess.TimeoutExpired, AssertionError, KeyError, TypeError, IndexError, ValueError) as error:
            if not isinstance(error, bed.Failure):
                traceback.print_exc(file=sys.stdout)
            failed += 1
            print(f"FAILED  {name}: {error}\n{context.describe()}", flush=True)
        finally:
            context.tear_down()
    uninstall()
    count = len(checks)
    if audit.has_subject():
        count += 1
        failed += not nothing_is_refused(audit)
    print(f"{count - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0
