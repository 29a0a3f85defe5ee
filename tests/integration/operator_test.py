#!/usr/bin/env python3
"""The operator as a process against a real Kubernetes (scripts/testbed, at least one node).

  eval "$(scripts/testbed env)"; tests/integration/operator_test.py [NAME...]

Runs the checks of tests/integration/operator/ one after the other, each in a namespace of its own, and ends with
"N passed, N failed, N skipped". Without KUBECONFIG all are skipped, and so are those named in PACELINE_SKIP_CHECKS.
"""
import os
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import checks_foreign  # noqa: E402,F401
import checks_jobs  # noqa: E402,F401
import checks_runtime  # noqa: E402,F401


def install():
    """CRDs, our namespace and the rights of a process with an admin's kubeconfig."""
    crdgen = os.path.join(os.path.dirname(bed.PROGRAM), "paceline-crdgen")
    bed.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=bed.run(crdgen, "print"))
    bed.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bed.SYSTEM}})
    data = os.path.join(bed.ROOT, "tests", "data", "crds")
    bed.kubectl("apply", "--server-side", "--force-conflicts", "-f", data)
    bed.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    bed.kubectl("delete", "lease", "-n", bed.SYSTEM, "paceline-operator", "--ignore-not-found")


def main():
    wanted = sys.argv[1:]
    checks = [c for c in bed.CHECKS if not wanted or c.__name__ in wanted]
    if not os.environ.get("KUBECONFIG"):
        print("skipped: no KUBECONFIG; start scripts/testbed up and eval its env")
        print(f"0 passed, 0 failed, {len(checks)} skipped")
        return 0
    passed = failed = skipped = 0
    left_out = os.environ.get("PACELINE_SKIP_CHECKS", "").split()
    install()
    for number, function in enumerate(checks):
        if function.__name__ in left_out:
            skipped += 1
            print(f"SKIP {function.__name__}: named in PACELINE_SKIP_CHECKS", flush=True)
            continue
        ns = f"op-{number}-{int(time.time()) % 100000}"
        started = time.monotonic()
        context = bed.Context(ns)
        try:
            context.set_up()
            function(context)
            passed += 1
            print(f"ok      {function.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
        except (bed.Failure, subprocess.TimeoutExpired, AssertionError, KeyError, TypeError, IndexError) as error:
            failed += 1
            print(f"FAILED  {function.__name__}: {error}", flush=True)
            if not isinstance(error, bed.Failure):
                traceback.print_exc(file=sys.stdout)
            print(context.describe(), flush=True)
        finally:
            context.tear_down()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
