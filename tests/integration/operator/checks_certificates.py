"""The webhook's certificate from files, as a mounted Secret of cert-manager brings it."""
import base64
import json
import os
import ssl
import tempfile
import threading
import time

from bed import check, create, expect, free_port, get, items, run, wait_for
from checks_foreign import ENABLED, owner_of


class Authority:
    """A CA with openssl, and pairs for an address."""

    def __init__(self, folder, name):
        self.folder, self.name, self.pairs = folder, name, 0
        self.certificate = os.path.join(folder, f"{name}.crt")
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", f"/CN={name}",
            "-keyout", os.path.join(folder, f"{name}.key"), "-out", self.certificate)

    def issue(self, address):
        """(certificate, key) as PEM texts."""
        self.pairs += 1
        base = os.path.join(self.folder, f"{self.name}-{self.pairs}")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={self.name}-leaf-{self.pairs}",
            "-keyout", f"{base}.key", "-out", f"{base}.csr")
        with open(f"{base}.ext", "w", encoding="utf-8") as file:
            file.write(f"subjectAltName=IP:{address}\nextendedKeyUsage=serverAuth\n")
        run("openssl", "x509", "-req", "-in", f"{base}.csr", "-CA", self.certificate, "-CAkey", os.path.join(self.folder, f"{self.name}.key"),
            "-CAcreateserial", "-days", "1", "-extfile", f"{base}.ext", "-out", f"{base}.crt")
        return read(f"{base}.crt"), read(f"{base}.key")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class MountedSecret:
    """A folder as kubelet makes one: names lead through ..data to a folder of the version, and ..data is replaced in one step."""

    def __init__(self, folder):
        self.folder, self.version = folder, 0
        os.makedirs(folder)
        for name in ("tls.crt", "tls.key"):
            os.symlink(os.path.join("..data", name), os.path.join(folder, name))

    def put(self, pair):
        old = os.path.realpath(os.path.join(self.folder, "..data")) if self.version else None
        self.version += 1
        name = f"..version-{self.version}"
        os.makedirs(os.path.join(self.folder, name))
        for file_name, text in zip(("tls.crt", "tls.key"), pair):
            with open(os.path.join(self.folder, name, file_name), "w", encoding="utf-8") as file:
                file.write(text)
        os.symlink(name, os.path.join(self.folder, "..data_tmp"))
        os.rename(os.path.join(self.folder, "..data_tmp"), os.path.join(self.folder, "..data"))
        if old:
            run("rm", "-r", old)


class PodMaker(threading.Thread):
    """Makes pods of a job, one after the other, until told to stop. None of them runs."""

    def __init__(self, ns, owner):
        super().__init__(daemon=True)
        self.ns, self.owner, self.made, self.error, self.stopping = ns, owner, 0, None, threading.Event()

    def run(self):
        while not self.stopping.is_set() and not self.error:
            index = str(self.made)
            try:
                create({"apiVersion": "v1", "kind": "Pod", "metadata": {
                    "name": f"made-{index}", "namespace": self.ns, "ownerReferences": [self.owner],
                    "labels": {"made": "here", "training.kubeflow.org/job-name": self.owner["name"], "training.kubeflow.org/replica-type": "worker",
                               "training.kubeflow.org/replica-index": index}},
                    "spec": {"schedulingGates": [{"name": "paceline.dev/never"}], "containers": [{"name": "main", "image": "none"}]}})
            except Exception as error:  # any of them is what the check is about
                self.error = error
            self.made += 1

    def more(self, count):
        """Waits until as many more were made."""
        wanted = self.made + count
        wait_for(f"{count} more pods", lambda: self.made >= wanted or self.error)
        expect(not self.error, f"pod {self.made}: {self.error}")


def served(address, port):
    return ssl.get_server_certificate((address, port), timeout=10)


@check
def a_certificate_from_files_is_followed_and_no_pod_is_refused(bed):
    address, port = os.environ["PACELINE_TESTBED_MACHINE_IP"], free_port()
    with tempfile.TemporaryDirectory() as folder:
        first, second = Authority(folder, "first"), Authority(folder, "second")
        secret = MountedSecret(os.path.join(folder, "mounted"))
        pair = first.issue(address)
        secret.put(pair)
        operator = bed.start_leading("files", f"--webhook-port={port}", "--webhook-certificates=files",
                                     f"--webhook-certificate-file={secret.folder}/tls.crt", f"--webhook-key-file={secret.folder}/tls.key", webhook=True)
        wait_for("the webhook is served", lambda: operator.has_logged('"webhook served"'), 60)
        # Whoever renews the CA has told of the new one first, as cert-manager does.
        bundle = base64.b64encode((read(first.certificate) + read(second.certificate)).encode()).decode()
        bed.make_hook({"url": f"https://{address}:{port}/mutate-pods", "caBundle": bundle}, failure_policy="Fail")
        replicas = {"replicas": 1000, "template": {"spec": {"containers": [{"name": "pytorch", "image": "none"}]}}}
        job = create({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "torch", "namespace": bed.ns, "annotations": ENABLED},
                      "spec": {"pytorchReplicaSpecs": {"Worker": replicas}}})
        maker = PodMaker(bed.ns, owner_of(job))
        maker.start()
        try:
            follow(maker, secret, [first.issue(address), second.issue(address), second.issue(address)], address, port)
        finally:
            maker.stopping.set()
            maker.join(30)
        expect(not maker.error, str(maker.error))
        # The API server notices the configuration a moment after it was made; from then on each pod went through the webhook.
        pods = {int(p["metadata"]["name"].split("-")[1]): p["metadata"]["labels"] for p in items("pods", bed.ns, "made=here")}
        hooked = [number for number, labels in pods.items() if "paceline.dev/run" in labels]
        expect(hooked and all(number in hooked for number in pods if number >= min(hooked)), f"pods {sorted(set(pods) - set(hooked))} went past the webhook")
        print(f"        {len(pods)} pods made while the pair was swapped {secret.version - 1} times", flush=True)
        expect("caBundle" in json.dumps(get("mutatingwebhookconfiguration", "paceline")), "the operator has taken the CA away")


def follow(maker, secret, pairs, address, port):
    for pair in pairs:
        maker.more(3)
        began = time.monotonic()
        secret.put(pair)
        wait_for("the new certificate is served", lambda pair=pair: served(address, port).strip() == pair[0].strip(), 30)
        print(f"        a new pair is served after {time.monotonic() - began:.1f} s", flush=True)
        maker.more(3)
    # Half a pair, as between two writes that are not one: the last good one is served on.
    last = served(address, port)
    secret.put((pairs[0][0], pairs[1][1]))
    time.sleep(12)  # longer than it takes to look again
    maker.more(3)
    expect(served(address, port) == last, "a certificate is served that does not fit its key")
