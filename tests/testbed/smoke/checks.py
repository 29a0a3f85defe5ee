"""Checks of pods, images, network, volumes and webhooks. The order matters: later ones use the pods of earlier ones."""
import base64
import os
import socket
import subprocess
import time

from bed import (BUSYBOX, NAMESPACE, PYTHON, SOURCE, Failure, Skip, apply, check, exec_in, get, kubectl, nodes, run, second_node,
                 testbed, wait_complete, wait_for, wait_ready)


@check("nodes are Ready")
def nodes_ready():
    if not nodes():
        raise Failure("no Ready node")


@check("pod from the private registry")
def private_image():
    apply("pod.yaml", image=BUSYBOX, node=nodes()[0])
    wait_ready("web")


@check("private registry refuses a pod without credentials")
def no_credentials():
    kubectl("create", "serviceaccount", "bare")
    apply("no-secret.yaml", image=PYTHON)

    def refused():
        statuses = get("pod", "no-secret", ["status"]).get("containerStatuses", [{}])
        reason = statuses[0].get("state", {}).get("waiting", {}).get("reason", "")
        return reason in ("ErrImagePull", "ImagePullBackOff")

    wait_for("ErrImagePull", refused)
    kubectl("delete", "pod", "no-secret", "--grace-period=0", "--force")


@check("logs and exec")
def logs_exec():
    wait_for("a log line", lambda: "hello from web" in kubectl("logs", "web"))
    if "uid=0" not in exec_in("web", "id"):
        raise Failure("exec")


@check("port-forward")
def port_forward():
    with subprocess.Popen(["kubectl", "-n", NAMESPACE, "port-forward", "pod/web", ":8080"], stdout=subprocess.PIPE, text=True) as forward:
        try:
            port = forward.stdout.readline().split(":")[1].split()[0]
            if "root" not in run("curl", "-sf", "--max-time", "5", f"http://127.0.0.1:{port}/group"):
                raise Failure("wrong content")
        finally:
            forward.terminate()


@check("pod address from the machine")
def pod_from_machine():
    address = get("pod", "web", ["status", "podIP"])
    if "root" not in run("curl", "-sf", "--max-time", "5", f"http://{address}:8080/group"):
        raise Failure("wrong content")


def fetch(pod, address, port, path=""):
    """HTTP by hand: busybox's static wget crashes on some machines when it looks a name up."""
    request = f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {address} {port}"
    return exec_in(pod, "sh", "-c", request)


@check("pod to pod on another node")
def pod_to_pod():
    apply("client.yaml", name="client", image=BUSYBOX, node=second_node())
    wait_ready("client")
    address = get("pod", "web", ["status", "podIP"])
    wait_for("an answer", lambda: "root" in fetch("client", address, 8080, "/group"))


@check("Service address from a pod")
def service_from_pod():
    second_node()
    address = service_ip()
    wait_for("the Service", lambda: "root" in fetch("client", address, 8080, "/group"))


def service_ip():
    return get("service", "web", ["spec", "clusterIP"])


@check("Service address from the machine")
def service_from_machine():
    wait_for("the Service", lambda: "root" in run("curl", "-sf", "--max-time", "2", f"http://{service_ip()}:8080/group"), timeout=60)


@check("pod to the API server's Service")
def api_from_pod():
    address = run("kubectl", "get", "service", "kubernetes", "-n", "default", "-o", "jsonpath={.spec.clusterIP}")
    # A plain request to a TLS port: the answer says so.
    wait_for("a connection", lambda: "HTTPS" in fetch("web", address, 443, "/"))


@check("DNS")
def dns():
    wait_for("the Service's name", lambda: service_ip() in exec_in("web", "nslookup", f"web.{NAMESPACE}.svc.cluster.local"))
    exec_in("web", "nslookup", "registry.test")


@check("pod to the machine")
def pod_to_machine():
    with socket.socket() as server:
        server.bind((os.environ["PACELINE_TESTBED_MACHINE_IP"], 0))
        server.listen()
        server.settimeout(30)
        host, port = server.getsockname()
        client = ["kubectl", "-n", NAMESPACE, "exec", "web", "--", "nc", "-w", "20", host, str(port)]
        with subprocess.Popen(client, stdin=subprocess.DEVNULL) as process:
            server.accept()[0].close()
            process.wait(timeout=30)


@check("RBAC refuses a service account without a role")
def rbac():
    code, output = run("kubectl", "auth", "can-i", "list", "pods", f"--as=system:serviceaccount:{NAMESPACE}:default", ok=False)
    if code == 0 or "no" not in output:
        raise Failure(output)


@check("audit log")
def audit():
    def found():
        with open(os.environ["PACELINE_TESTBED_AUDIT_LOG"], encoding="utf-8") as log:
            return any('"resource":"pods"' in line and '"name":"web"' in line for line in log)

    wait_for("an entry", found)


@check("python image, Job")
def python_job():
    apply("python-job.yaml", image=PYTHON)
    wait_complete("python")
    if "3." not in kubectl("logs", "job/python"):
        raise Failure(kubectl("logs", "job/python"))


@check("Indexed Job over the nodes meets by DNS")
def indexed_job():
    apply("indexed-job.yaml", image=BUSYBOX)
    wait_complete("ranks", timeout=90)


@check("fresh program of the machine in a pod, by hostPath")
def host_path():
    apply("host-binary.yaml", image=BUSYBOX)
    wait_for("success", lambda: get("pod", "host-binary", ["status", "phase"]) == "Succeeded")
    if "OpenSSL" not in kubectl("logs", "host-binary"):
        raise Failure(kubectl("logs", "host-binary"))


@check("memory limit kills")
def oom():
    apply("limits.yaml", image=BUSYBOX)

    def killed():
        statuses = get("pod", "greedy", ["status"]).get("containerStatuses") or [{}]
        return statuses[0].get("state", {}).get("terminated", {}).get("reason") == "OOMKilled"

    wait_for("OOMKilled", killed)


@check("mount in a privileged pod reaches another pod")
def propagation():
    apply("propagation.yaml", image=BUSYBOX, node=nodes()[0])
    wait_ready("viewer")
    wait_for("the file", lambda: "made-by-agent" in exec_in("viewer", "cat", "/view/mounted/file"))
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        if "smoke-mount" in mounts.read():
            raise Failure("the mount leaked to the machine")


@check("CSI plugin registers")
def csi_registers():
    binary = run(os.path.join(SOURCE, "..", "build"), "--path", "csiprobe").strip() + "/csiprobe"
    if not os.path.exists(binary):
        run(os.path.join(SOURCE, "..", "build"), "csiprobe", timeout=600)
    testbed("image", "csiprobe", "--binary", binary, "--entrypoint", "/usr/bin/csiprobe")
    apply("csi.yaml", image="registry.test:5000/csiprobe:1")
    for name in nodes():
        wait_for(f"registration on {name}", lambda: "probe.testbed.paceline.dev" in run(
            "kubectl", "get", "csinode", name, "-o", "jsonpath={.spec.drivers[*].name}"))


@check("CSI inline volume")
def csi_volume():
    apply("csi-pod.yaml", image=BUSYBOX, name="volume", kind="tmpfs", node=nodes()[0])
    wait_ready("volume")
    info = exec_in("volume", "cat", "/data/info.txt")
    if "dataset=imagenet" not in info or "csi.storage.k8s.io/pod.name=volume" not in info:
        raise Failure(info)


@check("CSI inline volume with FUSE")
def csi_fuse():
    apply("csi-pod.yaml", image=BUSYBOX, name="fuse", kind="fuse", node=nodes()[0])
    wait_ready("fuse")
    if exec_in("fuse", "cat", "/data/d/hello") != "hello from fuse\n":
        raise Failure("wrong content")


@check("FUSE comes back in a running pod after its server was killed")
def fuse_comes_back():
    kubectl("delete", "pod", "-l", "app=csiprobe", "--grace-period=0", "--force")
    wait_for("an error from the dead mount", lambda: kubectl("exec", "fuse", "--", "cat", "/data/d/hello", ok=False)[0] != 0, timeout=15)
    wait_for("the file", lambda: exec_in("fuse", "cat", "/data/d/hello") == "hello from fuse\n", timeout=90)


def certificate(name):
    """A serving certificate signed by the test bed's CA."""
    folder = os.path.dirname(os.environ["KUBECONFIG"])
    key = run("openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout")
    request = run("openssl", "req", "-new", "-key", "/dev/stdin", "-subj", "/CN=webhook", stdin=key)
    extension = os.path.join(folder, "smoke-webhook.ext")
    with open(extension, "w", encoding="utf-8") as file:
        file.write(f"subjectAltName={name}\n")
    signed = run("openssl", "x509", "-req", "-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key", "-set_serial", "77", "-days", "30",
                 "-extfile", extension, stdin=request)
    os.unlink(extension)
    with open(f"{folder}/ca.crt", "rb") as file:
        return key, signed, base64.b64encode(file.read()).decode()


def expect_mutation(annotation):
    def mutated():
        kubectl("delete", "pod", "mutated", "--ignore-not-found", "--grace-period=0", "--force")
        kubectl("run", "mutated", f"--image={BUSYBOX}", "--labels=smoke-webhook=yes", "--restart=Never", "--command", "--", "true")
        return annotation in (get("pod", "mutated", ["metadata", "annotations"]) or {})

    wait_for("the annotation", mutated, timeout=30)


@check("webhook behind a Service")
def webhook_service():
    key, signed, authority = certificate(f"DNS:webhook.{NAMESPACE}.svc")
    encode = lambda text: base64.b64encode(text.encode()).decode()  # noqa: E731
    with open(os.path.join(SOURCE, "webhook.py"), encoding="utf-8") as file:
        script = file.read()
    apply("webhook.yaml", image=PYTHON, script="\n".join("    " + line for line in script.splitlines()), key=encode(key), cert=encode(signed))
    wait_ready("webhook")
    apply("webhook-config.yaml", name="smoke-service", ca=authority,
          client=f"service: {{namespace: {NAMESPACE}, name: webhook, path: /by-service}}")
    expect_mutation("by-service")
    run("kubectl", "delete", "mutatingwebhookconfiguration", "smoke-service")


@check("webhook by URL on the machine")
def webhook_url():
    address = os.environ["PACELINE_TESTBED_MACHINE_IP"]
    key, signed, authority = certificate(f"IP:{address}")
    folder = os.path.dirname(os.environ["KUBECONFIG"])
    for name, text in (("key", key), ("crt", signed)):
        with open(f"{folder}/smoke-webhook.{name}", "w", encoding="utf-8") as file:
            file.write(text)
    command = ["/usr/bin/python3", os.path.join(SOURCE, "webhook.py"), address, "0", f"{folder}/smoke-webhook.crt", f"{folder}/smoke-webhook.key"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = server.stdout.readline().split()[-1]
            apply("webhook-config.yaml", name="smoke-url", ca=authority, client=f'url: "https://{address}:{port}/by-url"')
            expect_mutation("by-url")
            run("kubectl", "delete", "mutatingwebhookconfiguration", "smoke-url")
        finally:
            server.kill()


@check("registry rate limit")
def registry_limit():
    folder = os.path.join(os.path.dirname(os.environ["KUBECONFIG"]), "smoke-blob")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "blob"), "wb") as file:
        file.write(os.urandom(8 << 20))
    testbed("image", "blob", folder)
    os.unlink(os.path.join(folder, "blob"))
    os.rmdir(folder)
    base = f"https://{os.environ['REGISTRY_ADDRESS'].replace(':5000', ':5001')}/v2/blob"
    curl = ["curl", "-sf", "--max-time", "60", "--cacert", os.environ["REGISTRY_CA"]]
    manifest = run(*curl, "-H", "Accept: application/vnd.oci.image.manifest.v1+json", f"{base}/manifests/1")
    digest = manifest.split('"layers"')[1].split('"digest":"')[1].split('"')[0]
    testbed("registry-limit", "--mbit", "20", "--delay-ms", "10")
    try:
        start = time.monotonic()
        run(*curl, "-o", "/dev/null", f"{base}/blobs/{digest}", timeout=70)
        seconds = time.monotonic() - start
    finally:
        testbed("registry-limit", "off")
    if not 2.5 < seconds < 15:
        raise Failure(f"8 MiB at 20 Mbit/s took {seconds:.1f} s")


@check("helm installs a chart")
def helm():
    if run("bash", "-c", "command -v helm", ok=False)[0] != 0:
        raise Skip("helm is not built (scripts/testbed build helm)")
    run("helm", "upgrade", "--install", "smoke", os.path.join(SOURCE, "chart"), "--namespace", NAMESPACE, "--wait", "--timeout", "60s", timeout=70)
    if get("configmap", "smoke", ["data"]).get("kubernetes", "")[:3] != "v1.":
        raise Failure("the chart saw no Kubernetes version")


@check("Prometheus scrapes an annotated pod")
def prometheus():
    url = os.environ.get("PROMETHEUS_URL")
    if not url:
        raise Skip("part prometheus is not up")
    apply("metrics.yaml", image=BUSYBOX)
    query = f"{url}/api/v1/query?query=smoke_metric"
    wait_for("the sample", lambda: '"smoke_metric"' in run("curl", "-sf", "--max-time", "5", query), timeout=60)


@check("kwok runs pods on fake nodes")
def kwok():
    if not run("kubectl", "get", "nodes", "-l", "type=kwok", "-o", "name"):
        raise Skip("part kwok is not up")
    apply("kwok-job.yaml", image=BUSYBOX)
    wait_complete("fake", timeout=30)
