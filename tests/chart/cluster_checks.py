"""The rendered chart on a real API server: every object is accepted, roles allow what is needed and nothing more, the
webhook's filter and the agents' admission policy do what they say."""
import copy
import os

from render import EXTRA_APIS, Rendered

# One of its own per run: a namespace that is being deleted takes no new objects.
NAMESPACE = f"paceline-chart-test-{os.getpid()}"
RELEASE = "chart-test"
OPERATOR = f"system:serviceaccount:{NAMESPACE}:chart-test-paceline-operator"
AGENT = f"system:serviceaccount:{NAMESPACE}:chart-test-paceline-agent"

# (user, verb, group, resource, namespace, name, allowed)
PERMISSIONS = [
    (OPERATOR, "patch", "paceline.dev", "trainingjobs/status", "default", "", True),
    (OPERATOR, "create", "paceline.dev", "trainingruns", "default", "", True),
    (OPERATOR, "patch", "paceline.dev", "nodeplans", "", "", True),
    (OPERATOR, "delete", "paceline.dev", "nodeplans", "", "", False),
    (OPERATOR, "patch", "paceline.dev", "trainingruns", "default", "", False),
    (OPERATOR, "delete", "paceline.dev", "incidents", "default", "", False),
    (OPERATOR, "create", "batch", "jobs", "default", "", True),
    (OPERATOR, "patch", "batch", "jobs", "default", "", False),
    (OPERATOR, "delete", "", "services", "default", "", False),
    (OPERATOR, "create", "paceline.dev", "imageprofiles", "", "", True),
    (OPERATOR, "patch", "paceline.dev", "imageprofiles/status", "", "", True),
    (OPERATOR, "delete", "paceline.dev", "imageprofiles", "", "", False),
    (OPERATOR, "watch", "", "pods", "", "", True),
    (OPERATOR, "get", "jobset.x-k8s.io", "jobsets", "default", "", True),
    (OPERATOR, "get", "kubeflow.org", "pytorchjobs", "default", "", True),
    (OPERATOR, "patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "chart-test-paceline", True),
    (OPERATOR, "patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "foreign", False),
    (OPERATOR, "update", "", "secrets", NAMESPACE, "chart-test-paceline-webhook-certificate", True),
    (OPERATOR, "get", "", "secrets", NAMESPACE, "foreign", False),
    (OPERATOR, "list", "", "secrets", "", "", False),
    (OPERATOR, "create", "coordination.k8s.io", "leases", NAMESPACE, "", True),
    (OPERATOR, "create", "authentication.k8s.io", "tokenreviews", "", "", True),
    (OPERATOR, "create", "authorization.k8s.io", "subjectaccessreviews", "", "", True),
    (OPERATOR, "patch", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler", False),
    (OPERATOR, "create", "", "pods", "default", "", False),
    (OPERATOR, "delete", "", "pods", "default", "", False),
    (OPERATOR, "patch", "", "nodes", "", "", True),
    (OPERATOR, "update", "", "nodes", "", "", False),
    (OPERATOR, "patch", "", "nodes/status", "", "", False),
    (OPERATOR, "patch", "paceline.dev", "stragglerpolicies/status", "", "", True),
    (OPERATOR, "delete", "paceline.dev", "stragglerpolicies", "", "", False),
    (OPERATOR, "patch", "kubeflow.org", "pytorchjobs", "default", "", False),
    (AGENT, "watch", "paceline.dev", "nodeplans", "", "", True),
    (AGENT, "patch", "paceline.dev", "nodeplans/status", "", "n1", True),
    (AGENT, "patch", "paceline.dev", "nodeplans", "", "n1", False),
    (AGENT, "get", "", "secrets", "default", "", False),
    (AGENT, "list", "", "pods", "", "", False),
    (AGENT, "patch", "", "nodes", "", "", False),
]


def check_dry_run(server, values):
    """Server-side dry-run of every object whose kind the server has."""
    foreign = [api.split("/")[0] for api in EXTRA_APIS]
    rendered = Rendered(*values, release=RELEASE, namespace=NAMESPACE)
    for obj in rendered.objects:
        if obj["apiVersion"].split("/")[0] in foreign:
            continue
        status, answer = server.apply(obj, dry_run=True)
        assert status in (200, 201), f"{obj['kind']} {obj['metadata']['name']}: {answer.get('message')}"


class Installed:
    """The namespaced identity of the chart, its roles and policies; removed at the end. The workloads stay out."""

    KINDS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy",
             "ValidatingAdmissionPolicyBinding")

    def __init__(self, server):
        self.server = server
        self.rendered = Rendered(release=RELEASE, namespace=NAMESPACE)
        self.namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.made = []

    def __enter__(self):
        self.add(self.namespace)
        for kind in self.KINDS:
            for obj in self.rendered.all(kind):
                self.add(obj)
        return self

    def add(self, obj):
        status, answer = self.server.apply(obj)
        assert status in (200, 201), f"{obj['kind']} {obj['metadata']['name']}: {answer.get('message')}"
        self.made.append(obj)

    def __exit__(self, *_):
        for obj in reversed(self.made):
            self.server.delete(obj)


def _is_allowed(server, user, verb, group, resource, namespace, name):
    resource, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace,
                  "name": name}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
              "spec": {"user": user, "groups": ["system:serviceaccounts", "system:authenticated"],
                       "resourceAttributes": attributes}}
    status, answer = server.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert status == 201, answer.get("message")
    return answer["status"]["allowed"]


def check_permissions(server, permissions, wait):
    wrong = []

    def all_right():
        wrong.clear()
        for user, verb, group, resource, namespace, name, allowed in permissions:
            if _is_allowed(server, user, verb, group, resource, namespace, name) != allowed:
                wrong.append(f"{user.rsplit(':', 1)[1]} {'may not' if allowed else 'may'} {verb} {resource}.{group} {name}")
        return not wrong
    wait(all_right)  # the authorizer sees new roles a moment later
    assert not wrong, "; ".join(wrong)


def aggregation_works(server):
    """The controller-manager fills aggregated roles; a bare API server does not have one."""
    _, role = server.call("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{RELEASE}-paceline-operator-job-kinds")
    return bool(role.get("rules"))


def check_agents_write_their_own_node_only(server, wait):
    def write_as(node, plan):
        headers = {"Impersonate-User": AGENT, "Impersonate-Group": "system:authenticated",
                   "Content-Type": "application/merge-patch+json"}
        if node:
            headers["Impersonate-Extra-authentication.kubernetes.io%2Fnode-name"] = node
        return server.call("PATCH", f"/apis/paceline.dev/v1alpha1/nodeplans/{plan}/status",
                           {"status": {"agentVersion": "test"}}, {"dryRun": "All"}, headers)

    plans = [{"apiVersion": "paceline.dev/v1alpha1", "kind": "NodePlan", "metadata": {"name": f"chart-test-{n}"}, "spec": {}}
             for n in ("a", "b")]
    try:
        for plan in plans:
            assert server.apply(plan)[0] in (200, 201)
        # A new policy takes a moment to be in force.
        wait(lambda: write_as("chart-test-a", "chart-test-b")[0] == 422 and write_as("chart-test-a", "chart-test-a")[0] == 200)
        assert write_as("chart-test-a", "chart-test-a")[0] == 200
        status, answer = write_as("chart-test-a", "chart-test-b")
        assert status == 422 and "may not write" in answer["message"], f"{status} {answer.get('message')}"
        status, answer = write_as(None, "chart-test-a")
        assert status == 422 and "names no node" in answer["message"], f"{status} {answer.get('message')}"
    finally:
        for plan in plans:
            server.delete(plan)


def _pod(owner=None, labels=None):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-", "namespace": NAMESPACE, "labels": labels or {}},
           "spec": {"containers": [{"name": "a", "image": "a"}]}}
    if owner:
        group_version, kind = owner
        pod["metadata"]["ownerReferences"] = [{"apiVersion": group_version, "kind": kind, "name": "x", "uid": "x",
                                               "controller": True}]
    return pod


def check_webhook_sees_training_pods_only(server, wait):
    """With failurePolicy Fail and nobody serving, a pod is refused exactly when the webhook would have been asked."""
    hook = copy.deepcopy(Rendered(release=RELEASE, namespace=NAMESPACE).one("MutatingWebhookConfiguration"))
    hook["webhooks"][0].update({"failurePolicy": "Fail", "timeoutSeconds": 1,
                                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}})
    lws = {"leaderworkerset.sigs.k8s.io/name": "l"}
    cases = [(_pod(), False), (_pod(("apps/v1", "ReplicaSet")), False), (_pod(("apps/v1", "DaemonSet")), False),
             (_pod(("apps/v1", "StatefulSet")), False), (_pod(("apps/v1", "StatefulSet"), lws), True),
             (_pod(("v1", "Pod"), lws), True), (_pod(("batch/v1", "Job")), True),
             (_pod(("batch.volcano.sh/v1alpha1", "Job")), True), (_pod(("kubeflow.org/v1", "PyTorchJob")), True),
             (_pod(("kubeflow.org/v2beta1", "MPIJob")), True), (_pod(("ray.io/v1", "RayCluster")), True)]

    def was_asked(pod):
        status, answer = server.create(pod)
        assert status in (201, 500), f"{status} {answer.get('message')}"
        return status == 500 and "failed calling webhook" in answer["message"]

    try:
        assert server.apply(hook)[0] in (200, 201)
        wait(lambda: was_asked(cases[-1][0]))
        for pod, expected in cases:
            owner = pod["metadata"].get("ownerReferences", [{"kind": "nobody"}])[0]["kind"]
            assert was_asked(pod) == expected, f"pod of {owner} {pod['metadata']['labels']}"
    finally:
        server.delete(hook)
