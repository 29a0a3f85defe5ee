"""The chart's ServiceAccounts: operators and agents of the checks may do what its roles say and no more, and what the API server has
refused them all the same is found in its audit log."""
import datetime
import glob
import json
import os
import re
import tempfile

import yaml

import bed

CHART = os.path.join(bed.ROOT, "deploy", "helm", "paceline")
# The identities of the rendered chart and what they may do; the workloads stay out.
KINDS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
PARTS = ("operator", "agent")
# A role works a moment after it was made, and an aggregated one after a controller has filled it: one request of each.
PROBES = (("operator", "create", "coordination.k8s.io", "leases", bed.SYSTEM), ("operator", "watch", "paceline.dev", "trainingjobs", ""),
          ("operator", "watch", "jobset.x-k8s.io", "jobsets", ""), ("agent", "watch", "paceline.dev", "nodeplans", ""))

_folder = tempfile.TemporaryDirectory(prefix="paceline-accounts-")
_used = set()  # parts, but for the operator, that a kubeconfig was made for


def used():
    return _used | ({"operator"} if bed.Operator.started else set())


def user(part):
    return f"system:serviceaccount:{bed.SYSTEM}:paceline-{part}"


def install(*settings):
    """Applies the accounts and roles of the chart, rendered with `settings` (KEY=VALUE), and lets operators use theirs."""
    version = json.loads(bed.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    arguments = [argument for setting in settings for argument in ("--set", setting)]
    text = bed.run("helm", "template", "paceline", CHART, "--namespace", bed.SYSTEM, "--kube-version", version, *arguments)
    objects = [obj for obj in yaml.safe_load_all(text) if obj and obj["kind"] in KINDS]
    bed.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-",
                stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    for probe in PROBES:
        bed.wait_for(f"may: {' '.join(probe)}", lambda probe=probe: may(*probe))
    bed.Operator.kubeconfig = kubeconfig("operator")


def may(part, verb, group, resource, ns, name="", subresource=""):
    """By a review of the API server, which needs no such kind to be there."""
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": ns, "name": name, "subresource": subresource}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": user(part), "resourceAttributes": attributes}}
    answer = bed.kubectl("create", "--raw", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "-f", "-", stdin=json.dumps(review))
    return json.loads(answer)["status"]["allowed"]


def token(part, node):
    """By the TokenRequest API; bound to a node, as the token of a pod is, when one is named."""
    spec = {"expirationSeconds": 4 * 3600}
    if node:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": bed.get("node", node)["metadata"]["uid"]}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{bed.SYSTEM}/serviceaccounts/paceline-{part}/token"
    return json.loads(bed.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(request)))["status"]["token"]


def kubeconfig(part, node=None):
    """File with the account of operator or agent for the cluster of $KUBECONFIG. An agent's is for its node."""
    config = json.loads(bed.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    name = f"{part}-{node}" if node else part
    config["users"] = [{"name": name, "user": {"token": token(part, node)}}]
    config["contexts"][0]["context"]["user"] = name
    path = os.path.join(_folder.name, f"{name}.kubeconfig")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    if part != "operator":
        _used.add(part)
    return path


def is_refusal(entry):
    """403, but for objects of a namespace that is going: those are refused to everybody."""
    status = entry.get("responseStatus") or {}
    return status.get("code") == 403 and "because it is being terminated" not in status.get("message", "")


def lacks(part, entry):
    """Whether a refusal holds. An API server that has just started refuses everybody until it has read its roles."""
    ref = entry.get("objectRef") or {}
    return not may(part, entry["verb"], ref.get("apiGroup", ""), ref.get("resource", ""), ref.get("namespace", ""), ref.get("name", ""),
                   ref.get("subresource", ""))


def what(entry):
    ref = entry.get("objectRef") or {}
    resource = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
    return f"{entry['verb']} {resource}.{ref.get('apiGroup', '')} ({entry['requestURI'][:120]}): {(entry.get('responseStatus') or {}).get('message', '')[:200]}"


class Audit:
    """What the API server's audit log says of our accounts, from now on."""

    def __init__(self):
        self.log = os.environ.get("PACELINE_TESTBED_AUDIT_LOG")
        self.began = datetime.datetime.now(datetime.timezone.utc).isoformat()

    def entries(self):
        # The log is turned over when it is large.
        for path in glob.glob(re.sub(r"\.log$", "*.log", self.log)):
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    if f'"{user("")}' not in line:
                        continue
                    try:
                        entry = json.loads(line)
                    except ValueError:
                        continue  # cut off when the API server was killed
                    if entry["requestReceivedTimestamp"] >= self.began[:19] and entry["user"]["username"].startswith(user("")):
                        yield entry

    def has_subject(self):
        """Whether there is a log, and an account that was used."""
        return bool(self.log and used())

    def check(self):
        """That nothing was refused to an account that was used, and that each has asked for something."""
        refused, asked = {}, set()
        for entry in self.entries():
            part = entry["user"]["username"].removeprefix(user(""))
            asked.add(part)
            if is_refusal(entry):
                refused[f"{part} may not {what(entry)}"] = (part, entry)
        bed.expect(used() <= asked, f"no request of {sorted(used() - asked)} in {self.log}")
        missing = sorted(text for text, (part, entry) in refused.items() if lacks(part, entry))
        bed.expect(not missing, "the roles of the chart lack:\n" + "\n".join(missing[:40]))
