"""Jobs of other kinds with the annotation, and the pod webhook."""
import base64
import json

from bed import (HOOK_SECRET, MEET, PYTHON, SYSTEM, check, condition, create, expect, get, items, kubectl, patch_status, phase, wait_for)
from checks_jobs import create_bytes, expect_stages_add_up

ENABLED = {"paceline.dev/enabled": "true"}


def container(script="import time; time.sleep(600)"):
    return {"name": "main", "image": PYTHON, "command": ["python3", "-u", "-c", script],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}


def indexed_job(*arguments, **more):
    return create(indexed_manifest(*arguments, **more))


def indexed_manifest(ns, name, annotations, script, labels=None, owner=None, template_annotations=None):
    meta = {"name": name, "namespace": ns, "annotations": annotations, "labels": labels or {}}
    if owner:
        meta["ownerReferences"] = [owner]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {
        "completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0,
        "template": {"metadata": {"labels": labels or {}, "annotations": template_annotations or {}},
                     "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container(script)]}}}}


def owner_of(obj):
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"], "controller": True}


@check
def an_indexed_job_with_the_annotation_gets_a_run(bed):
    bed.start_leading()
    job = indexed_job(bed.ns, "batch", ENABLED, "import time; time.sleep(1)")
    run = bed.wait_run(job["metadata"]["uid"], "Succeeded", timeout=120)
    expect_stages_add_up(run)
    expect([w["rank"] for w in run["status"]["workers"]] == [0, 1], str(run["status"]["workers"]))
    expect(run["spec"]["job"]["kind"] == "Job" and run["spec"]["workers"] == 2, str(run["spec"]))
    kubectl("delete", "job", "batch", "-n", bed.ns, "--wait=false")
    wait_for("the run goes with its job", lambda: not bed.runs(job["metadata"]["uid"]))


@check
def the_pod_template_may_carry_the_annotation_instead(bed):
    bed.start_leading()
    job = indexed_job(bed.ns, "template", {}, "pass", template_annotations=ENABLED)
    other = indexed_job(bed.ns, "plain", {}, "pass")
    bed.wait_run(job["metadata"]["uid"], "Succeeded", timeout=120)
    wait_for("the other is complete", lambda: condition(get("job", "plain", bed.ns), "Complete").get("status") == "True")
    expect(not bed.runs(other["metadata"]["uid"]), "a job that did not ask got a run")


@check
def a_jobset_gets_a_run_for_each_restart(bed):
    bed.start_leading()
    jobset = create({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                     "metadata": {"name": "set", "namespace": bed.ns, "annotations": ENABLED},
                     "spec": {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": {
                         "completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": {"spec": {"containers": [container()]}}}}}]}})
    uid = jobset["metadata"]["uid"]
    for attempt in (0, 1):
        labels = {"jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/jobset-uid": uid,
                  "jobset.sigs.k8s.io/replicatedjob-name": "workers", "jobset.sigs.k8s.io/job-index": "0",
                  "jobset.sigs.k8s.io/restart-attempt": str(attempt)}
        indexed_job(bed.ns, f"set-workers-0-{attempt}", {}, "import time; time.sleep(600)", labels=labels, owner=owner_of(jobset))
        run = wait_for(f"run of attempt {attempt}", lambda a=attempt: next(
            (r for r in bed.runs(uid) if r["spec"]["generation"] == a and len(r["status"].get("workers", [])) == 2 and phase(r) == "Running"), None), 90)
        expect_stages_add_up(run)
        expect([w["rank"] for w in run["status"]["workers"]] == [0, 1], str(run["status"]["workers"]))
        patch_status("jobset", "set", bed.ns, {"restarts": attempt})
        kubectl("delete", "job", f"set-workers-0-{attempt}", "-n", bed.ns, "--wait=false")
    patch_status("jobset", "set", bed.ns, {"conditions": [{"type": "Failed", "status": "True", "reason": "FailedJobs", "message": "jobset failed due to one or more job failures", "lastTransitionTime": "2026-01-02T03:04:05Z"}]})
    bed.wait_run(uid, "Failed", 1)
    expect(len(bed.runs(uid)) == 2, "two attempts, two runs")
    expect(not [r for r in items("trainingruns", bed.ns) if r["spec"]["job"]["kind"] == "Job"], "the Jobs below the set got runs too")


@check
def a_pytorchjob_gets_a_run(bed):
    bed.start_leading()
    spec = {"replicas": 1, "template": {"spec": {"containers": [container()]}}}
    job = create({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "torch", "namespace": bed.ns, "annotations": ENABLED},
                  "spec": {"pytorchReplicaSpecs": {"Master": spec, "Worker": spec}}})
    for kind in ("master", "worker"):
        labels = {"training.kubeflow.org/job-name": "torch", "training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": "0"}
        create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"torch-{kind}-0", "namespace": bed.ns, "labels": labels, "ownerReferences": [owner_of(job)]},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container()]}})
    run = bed.wait_run(job["metadata"]["uid"], "Running", timeout=120)
    expect_stages_add_up(run)
    expect([w["pod"] for w in run["status"]["workers"]] == ["torch-master-0", "torch-worker-0"], str(run["status"]["workers"]))


@check
def bad_annotations_are_told_and_the_job_runs(bed):
    bed.start_leading()
    annotations = {**ENABLED, "paceline.dev/trace": "perhaps", "paceline.dev/checkpoint": "x"}
    job = indexed_job(bed.ns, "typo", annotations, "pass")
    run = bed.wait_run(job["metadata"]["uid"], "Succeeded", timeout=120)
    valid = condition(run, "ConfigurationValid")
    expect(valid["status"] == "False" and "paceline.dev/trace" in valid["message"] and "paceline.dev/checkpoints" in valid["message"], str(valid))
    notes = wait_for("a Warning event", lambda: bed.event_notes("typo", "InvalidAnnotation"))
    expect("runs without" in notes, notes)


@check
def what_annotations_cannot_mean_is_told_and_the_job_completes(bed):
    """Through the webhook, too: it reads the same annotations."""
    bed.start_hooked()
    checkpoint = {"name": "model", "uri": "hdfs://nn/x", "mountPath": "/checkpoints"}
    # The API server takes 256 KiB of annotations at most.
    large = json.dumps([{**checkpoint, "name": f"c{n}", "mountPath": f"/c{n}", "memoryLimit": "9" * 300} for n in range(640)])
    expect(240_000 < len(large) < 262_000, f"{len(large)} bytes")
    cases = {
        "quantity": ({"paceline.dev/checkpoints": json.dumps([{**checkpoint, "memoryLimit": "lots"}])}, "memoryLimit"),
        "large": ({"paceline.dev/checkpoints": large}, "paceline.dev/checkpoints"),
        "long": ({"paceline.dev/trace": "x" * 250_000}, "paceline.dev/trace"),
    }
    for name, (annotations, _) in cases.items():
        indexed_job(bed.ns, name, {**ENABLED, **annotations}, "pass")
    bad_bytes = indexed_manifest(bed.ns, "bytes", {**ENABLED, "paceline.dev/trace": "BYTES"}, "pass")
    create_bytes(json.dumps(bad_bytes).encode().replace(b"BYTES", b"tru\xff\xfe"))
    for name, text in {**{name: text for name, (_, text) in cases.items()}, "bytes": "paceline.dev/trace"}.items():
        run = bed.wait_run(get("job", name, bed.ns)["metadata"]["uid"], "Succeeded", timeout=120)
        valid = condition(run, "ConfigurationValid")
        expect(valid["status"] == "False" and valid["reason"] == "InvalidSettings" and text in valid["message"], f"{name}: {str(valid)[:2000]}")
        expect("runs without" in valid["message"] and len(valid["message"]) < 4096, f"{name}: {str(valid)[:2000]}")
        notes = wait_for(f"a Warning event on {name}", lambda name=name: bed.event_notes(name, "InvalidAnnotation"))
        expect(text in notes, f"{name}: {notes}")
        wait_for(f"{name} is complete", lambda name=name: condition(get("job", name, bed.ns), "Complete").get("status") == "True")


@check
def the_webhook_names_the_run_on_the_pods(bed):
    bed.start_hooked()
    expect(base64.b64decode(get("secret", HOOK_SECRET, SYSTEM)["data"]["tls.crt"]).startswith(b"-----BEGIN CERT"), "no certificate in the Secret")
    script = 'import os; assert os.environ["PACELINE_JOB_KIND"] == "Job" and os.environ["PACELINE_RUN"] and os.environ["PACELINE_NODE"]'

    def labelled():
        """A pod made before the API server has noticed the CA is admitted unchanged: try anew."""
        kubectl("delete", "job", "hooked", "-n", bed.ns, "--ignore-not-found", "--cascade=foreground")
        job = indexed_job(bed.ns, "hooked", ENABLED, script)
        pods = wait_for("pods", lambda: (lambda p: p if len(p) == 2 else None)(items("pods", bed.ns, "job-name=hooked")))
        return (job, pods) if all("paceline.dev/run" in p["metadata"]["labels"] for p in pods) else None
    job, pods = wait_for("labelled pods", labelled, 60)
    run = bed.wait_run(job["metadata"]["uid"], "Succeeded", timeout=120)
    for pod in pods:
        labels = pod["metadata"]["labels"]
        expect(labels["paceline.dev/run"] == run["metadata"]["name"], f"{labels} against run {run['metadata']['name']}")
        expect(labels["paceline.dev/rank"] == labels["batch.kubernetes.io/job-completion-index"], str(labels))
        # No node has an agent here: a volume would let the pods hang.
        expect(pod["metadata"]["annotations"]["paceline.dev/injected"] == "identity", str(pod["metadata"]["annotations"]))
        expect("paceline-stage" not in [v["name"] for v in pod["spec"]["volumes"]], "a stage volume without an agent")
    bed.training_job("own", script=MEET)
    bed.wait_phase("own", "Complete", 120)
    plain = indexed_job(bed.ns, "untouched", {}, "pass")
    pod = wait_for("its pod", lambda: (items("pods", bed.ns, "job-name=untouched") or [None])[0])
    expect("paceline.dev/run" not in pod["metadata"]["labels"], json.dumps(plain["metadata"]))
