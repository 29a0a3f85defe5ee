"""The CRDs on a real API server: tests/api/cases.json, which the C++ checks pass too, and the defaults."""
import copy
import json
import os
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load_cases():
    with open(os.path.join(ROOT, "tests/api/cases.json"), encoding="utf-8") as file:
        return json.load(file)


def case_object(cases, case):
    obj = copy.deepcopy(cases["bases"][case["kind"]])
    for pointer, value in case["set"].items():
        parts = pointer.split("/")[1:]
        parent = obj
        for part in parts[:-1]:
            parent = parent[int(part)] if isinstance(parent, list) else parent.setdefault(part, {})
        if isinstance(parent, list):
            index = int(parts[-1])
            if index == len(parent):
                parent.append(value)
            else:
                parent[index] = value
        elif value is None:
            del parent[parts[-1]]
        else:
            parent[parts[-1]] = value
    return obj


def install(server, crds):
    """Applies the CRDs and waits until their kinds are served."""
    for crd in crds:
        status, answer = server.apply(crd)
        assert status in (200, 201), f"{crd['metadata']['name']}: {answer.get('message')}"
    deadline = time.monotonic() + 60
    wanted = {crd["spec"]["names"]["plural"] for crd in crds}
    while time.monotonic() < deadline:
        status, found = server.call("GET", "/apis/paceline.dev/v1alpha1")
        if status == 200 and wanted <= {resource["name"] for resource in found["resources"]}:
            return
        time.sleep(0.3)
    raise AssertionError("the API server does not serve all kinds after 60 s")


def check_structural(server, crds):
    """No condition says that a schema is not structural, and every name was accepted."""
    for crd in crds:
        _, stored = server.call("GET", server.path_of(crd, with_name=True))
        conditions = {c["type"]: c for c in stored["status"]["conditions"]}
        assert "NonStructuralSchema" not in conditions, conditions["NonStructuralSchema"]["message"]
        for name in ("Established", "NamesAccepted"):
            assert conditions[name]["status"] == "True", f"{crd['metadata']['name']}: {conditions[name]}"


def check_case(server, cases, case):
    status, answer = server.create(case_object(cases, case))
    if "error" not in case or case.get("server") == "accepts":
        assert status == 201, f"refused: {answer.get('message')}"
        return
    assert status in (400, 422), f"expected a refusal of {case['error']}, got {status}"
    causes = answer.get("details", {}).get("causes", [])
    fields = [cause.get("field", "") for cause in causes]
    near = [field for field in fields if field.startswith(case["error"]) or case["error"].startswith(field)]
    assert near, f"refused for other reasons: {answer.get('message')}"


def check_defaults(server, cases):
    job = copy.deepcopy(cases["bases"]["TrainingJob"])
    del job["spec"]["startup"], job["spec"]["checkpoints"]
    _, stored = server.create(job)
    spec = stored["spec"]
    assert spec["procsPerWorker"] == 1 and spec["suspend"] is False and spec["runHistoryLimit"] == 5, spec
    assert spec["rendezvous"] == {"port": 29500, "backend": "Static"}, spec["rendezvous"]
    assert spec["restartPolicy"] == {"mode": "Never", "maxRestarts": 3}, spec["restartPolicy"]
    assert spec["startup"] == {"image": {"prefetch": True, "convert": "Off"}}, spec["startup"]
    assert spec["tracing"] == {"enabled": False}, spec["tracing"]
    # Defaults of fields inside of an object that was given in part.
    job["spec"].update({"startup": {"image": {"convert": "Auto"}}, "restartPolicy": {"mode": "OnFailure"}})
    _, stored = server.create(job)
    assert stored["spec"]["startup"]["image"] == {"prefetch": True, "convert": "Auto"}, stored["spec"]["startup"]
    assert stored["spec"]["restartPolicy"] == {"mode": "OnFailure", "maxRestarts": 3}
    _, policy = server.create(cases["bases"]["StragglerPolicy"])
    assert policy["spec"]["budget"] == {"maxNodes": 1, "maxActions": 1, "actionPeriod": "1h", "breakerNodes": "20%"}, policy["spec"]["budget"]
    assert policy["spec"]["detection"]["required"] == 4, policy["spec"]["detection"]


def check_template_is_kept(server, cases):
    job = copy.deepcopy(cases["bases"]["TrainingJob"])
    job["spec"]["template"]["spec"].update({"hostIPC": True, "volumes": [{"name": "a", "emptyDir": {"medium": "Memory"}}]})
    _, stored = server.create(job)
    assert stored["spec"]["template"] == job["spec"]["template"], stored["spec"]["template"]


def check_transitions(server, cases):
    """Rules over the object before a change, which need a stored one."""
    job = copy.deepcopy(cases["bases"]["TrainingJob"])
    job["metadata"]["name"] = "chart-test-transition"
    run = copy.deepcopy(cases["bases"]["TrainingRun"])
    run["metadata"]["name"] = "chart-test-transition"
    try:
        for obj in (job, run):
            assert server.apply(obj)[0] in (200, 201)
        job["spec"]["workers"] = 4
        status, answer = server.apply(job)
        assert status == 422 and "only while the job is suspended" in answer["message"], answer["message"]
        job["spec"].update({"workers": 2, "suspend": True})
        assert server.apply(job)[0] == 200
        job["spec"]["workers"] = 4
        assert server.apply(job)[0] == 200
        run["spec"]["generation"] = 1
        status, answer = server.apply(run)
        assert status == 422 and "never changes" in answer["message"], answer["message"]
        # The status is a subresource, and its conditions merge by type.
        now = "2026-01-02T03:04:05Z"
        condition = {"type": "Running", "status": "True", "reason": "Started", "message": "", "lastTransitionTime": now}
        body = {"apiVersion": run["apiVersion"], "kind": run["kind"], "metadata": {"name": run["metadata"]["name"]},
                "status": {"phase": "Starting", "conditions": [condition]}}
        path = server.path_of(run, with_name=True) + "/status"
        for manager, kind in (("one", "Running"), ("two", "ConfigurationValid")):
            condition["type"] = kind
            status, answer = server.call("PATCH", path, body, {"fieldManager": manager, "force": "true"},
                                         {"Content-Type": "application/apply-patch+yaml"})
            assert status == 200, answer.get("message")
        assert {c["type"] for c in answer["status"]["conditions"]} == {"Running", "ConfigurationValid"}
    finally:
        for obj in (job, run):
            server.delete(obj)
