"""Crashes, replicas, and an API server that goes away."""
import json
import os
import random
import re
import ssl
import time
import urllib.error
import urllib.request

from bed import MEET, ROOT, SLEEP, Failure, apply, check, expect, get, items, kubectl, phase, run, wait_for

FAST_LEASE = ("--leader-election-lease-duration=4s", "--leader-election-renew-deadline=3s", "--leader-election-retry-period=500ms")


@check
def killed_at_any_moment_it_converges_and_makes_nothing_twice(bed):
    rng = random.Random(20)
    operator = bed.start_leading("k0", *FAST_LEASE)
    # Every start fails once, so that restarts, too, are cut off half way.
    script = ('import os, sys, time\ntime.sleep(0.5)\nif int(os.environ["PACELINE_GENERATION"]) == 0 and os.environ["RANK"] == "1": sys.exit(3)\n'
              'if int(os.environ["PACELINE_GENERATION"]) == 0: time.sleep(600)\n') + MEET
    names = [f"crash-{n}" for n in range(3)]
    jobs = {}
    for name in names:
        jobs[name] = bed.training_job(name, script=script, restartPolicy={"mode": "OnFailure", "maxRestarts": 1})
        time.sleep(rng.uniform(0, 0.4))
        operator.kill()
        operator = bed.start(name, *FAST_LEASE)
    kills = 0
    end = time.monotonic() + 60
    while time.monotonic() < end and any(phase(bed.job(n)) not in ("Complete", "Failed") for n in names):
        time.sleep(rng.uniform(1.0, 6.0))
        operator.kill()
        kills += 1
        operator = bed.start(f"k{kills}", *FAST_LEASE)
    for name in names:
        done = bed.wait_phase(name, "Complete", 300)
        expect(done["status"]["restarts"] == 1, f"{name}: {done['status']}")
    for name in names:
        uid = jobs[name]["metadata"]["uid"]
        bed.wait_run(uid, "Failed", 0)
        bed.wait_run(uid, "Succeeded", 1)
        expect(len(bed.runs(uid)) == 2, f"{name}: {len(bed.runs(uid))} runs")
        mine = [j["metadata"]["name"] for j in items("jobs", bed.ns) if j["metadata"]["labels"].get("paceline.dev/job-uid") == uid]
        expect(sorted(mine) == [f"{name}-g0", f"{name}-g1"], f"{name}: Jobs {mine}")
    expect(len(items("services", bed.ns)) == len(names), "one Service for each job")
    # The Job controller removes the workers that it ends; none may be there twice.
    places = [(p["metadata"]["labels"]["batch.kubernetes.io/job-name"], p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
              for p in items("pods", bed.ns)]
    expect(len(places) == len(set(places)), f"a worker twice: {sorted(places)}")
    expect(kills >= 3, f"only {kills} kills")


@check
def of_two_replicas_one_leads_and_the_other_takes_over(bed):
    first = bed.start_leading("first")
    second = bed.start("second")
    wait_for("the second is up", lambda: second.has_logged('"caches synced"'))
    expect(not second.is_leading(), "two leaders")
    began = time.monotonic()
    first.kill()
    wait_for("the second leads", second.is_leading, 20)
    print(f"        hand-over after a crash: {time.monotonic() - began:.1f} s", flush=True)
    expect(time.monotonic() - began < 20, "hand-over took 20 s or more")
    third = bed.start("third")
    wait_for("the third is up", lambda: third.has_logged('"caches synced"'))
    began = time.monotonic()
    expect(second.stop() == 0, "SIGTERM did not end it cleanly")
    wait_for("the third leads", third.is_leading, 10)
    print(f"        hand-over after SIGTERM: {time.monotonic() - began:.1f} s", flush=True)
    bed.training_job("after", workers=1, script="pass")
    bed.wait_phase("after", "Complete")


@check
def an_api_server_that_restarts_loses_no_change(bed):
    testbed = os.path.join(ROOT, "scripts", "testbed")
    operator = bed.start_leading("a", "--leader-election-lease-duration=60s", "--leader-election-renew-deadline=50s")
    bed.training_job("before", script=SLEEP)
    bed.wait_phase("before", "Running")
    for _ in range(2):
        run(testbed, "restart", "kube-apiserver", "--kill", timeout=120)
    wait_for("the API server is back", lambda: get("namespace", bed.ns), 60)
    bed.training_job("after", workers=1, script="pass")
    kubectl("delete", "trainingjob", "before", "-n", bed.ns, "--wait=false")
    bed.wait_phase("after", "Complete", 120)
    wait_for("the deleted job's pods are gone", lambda: len(items("pods", bed.ns)) == 1, 90)
    expect(operator.process.poll() is None, "the operator ended: " + operator.tail(5))


@check
def sigterm_ends_it_within_seconds(bed):
    operator = bed.start_leading()
    bed.training_job("busy", script=SLEEP)
    began = time.monotonic()
    expect(operator.stop() == 0, "exit code is not 0")
    expect(time.monotonic() - began < 10, f"took {time.monotonic() - began:.1f} s")


@check
def a_bad_kubeconfig_ends_it_with_words(bed):
    del bed
    from bed import PROGRAM
    code, text = run(PROGRAM, "--kubernetes-kubeconfig=/no/such/file", ok=False)
    expect(code != 0 and "/no/such/file" in text, text)
    code, text = run(PROGRAM, "--leader-election-lease-duration=1s", "--no-such-flag", ok=False)
    expect(code == 2 and "no-such-flag" in text, text)
    if not text:
        raise Failure("no words")


@check
def the_job_page_shows_each_token_what_its_user_may_read(bed):
    operator = bed.start_hooked()
    wait_for("the job page is served", lambda: operator.has_logged('"job page served"'))
    with open(operator.log.name, encoding="utf-8") as file:
        port = int(re.search(r'"job page served".*?"port":"?(\d+)', file.read()).group(1))
    bed.training_job("shown", workers=1, script=SLEEP)
    kubectl("create", "serviceaccount", "viewer", "-n", bed.ns)
    apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "viewer", "namespace": bed.ns},
           "rules": [{"apiGroups": ["paceline.dev"], "resources": ["trainingruns", "incidents"], "verbs": ["list"]}]})
    kubectl("create", "rolebinding", "viewer", "-n", bed.ns, "--role=viewer", f"--serviceaccount={bed.ns}:viewer")
    token = kubectl("create", "token", "viewer", "-n", bed.ns).strip()
    context = ssl._create_unverified_context()  # the certificate names the Service, not this address

    def ask(path, with_token):
        request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {with_token}"} if with_token else {})
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    status, page = ask("/", "")
    expect(status == 200 and "<title>Paceline" in page, f"{status} {page[:200]}")
    name = wait_for("the page lists the run", lambda: next((r["name"] for r in json.loads(ask(f"/api/runs?namespace={bed.ns}", token)[1]).get("runs", [])
                                                             if r["job"] == "shown"), None))
    run = json.loads(ask(f"/api/run?namespace={bed.ns}&name={name}", token)[1])["run"]
    expect(run["metadata"]["name"] == name and run["spec"]["workers"] == 1, str(run)[:500])
    for path, with_token, wanted in ((f"/api/runs?namespace={bed.ns}", "", 401), (f"/api/runs?namespace={bed.ns}", token + "x", 401),
                                     ("/api/runs?namespace=kube-system", token, 403), ("/api/runs?namespace=", token, 403), ("/api/nodes", token, 403)):
        status, body = ask(path, with_token)
        expect(status == wanted, f"{path}: {status} instead of {wanted}: {body[:200]}")
