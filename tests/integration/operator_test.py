#!/usr/bin/env python3
"""The operator as a process against a real Kubernetes (scripts/testbed, at least one node).

  eval "$(scripts/testbed env)"; tests/integration/operator_test.py [NAME...]

Runs the checks of tests/integration/operator/ one after the other, each in a namespace of its own, and ends with
"N passed, N failed, N skipped". Without KUBECONFIG all are skipped, and so are those named in PACELINE_SKIP_CHECKS.
The operator runs as the chart's ServiceAccount; the last check is that its roles were enough for all the others.
"""
import os
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import checks_certificates  # noqa: E402,F401
import checks_foreign  # noqa: E402,F401
import checks_jobs  # noqa: E402,F401
import checks_runtime  # noqa: E402,F401
import nodes  # noqa: E402
import roles  # noqa: E402


def install():
    """CRDs, our namespace, and the chart's accounts and roles."""
    crdgen = os.path.join(os.path.dirname(bed.PROGRAM), "paceline-crdgen")
    bed.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=bed.run(crdgen, "print"))
    bed.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bed.SYSTEM}})
    # The job kinds' own, as their projects publish them; no controller belongs to them here.
    build = os.path.join(bed.ROOT, "scripts", "testbed")
    bed.run(build, "build", "--quiet", "crds", timeout=300)
    bed.kubectl("apply", "--server-side", "--force-conflicts", "-f", bed.run(build, "build", "--path", "crds").strip())
    bed.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    bed.kubectl("delete", "lease", "-n", bed.SYSTEM, "paceline-operator", "--ignore-not-found")
    roles.install()


def run_one(number, function):
    """One check in its namespace: passed, failed or skipped."""
    if function.__name__ in os.environ.get("PACELINE_SKIP_CHECKS", "").split():
        print(f"SKIP {function.__name__}: named in PACELINE_SKIP_CHECKS", flush=True)
        return "skipped"
    started = time.monotonic()
    context = bed.Context(f"op-{number}-{int(time.time()) % 100000}")
    try:
        context.set_up()
        function(context)
        print(f"ok      {function.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
        return "passed"
    except (bed.Failure, subprocess.TimeoutExpired, AssertionError, KeyError, TypeError, IndexError) as error:
        print(f"FAILED  {function.__name__}: {error}", flush=True)
        if not isinstance(error, bed.Failure):
            traceback.print_exc(file=sys.stdout)
        print(context.describe(), flush=True)
        return "failed"
    finally:
        context.tear_down()


def main():
    wanted = sys.argv[1:]
    checks = [c for c in bed.CHECKS if not wanted or c.__name__ in wanted]
    if not os.environ.get("KUBECONFIG"):
        print("skipped: no KUBECONFIG; start scripts/testbed up and eval its env")
        print(f"0 passed, 0 failed, {len(checks)} skipped")
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    audit = roles.Audit()
    install()
    for number, function in enumerate(checks):
        counts[run_one(number, function)] += 1
    if audit.has_subject():
        counts["passed" if nodes.nothing_is_refused(audit) else "failed"] += 1
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

