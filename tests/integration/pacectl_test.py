#!/usr/bin/env python3
"""pacectl as a program against a real Kubernetes: scripts/testbed up --nodes 2.

  eval "$(scripts/testbed env)"; tests/integration/pacectl_test.py

Agents and operator run as processes, on the nodes n1 and n2 and here, and a job has started twice. Each verb that reads is
tried as table, JSON and YAML; then what bad input is told, and with which exit code; then the same as a plugin of kubectl;
and converted images are mounted on this machine. Ends with "N passed, N failed, N skipped". Without KUBECONFIG all is skipped.
"""
import json
import os
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "operator"))
import bed  # noqa: E402
import nodes  # noqa: E402
from checks_foreign import ENABLED, indexed_job  # noqa: E402

PACECTL = os.path.join(nodes.PROGRAMS, "pacectl")
FAILED, WRONG_USAGE, BROKEN = 1, 2, 3

FAIL_THEN_STEP = """
import os, sys, time
if os.environ["PACELINE_GENERATION"] == "0":
    sys.exit(7)
with open(os.environ["PACELINE_STAGE_FILE"], "a") as file:
    file.write(f"first_step {time.time():.3f}\\n")
"""

SLEEP_THEN_END = """
import os, time
with open(os.environ["PACELINE_STAGE_FILE"], "a") as file:
    file.write(f"first_step {time.time():.3f}\\n")
if os.environ["PACELINE_GENERATION"] == "0":
    time.sleep(600)
"""


def pacectl(*arguments, code=0, env=None, program=(PACECTL,)):
    """(standard output, standard error) of a run that ends with `code`."""
    done = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=90, check=False, env={**os.environ, **(env or {})})
    bed.expect(done.returncode == code, f"pacectl {' '.join(arguments)}: exit {done.returncode} instead of {code}: {done.stdout[-600:]}{done.stderr[-600:]}")
    return done.stdout, done.stderr


def in_every_format(*arguments, code=0, is_steady=True):
    """The value that JSON and YAML give, and the table. With `is_steady` nothing changes between two calls."""
    table, _ = pacectl(*arguments, code=code)
    value = json.loads(pacectl(*arguments, "-o", "json", code=code)[0])
    same = yaml.safe_load(pacectl(*arguments, "--output", "yaml", code=code)[0])
    bed.expect(type(value) is type(same) and (not is_steady or value == same), f"{' '.join(arguments)}: YAML says {str(same)[:300]}, JSON {str(value)[:300]}")
    bed.expect(table.endswith("\n") and not table.lstrip().startswith(("{", "[")), f"{' '.join(arguments)}: {table[:300]}")
    return value, table


def two_starts(context):
    """A TrainingJob that starts twice and then ends, and a Job of Kubernetes' own; their uids."""
    own = context.training_job("twice", script=FAIL_THEN_STEP, restartPolicy={"mode": "OnFailure", "maxRestarts": 1})["metadata"]["uid"]
    foreign = indexed_job(context.ns, "foreign", ENABLED, "pass")["metadata"]["uid"]
    context.wait_phase("twice", "Complete", 150)
    context.wait_run(own, "Succeeded", 1)
    context.wait_run(foreign, "Succeeded", timeout=120)
    return own, foreign


def check_jobs_and_runs(context, own):
    ns = ("-n", context.ns)
    jobs, table = in_every_format("job", "ls", *ns)
    bed.expect({(job["name"], job["kind"]) for job in jobs} == {("twice", "TrainingJob"), ("foreign", "Job")}, str(jobs))
    bed.expect("twice" in table and "foreign" in table and "NAMESPACE" not in table, table)
    everywhere, table = in_every_format("job", "ls", "-A", is_steady=False)
    bed.expect(len(everywhere) >= 2 and context.ns in table, table)
    runs, table = in_every_format("run", "ls", *ns)
    bed.expect(len(runs) == 3 and all(run["metadata"]["name"] in table for run in runs), table)
    names = {run["spec"]["generation"]: run["metadata"]["name"] for run in runs if run["spec"]["job"]["uid"] == own}
    for name in (names[0], "twice"):  # a run, and a job: its newest run
        run, table = in_every_format("run", "show", name, *ns)
        bed.expect(run["metadata"]["name"] == names[0 if name == names[0] else 1] and run["status"]["phase"] in table, table)
    why, table = in_every_format("run", "explain", "twice", *ns)
    bed.expect(why["run"] == names[1] and len(why["workers"]) == 2 and "Queued" in table, f"{why}\n{table}")
    total = max(sum(stage["seconds"] for stage in worker["stages"]) for worker in why["workers"])
    bed.expect(abs(total - why["wallSeconds"]) <= 0.05 * total and all(worker["complete"] for worker in why["workers"]), json.dumps(why))
    bed.expect("\x1b[" in pacectl("run", "explain", "twice", "--color", "always", *ns)[0] and "\x1b[" not in table, "colours at the wrong time")
    compared, table = in_every_format("run", "compare", "twice", *ns)
    bed.expect(names[0] in json.dumps(compared) and names[1] in json.dumps(compared), json.dumps(compared))
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "startup.json")
        pacectl("run", "explain", "twice", "--perfetto", trace, *ns)
        with open(trace, encoding="utf-8") as file:
            bed.expect(json.load(file)["traceEvents"], "an empty trace")


def job_restart(context):
    """A job that never restarts by itself ends its start when it is asked to, and begins the next."""
    uid = context.training_job("stuck", script=SLEEP_THEN_END)["metadata"]["uid"]
    context.wait_run(uid, "Running", 0, timeout=90)
    said, _ = pacectl("job", "restart", "stuck", "--reason", "its loss is NaN", "-n", context.ns)
    bed.expect("end start 0" in said, said)
    context.wait_phase("stuck", "Complete", 120)
    status = bed.get("trainingjob", "stuck", context.ns)["status"]
    bed.expect(status["generation"] == 1 and status.get("restarts", 0) == 0, json.dumps(status))
    bed.wait_for("the job is told", lambda: "its loss is NaN" in context.event_notes("stuck", "RestartRequested"), 30)
    for name, why in (("stuck", "it is complete"), ("foreign", 'no TrainingJob "foreign"')):
        _, refused = pacectl("job", "restart", name, "-n", context.ns, code=FAILED)
        bed.expect(why in refused, refused)


def check_installation():
    checks, table = in_every_format("doctor", is_steady=False)
    bed.expect(checks and "API server" in table and all(node in table for node in nodes.NODES), table)
    version, table = in_every_format("version")
    server = json.loads(bed.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    bed.expect(version["server"] == server and version["version"] in table and version["revision"], json.dumps(version))
    line, _ = pacectl("--version")
    bed.expect(version["version"] in line and version["revision"] in line, line)
    for flag in ("--help", "-h"):
        text, _ = pacectl(flag)
        bed.expect(all(f"  {verb} " in text for verb in ("job", "run", "trace", "whatif", "image", "deps", "fs", "doctor", "version")), text)


def reading_verbs(context):
    agents = nodes.agents()
    with nodes.running(context, [], agents):
        context.start_hooked()
        own, _ = two_starts(context)
        check_jobs_and_runs(context, own)
        job_restart(context)
        check_installation()
        bad_input(context)
        as_a_plugin(context)
        without_rights(context)
    # Nobody reports any more: the operator's Lease goes with it.
    for operator in context.operators:
        operator.close()
    context.operators.clear()
    checks, _ = in_every_format("doctor", code=BROKEN, is_steady=False)
    bed.expect("no replica leads" in json.dumps(checks), json.dumps(checks))


def bad_input(context):
    ns = ("-n", context.ns)
    cases = (
        (("nonsense",), WRONG_USAGE, 'does not know "nonsense" (commands: job, run'),
        (("run", "nonsense"), WRONG_USAGE, 'pacectl run does not know "nonsense" (commands: ls, show'),
        ((), WRONG_USAGE, "--help"),
        (("run", "show", *ns), WRONG_USAGE, "name"),
        (("job", "ls", "-o", "xml"), WRONG_USAGE, "table, json or yaml"),
        (("job", "ls", "--timeout", "0"), WRONG_USAGE, "timeout"),
        (("run", "explain", "twice", "--color", "loud", *ns), WRONG_USAGE, "color"),
        (("run", "show", "nobody", *ns), FAILED, 'no run and no job called "nobody"'),
        (("run", "compare", "foreign", *ns), FAILED, "one start so far"),
        (("run", "compare", "twice", "nobody", *ns), FAILED, "nobody"),
        (("job", "ls", "--kubeconfig", "/no/such/file"), FAILED, "/no/such/file"),
        (("job", "ls", "--context", "elsewhere"), FAILED, "elsewhere"),
        (("trace", "diagnose", "--of", "nobody", *ns), FAILED, "nobody"),
        (("image", "status", "/", "-o", "json"), FAILED, "nobody answers"),
        (("image", "unmount", "/", "-o", "yaml"), FAILED, "ended with 1"),
        (("image", "hotset", "record", "/", "-o", "yaml"), FAILED, "nobody answers"),
    )
    for arguments, code, says in cases:
        output, error = pacectl(*arguments, code=code)
        bed.expect(says in error + output and not (code == FAILED and output), f"{arguments}: {output}{error}")
    _, error = pacectl("job", "ls", "-n", "no-such-namespace")
    bed.expect("no training jobs in namespace no-such-namespace" in error, error)
    bed.expect(json.loads(pacectl("run", "ls", "-n", "no-such-namespace", "-o", "json")[0]) == [], "an empty list is no list")
    away(context)


def away(context):
    """The API server does not answer."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kubeconfig")
        config = json.loads(bed.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{bed.free_port()}"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        _, error = pacectl("run", "ls", "-n", context.ns, "--timeout", "5", code=FAILED, env={"KUBECONFIG": path})
        bed.expect("reach the API server https://127.0.0.1:" in error and path in error, error)
        text, _ = pacectl("version", "--timeout", "5", env={"KUBECONFIG": path})
        bed.expect("not reached" in text and text.startswith("pacectl "), text)


def as_a_plugin(context):
    env = {"PATH": nodes.PROGRAMS + ":" + os.environ["PATH"]}
    plugin = ("kubectl", "paceline")
    bed.expect(pacectl("version", program=plugin, env=env)[0] == pacectl("version")[0], "kubectl paceline version says something else")
    same = ("run", "ls", "-n", context.ns, "-o", "json")
    bed.expect(pacectl(*same, program=plugin, env=env)[0] == pacectl(*same)[0], "kubectl paceline run ls says something else")
    _, error = pacectl("run", "show", "nobody", "-n", context.ns, program=plugin, env=env, code=FAILED)
    bed.expect("nobody" in error, error)
    bed.expect("kubectl-paceline" in pacectl("plugin", "list", program=("kubectl",), env=env)[0], "kubectl does not list the plugin")


def without_rights(context):
    """What a user is told whom the API server lets see nothing, and that the role `view` is enough to read."""
    bed.kubectl("create", "serviceaccount", "somebody", "-n", context.ns)
    config = json.loads(bed.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["users"][0]["user"] = {"token": bed.kubectl("create", "token", "somebody", "-n", context.ns).strip()}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kubeconfig")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        env = {"KUBECONFIG": path}
        _, error = pacectl("run", "ls", "-n", context.ns, env=env, code=FAILED)
        bed.expect("forbidden" in error and "somebody" in error, error)
        bed.kubectl("create", "rolebinding", "somebody", "-n", context.ns, "--clusterrole=view", f"--serviceaccount={context.ns}:somebody")
        bed.wait_for("the role works", lambda: subprocess.run([PACECTL, "job", "ls", "-n", context.ns], capture_output=True, timeout=60, check=False,
                                                              env={**os.environ, **env}).returncode == 0)
        bed.expect("twice" in pacectl("run", "explain", "twice", "-n", context.ns, env=env)[0], "view is not enough for run explain")


def mounted_images(context):
    """`pacectl image`, which needs root and EROFS but no cluster."""
    with open("/proc/filesystems", encoding="utf-8") as file:
        if "erofs" not in file.read():
            raise nodes.Skip("this kernel has no EROFS")
    address = os.environ["REGISTRY_ADDRESS"]
    with tempfile.TemporaryDirectory() as folder:
        directory, store, hot_set = (os.path.join(folder, name) for name in ("mounted", "store", "hot.json"))
        os.mkdir(directory)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"auths": {address: {"username": os.environ["REGISTRY_USER"], "password": os.environ["REGISTRY_PASSWORD"]}}}, file)
        image = f"docker://{address}/busybox:1"
        reach = ("--store", f"file://{store}", "--docker-config", folder, "--ca-file", os.environ["REGISTRY_CA"])
        converted, _ = in_every_format("image", "convert", image, *reach, is_steady=False)
        inspected, _ = in_every_format("image", "inspect", image, *reach)
        bed.expect(inspected["image"] == converted["image"], json.dumps(inspected))
        in_every_format("image", "verify", image, *reach)
        mount = ("image", "mount", image, directory, *reach, "--cache-folder", os.path.join(folder, "cache"), "--cache-quota", "1GiB")
        try:
            told = json.loads(pacectl(*mount, "-o", "json")[0])
            bed.expect(told == {"directory": directory, "mounted": True, "image": converted["image"]}, json.dumps(told))
            bed.expect(os.listdir(os.path.join(directory, "bin")), "nothing is there")
            with open(os.path.join(directory, "bin", "busybox"), "rb") as file:
                size = len(file.read())
            stats, table = in_every_format("image", "status", directory, is_steady=False)
            bed.expect(stats["readBytes"] >= size and "from the store" in table, f"{stats}\n{table}")
            recorded, _ = pacectl("image", "hotset", "record", directory)
            bed.expect(json.loads(recorded) == yaml.safe_load(pacectl("image", "hotset", "record", directory, "-o", "yaml")[0]), "YAML says something else")
            with open(hot_set, "w", encoding="utf-8") as file:
                file.write(recorded)
            bed.expect(yaml.safe_load(pacectl("image", "unmount", directory, "-o", "yaml")[0]) == {"directory": directory, "mounted": False}, "unmount")
            bed.expect("mounted on" in pacectl(*mount, "--hot-set", hot_set)[0], "for people it tells what it did")
            pacectl("image", "unmount", directory)
            bed.expect(not os.listdir(directory), "still mounted")
        finally:
            subprocess.run([PACECTL, "image", "unmount", directory, "--force"], capture_output=True, timeout=60, check=False)
    del context


if __name__ == "__main__":
    sys.exit(nodes.run_checks([("verbs_read_and_refuse", reading_verbs), ("images_are_mounted", mounted_images)], "pacectl", ("KUBECONFIG", "REGISTRY_ADDRESS"),
                              "scripts/testbed up --nodes 2"))
