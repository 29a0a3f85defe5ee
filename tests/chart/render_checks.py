"""What the rendered chart must and must not hold: properties, not a copy of the templates."""
import json
import os

import yaml

from render import CHART, NAMESPACE, VALUES, Rendered, run_helm


def check_lint(values):
    arguments = ["lint", "--strict", CHART] + (["--values", os.path.join(VALUES, values)] if values else [])
    done = run_helm(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def check_bad_values(name):
    done = run_helm("template", "paceline", CHART, "--values", os.path.join(VALUES, "bad", name))
    assert done.returncode != 0, "accepted"
    assert "schema" in done.stderr or "additional propert" in done.stderr.lower(), done.stderr


def check_every_object_is_labelled(values):
    for obj in Rendered(*values).objects:
        labels = obj["metadata"].get("labels", {})
        name = f"{obj['kind']} {obj['metadata']['name']}"
        assert labels.get("app.kubernetes.io/part-of") == "paceline", name
        assert labels.get("app.kubernetes.io/instance") == "paceline", name
        cluster_scoped = ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "CSIDriver",
                          "MutatingWebhookConfiguration", "PriorityClass", "RuntimeClass", "ValidatingAdmissionPolicy",
                          "ValidatingAdmissionPolicyBinding")
        has_namespace = "namespace" in obj["metadata"]
        assert has_namespace == (obj["kind"] not in cluster_scoped), name


def check_crds():
    crds = Rendered().all("CustomResourceDefinition")
    assert len(crds) == 7, [crd["metadata"]["name"] for crd in crds]
    for crd in crds:
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert "annotations" not in Rendered("good/minimal.yaml").all("CustomResourceDefinition")[0]["metadata"]
    assert not Rendered(settings=["crds.enabled=false"]).all("CustomResourceDefinition")


def check_operator_is_restricted():
    pod = Rendered().one("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == "metrics"
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    assert pod["priorityClassName"] == "system-cluster-critical"


def check_disruption_budget_needs_two():
    assert Rendered().all("PodDisruptionBudget")
    assert not Rendered("good/minimal.yaml").all("PodDisruptionBudget")
    assert "priorityClassName" not in Rendered("good/minimal.yaml").one("Deployment")["spec"]["template"]["spec"]


def check_agent():
    rendered = Rendered()
    pod = rendered.one("DaemonSet", "paceline-agent")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert container["securityContext"]["privileged"] is True
    assert mounts["/var/lib/kubelet"]["mountPropagation"] == "Bidirectional"
    assert mounts["/host"]["readOnly"] is True
    assert {"operator": "Exists"} in pod["tolerations"]
    assert {env["name"]: env["valueFrom"]["fieldRef"]["fieldPath"] for env in container["env"]}["NODE_NAME"] == "spec.nodeName"
    driver = rendered.one("CSIDriver", "csi.paceline.dev")["spec"]
    assert driver["attachRequired"] is False and driver["podInfoOnMount"] is True and driver["requiresRepublish"] is True
    assert driver["volumeLifecycleModes"] == ["Ephemeral", "Persistent"] and driver["fsGroupPolicy"] == "None"
    full = Rendered("good/full.yaml").one("DaemonSet", "paceline-pl-agent")
    assert "/data/kubelet" in {mount["mountPath"] for mount in full["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert "@sha256:0000" in full["spec"]["template"]["spec"]["containers"][0]["image"]
    minimal = Rendered("good/minimal.yaml")
    assert not minimal.all("DaemonSet") and not minimal.all("CSIDriver")
    config = yaml.safe_load(minimal.one("ConfigMap")["data"]["config.yaml"])
    assert config["webhook"]["stageVolume"] is False, "volumes of a driver that is not there"


def check_dependencies():
    """A store reaches agent and holder, its credentials all three; without one the operator reads no ConfigMaps."""
    settings = ["dependencies.store=file:///srv/snapshots", "dependencies.hostPath=/srv/snapshots", "dependencies.registrySecret=pull"]
    rendered = Rendered(settings=settings)
    for kind, name, has_store in (("DaemonSet", "agent", True), ("DaemonSet", "holder", True), ("Deployment", "operator", False)):
        pod = rendered.one(kind, f"paceline-{name}")["spec"]["template"]["spec"]
        mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert volumes[mounts["/etc/paceline-registry"]]["secret"]["secretName"] == "pull", name
        assert ("/srv/snapshots" in mounts) == has_store, name
        assert not has_store or volumes[mounts["/srv/snapshots"]]["hostPath"]["path"] == "/srv/snapshots", name
    config = yaml.safe_load(rendered.one("ConfigMap", "paceline-agent")["data"]["config.yaml"])
    assert config["dependencies"]["store"] == "file:///srv/snapshots"
    for name in ("agent", "operator"):
        config = yaml.safe_load(rendered.one("ConfigMap", f"paceline-{name}")["data"]["config.yaml"])
        assert config["registry"]["credentials"] == "/etc/paceline-registry/.dockerconfigjson", name
    signing = [*settings, "dependencies.signing.secret=keys"]
    rendered = Rendered(settings=signing)
    for kind, name, has_keys in (("DaemonSet", "agent", True), ("DaemonSet", "holder", False), ("Deployment", "operator", False)):
        assert ("keys" in json.dumps(rendered.one(kind, f"paceline-{name}"))) == has_keys, f"only agents sign, {name} has the Secret"
    pod = rendered.one("DaemonSet", "paceline-agent")["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    config = yaml.safe_load(rendered.one("ConfigMap", "paceline-agent")["data"]["config.yaml"])["dependencies"]
    assert config["signingKey"] == mounts["signing"]["mountPath"] + "/signing.pem" and mounts["signing"]["readOnly"] is True
    assert config["requireSignatures"] is True and "trustedKeys" not in config
    rendered = Rendered(settings=[*signing, "dependencies.signing.trustedKeys=true", "dependencies.signing.required=false"])
    config = yaml.safe_load(rendered.one("ConfigMap", "paceline-agent")["data"]["config.yaml"])["dependencies"]
    assert config["trustedKeys"].endswith("/trusted.pem") and config["requireSignatures"] is False
    assert "configmaps" in json.dumps(rendered.one("ClusterRole", "paceline-operator"))
    assert "configmaps" not in json.dumps(Rendered().one("ClusterRole", "paceline-operator"))


def check_conversion():
    """With a store the operator gets a pod template that says no more than the converter needs; nodes read from that store."""
    assert not Rendered().all("PriorityClass")
    assert "conversion" not in yaml.safe_load(Rendered().one("ConfigMap", "paceline-operator")["data"]["config.yaml"])
    store = "docker://registry.test:5000/blocks"
    settings = [f"conversion.store={store}", "conversion.registrySecret=push", "conversion.extraArgs={--skip-tls-verify}",
                "imagePullSecrets[0].name=pull", "snapshotter.enabled=true"]
    rendered = Rendered(settings=settings)
    files = rendered.one("ConfigMap", "paceline-operator")["data"]
    config = yaml.safe_load(files["config.yaml"])["conversion"]
    mounts = {mount["name"]: mount for mount in rendered.one("Deployment")["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert config["store"] == store and config["podTemplate"] == mounts["config"]["mountPath"] + "/converter.json"
    pod = json.loads(files["converter.json"])["spec"]
    assert pod["automountServiceAccountToken"] is False and pod["securityContext"]["runAsNonRoot"] is True
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    container = pod["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True and container["resources"]["limits"]["memory"]
    assert "--docker-config=/etc/paceline-registry" in container["args"] and "--skip-tls-verify" in container["args"]
    secret = pod["volumes"][0]["secret"]
    assert secret == {"secretName": "push", "items": [{"key": ".dockerconfigjson", "path": "config.json"}]}, "pacectl reads DIR/config.json"
    priority = rendered.one("PriorityClass", pod["priorityClassName"])
    assert priority["value"] < 0 and priority["preemptionPolicy"] == "Never"
    # What converts may write there; whoever starts containers only reads, and nowhere else.
    assert yaml.safe_load(rendered.one("ConfigMap", "paceline-snapshotter")["data"]["config.yaml"])["stores"] == [store]
    alone = Rendered(settings=["snapshotter.enabled=true"])
    assert yaml.safe_load(alone.one("ConfigMap", "paceline-snapshotter")["data"]["config.yaml"])["stores"] == ["image"]

    def checksum(*extra):
        pod = Rendered(settings=[*settings, *extra]).one("Deployment")["spec"]["template"]
        return pod["metadata"]["annotations"]["checksum/config"]
    assert checksum() != checksum("conversion.threads=1"), "the operator reads the template at its start"
    own = json.loads(Rendered(settings=[*settings, "conversion.priorityClass.create=false"]).one("ConfigMap", "paceline-operator")["data"]["converter.json"])
    assert "priorityClassName" not in own["spec"]


def check_holder():
    rendered = Rendered()
    holder, agent = (rendered.one("DaemonSet", f"paceline-{name}") for name in ("holder", "agent"))
    assert holder["spec"]["updateStrategy"] == {"type": "OnDelete"}, "an upgrade of the chart must not end mounts"
    pod = holder["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False and "serviceAccountName" not in pod
    container = pod["containers"][0]
    assert "livenessProbe" not in container, "a probe that fails would end the mounts of the node"
    assert container["securityContext"]["privileged"] is True and "limits" not in container["resources"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    config = yaml.safe_load(rendered.one("ConfigMap", "paceline-holder")["data"]["config.yaml"])
    theirs = yaml.safe_load(rendered.one("ConfigMap", "paceline-agent")["data"]["config.yaml"])
    assert mounts[theirs["kubeletDir"]]["mountPropagation"] == "Bidirectional"
    assert config["mountRoot"].startswith(theirs["kubeletDir"] + "/"), "else the agent does not see the mounts"
    assert theirs["holder"]["socket"] == config["stateDir"] + "/holder.sock"
    assert theirs["holder"]["socket"] in container["readinessProbe"]["exec"]["command"]
    for spec in (pod, agent["spec"]["template"]["spec"]):
        run = next(volume for volume in spec["volumes"] if volume["name"] == "run")["hostPath"]["path"]
        inside = next(mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "run")["mountPath"]
        assert run == inside and config["stateDir"].startswith(run + "/")
    assert "/etc/hadoop/conf" not in mounts
    assert mounts[theirs["stateDir"]]["name"] == "state", "chunks of dependency snapshots need a disk"
    hadoop = Rendered(settings=["holder.hadoopConfigMap=hadoop"]).one("DaemonSet", "paceline-holder")
    assert "/etc/hadoop/conf" in json.dumps(hadoop)
    without = Rendered(settings=["holder.enabled=false"])
    assert [obj["metadata"]["name"] for obj in without.all("DaemonSet")] == ["paceline-agent"]
    assert "/run/paceline" not in json.dumps(without.one("DaemonSet"))


def check_snapshotter():
    assert not [obj for obj in Rendered().objects if "snapshotter" in obj["metadata"]["name"] or obj["kind"] == "RuntimeClass"]
    rendered = Rendered(settings=["snapshotter.enabled=true", "snapshotter.registrySecret=pull"])
    plugin, keeper = (rendered.one("DaemonSet", f"paceline-snapshotter{suffix}") for suffix in ("", "-keeper"))
    assert keeper["spec"]["updateStrategy"] == {"type": "OnDelete"}, "an upgrade of the chart must not end mounts"
    config = yaml.safe_load(rendered.one("ConfigMap", "paceline-snapshotter")["data"]["config.yaml"])
    container, kept = (obj["spec"]["template"]["spec"]["containers"][0] for obj in (plugin, keeper))
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in plugin["spec"]["template"]["spec"]["volumes"]}
    root = mounts[config["root"]]
    assert root["mountPropagation"] == "Bidirectional", "containerd would not see the layers"
    assert volumes[root["name"]]["hostPath"]["path"] == config["root"], "containerd is told the plugin's own paths"
    assert config["keeper"] == {"socket": kept["args"][1].removeprefix("--socket="), "spawn": False}
    assert config["socket"].startswith("/run/paceline/snapshotter/") and "livenessProbe" not in kept
    assert kept["securityContext"]["capabilities"] == {"drop": ["ALL"]} and "privileged" not in kept["securityContext"]
    assert config["registry"]["credentials"].rsplit("/", 1)[0] in mounts and volumes["registry"]["secret"] == {"secretName": "pull"}
    # The agent asks the plugin, over a socket that both see under one path.
    theirs = yaml.safe_load(rendered.one("ConfigMap", "paceline-agent")["data"]["config.yaml"])
    assert theirs["snapshotter"]["socket"] == config["status"]["socket"]
    for extra in ([], ["holder.enabled=false"], ["snapshotter.runDir=/run/lazy"]):
        there = Rendered(settings=["snapshotter.enabled=true", *extra])
        socket = yaml.safe_load(there.one("ConfigMap", "paceline-agent")["data"]["config.yaml"])["snapshotter"]["socket"]
        agent = there.one("DaemonSet", "paceline-agent")["spec"]["template"]["spec"]["containers"][0]
        assert any(socket.startswith(mount["mountPath"] + "/") for mount in agent["volumeMounts"]), extra
    for obj in (plugin, keeper):
        pod = obj["spec"]["template"]["spec"]
        # Without a pod network and without a runtime class of its own: both may depend on it.
        assert pod["hostNetwork"] is True and "runtimeClassName" not in pod and pod["automountServiceAccountToken"] is False
    assert rendered.one("RuntimeClass", "paceline")["handler"] == "paceline"


def check_peers():
    """Nodes share chunks only where somebody makes certificates; the CA's key is mounted nowhere."""
    off = Rendered(settings=["snapshotter.enabled=true"])
    assert "peers" not in yaml.safe_load(off.one("ConfigMap", "paceline-snapshotter")["data"]["config.yaml"])
    assert "paceline-snapshotter-peers" not in json.dumps(off.objects)
    for settings, secret in ((["snapshotter.peers.certificates=self-managed"], "paceline-snapshotter-peers"),
                             (["snapshotter.peers.certificates=secret", "snapshotter.peers.secretName=mine"], "mine")):
        rendered = Rendered(settings=["snapshotter.enabled=true", "snapshotter.peers.port=9000", *settings])
        config = yaml.safe_load(rendered.one("ConfigMap", "paceline-snapshotter")["data"]["config.yaml"])["peers"]
        pod = rendered.one("DaemonSet", "paceline-snapshotter")["spec"]["template"]["spec"]
        mount = next(mount for mount in pod["containers"][0]["volumeMounts"] if mount["mountPath"] == config["certificates"])
        volume = next(volume for volume in pod["volumes"] if volume["name"] == mount["name"])["secret"]
        assert volume["secretName"] == secret and volume["optional"] is True and config["port"] == 9000
        assert {item["key"] for item in volume["items"]} == {"ca.crt", "tls.crt", "tls.key"}
        is_own = secret != "mine"
        operator = yaml.safe_load(rendered.one("ConfigMap", "paceline-operator")["data"]["config.yaml"])
        assert operator.get("peers", {}).get("secret") == (secret if is_own else None)
        rules = rendered.one("Role", "paceline-operator")["rules"]
        assert any(rule.get("resourceNames") == [secret] and rule["verbs"] == ["get", "update"] for rule in rules) == is_own
        assert any(obj["metadata"]["name"] == secret for obj in rendered.all("Secret")) == is_own
        agent = rendered.one("DaemonSet", "paceline-agent")["spec"]["template"]["spec"]["containers"][0]
        assert {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}} in agent["env"]


def check_webhook():
    rendered = Rendered()
    hook = rendered.one("MutatingWebhookConfiguration")["webhooks"][0]
    assert hook["failurePolicy"] == "Ignore" and hook["sideEffects"] == "NoneOnDryRun" and hook["timeoutSeconds"] <= 5
    assert hook["rules"] == [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                              "scope": "Namespaced"}]
    excluded = hook["namespaceSelector"]["matchExpressions"][0]
    assert excluded["operator"] == "NotIn" and {"kube-system", NAMESPACE} <= set(excluded["values"])
    service = rendered.one("Service", hook["clientConfig"]["service"]["name"])
    ports = {port["name"]: port for port in rendered.one("Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert service["spec"]["ports"][0]["targetPort"] in ports
    config = yaml.safe_load(rendered.one("ConfigMap", "paceline-operator")["data"]["config.yaml"])["webhook"]
    assert config["port"] == ports["webhook"]["containerPort"]
    assert config["secret"] == rendered.one("Secret")["metadata"]["name"]
    assert "data" not in rendered.one("Secret"), "an upgrade would take the certificate away"
    assert config["configurations"] == [rendered.one("MutatingWebhookConfiguration")["metadata"]["name"]]
    assert f"{service['metadata']['name']}.{NAMESPACE}.svc" in config["dnsNames"]


def check_cert_manager():
    rendered = Rendered("good/full.yaml")
    certificate, issuer = rendered.one("Certificate"), rendered.one("Issuer")
    assert certificate["spec"]["issuerRef"] == {"kind": "Issuer", "name": issuer["metadata"]["name"]}
    annotations = rendered.one("MutatingWebhookConfiguration")["metadata"]["annotations"]
    assert annotations["cert-manager.io/inject-ca-from"] == f"{NAMESPACE}/{certificate['metadata']['name']}"
    assert not rendered.all("Secret")
    config = yaml.safe_load(rendered.one("ConfigMap", "paceline-pl-operator")["data"]["config.yaml"])["webhook"]
    pod = rendered.one("Deployment")["spec"]["template"]["spec"]
    mounts = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
    assert os.path.dirname(config["certificateFile"]) in mounts and config["certificates"] == "files"
    role = rendered.one("Role")
    assert not [rule for rule in role["rules"] if "secrets" in rule["resources"]]


def check_no_wildcards_and_no_secret_lists(values):
    for role in Rendered(*values).all("ClusterRole") + Rendered(*values).all("Role"):
        for rule in role.get("rules") or []:
            name = role["metadata"]["name"]
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], name
            if "secrets" in rule["resources"]:
                assert rule.get("resourceNames") and not {"list", "watch", "create"} & set(rule["verbs"]), name


def check_job_kinds_switch():
    rendered = Rendered(settings=["jobKinds.ray=false"])
    rules = rendered.one("ClusterRole", "paceline-operator-known-job-kinds")["rules"]
    groups = {group for rule in rules for group in rule["apiGroups"]}
    assert "ray.io" not in groups and "jobset.x-k8s.io" in groups
    aggregate = rendered.one("ClusterRole", "paceline-operator-job-kinds")["aggregationRule"]
    label = aggregate["clusterRoleSelectors"][0]["matchLabels"]
    assert label.items() <= rendered.one("ClusterRole", "paceline-operator-known-job-kinds")["metadata"]["labels"].items()


def check_monitoring():
    default = {obj["kind"] for obj in Rendered().objects}
    assert not default & {"ServiceMonitor", "PodMonitor", "PrometheusRule", "NetworkPolicy"}
    full = Rendered("good/full.yaml")
    assert full.one("ServiceMonitor")["metadata"]["labels"]["release"] == "prometheus"
    assert full.one("PodMonitor") and full.one("PrometheusRule") and len(full.all("NetworkPolicy")) == 2
    boards = [obj for obj in full.all("ConfigMap") if obj["metadata"]["labels"].get("grafana_dashboard") == "1"]
    assert boards
    for board in boards:
        for text in board["data"].values():
            content = json.loads(text)
            assert content["uid"] and content["templating"]["list"][0]["type"] == "datasource"
    # Without the monitoring CRDs the same values leave the monitors out instead of failing.
    done = run_helm("template", "paceline", CHART, "--values", os.path.join(VALUES, "good/full.yaml"), "--kube-version", "1.34.0")
    assert done.returncode == 0 and "ServiceMonitor" not in done.stdout, done.stderr


def check_network_policies():
    """Who may reach which port: by what the pods and the callers are labelled with, not by the text of the templates."""
    def allowed(rendered, name):
        policy = rendered.one("NetworkPolicy", name)["spec"]
        assert policy["policyTypes"] == ["Ingress"]
        assert policy["podSelector"]["matchLabels"].items() <= labels_of(rendered, name).items(), "it selects no pod"
        assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} <= ports_of(rendered, name)
        return {rule["ports"][0]["port"]: rule.get("from") for rule in policy["ingress"]}

    def template(rendered, name):
        return rendered.one("DaemonSet" if name.endswith("agent") else "Deployment", name)["spec"]["template"]

    def labels_of(rendered, name):
        return template(rendered, name)["metadata"]["labels"]

    def ports_of(rendered, name):
        return {port["name"] for port in template(rendered, name)["spec"]["containers"][0]["ports"]}

    def blocks(sources):
        return [source["ipBlock"]["cidr"] for source in sources if "ipBlock" in source]

    def is_let_in(sources, labels):
        return any(source["podSelector"]["matchLabels"].items() <= labels.items() for source in sources if "podSelector" in source)

    full = Rendered("good/full.yaml")
    operator, agent = allowed(full, "paceline-pl-operator"), allowed(full, "paceline-pl-agent")
    cidrs = ["192.0.2.0/28", "2001:db8::/64"]
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert operator["page"] is None and blocks(operator["webhook"]) == cidrs and len(operator["webhook"]) == 2
    assert blocks(agent["metrics"]) == cidrs, "pacectl asks agents through the API server"
    assert not blocks(operator["metrics"]) and monitoring in operator["metrics"] and monitoring in agent["metrics"]
    test, asker = full.one("Pod")["metadata"]["labels"], labels_of(full, "paceline-pl-operator")
    assert is_let_in(operator["metrics"], test) and not is_let_in(agent["metrics"], test)
    assert is_let_in(agent["metrics"], asker)
    assert is_let_in(agent["metrics"], labels_of(full, "paceline-pl-agent")), "probes measure the network between nodes"
    foreign = Rendered("good/full.yaml", release="other")
    assert not is_let_in(agent["metrics"], labels_of(foreign, "other-pl-operator")), "another release"
    open_to_all = Rendered(settings=["networkPolicy.enabled=true", "test.enabled=false"])
    operator = allowed(open_to_all, "paceline-operator")
    assert operator["webhook"] is None and operator["metrics"] == [{"namespaceSelector": {}}]
    assert not blocks(allowed(open_to_all, "paceline-agent")["metrics"])


def check_config_change_restarts_pods():
    def checksum(*settings):
        return Rendered(settings=settings).one("Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    assert checksum() != checksum("operator.config.controllers.workers=5")
    assert checksum() == checksum("operator.replicas=3")


def check_releases_do_not_collide():
    first, second = Rendered(), Rendered(release="other", namespace="other")
    shared = ("CustomResourceDefinition", "CSIDriver")  # one per cluster by their nature
    for obj in first.objects:
        if obj["kind"] not in shared:
            assert obj["metadata"]["name"] not in second.names(obj["kind"]), f"{obj['kind']} {obj['metadata']['name']}"


def check_old_kubernetes_is_refused():
    done = run_helm("template", "paceline", CHART, "--kube-version", "1.29.0")
    assert done.returncode != 0 and "kubeVersion" in done.stderr, done.stderr


def check_rules_and_boards_are_whole():
    """Every file of rules/ and dashboards/ gets in as it is."""
    full = Rendered("good/full.yaml")
    rendered = {group["name"]: group for group in full.one("PrometheusRule")["spec"]["groups"]}
    for name in ("recording.yaml", "alerts.yaml"):
        with open(os.path.join(CHART, "rules", name), encoding="utf-8") as file:
            for group in yaml.safe_load(file)["groups"]:
                assert rendered.pop(group["name"]) == group, group["name"]
    assert not rendered, list(rendered)
    boards = {key: text for obj in full.all("ConfigMap") if obj["metadata"]["labels"].get("grafana_dashboard") == "1"
              for key, text in obj["data"].items()}
    files = os.listdir(os.path.join(CHART, "dashboards"))
    assert set(boards) == set(files), f"{sorted(boards)} instead of {sorted(files)}"
    for name, text in boards.items():
        with open(os.path.join(CHART, "dashboards", name), encoding="utf-8") as file:
            assert json.loads(text) == json.load(file), name
    linked = Rendered("good/full.yaml", settings=["monitoring.prometheusRule.runbookBaseUrl=https://runbooks.example.com/"])
    for group in linked.one("PrometheusRule")["spec"]["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                assert rule["annotations"]["runbook_url"] == f"https://runbooks.example.com/{rule['alert']}.md"


def check_job_page():
    def ports(rendered, kind):
        spec = rendered.one(kind, "paceline-operator")["spec"]
        entries = spec["ports"] if kind == "Service" else spec["template"]["spec"]["containers"][0]["ports"]
        return {entry["name"] for entry in entries}

    def reviews(rendered):
        role = rendered.one("ClusterRole", "paceline-operator")
        return {resource for rule in role["rules"] for resource in rule["resources"] if resource.endswith("reviews")}
    on, off = Rendered(), Rendered(settings=["operator.config.page.enabled=false"])
    assert "page" in ports(on, "Deployment") and "page" in ports(on, "Service")
    assert reviews(on) == {"tokenreviews", "subjectaccessreviews"}
    assert "page" not in ports(off, "Deployment") and "page" not in ports(off, "Service") and not reviews(off)
