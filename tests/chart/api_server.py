"""The few calls of the Kubernetes API that the chart's tests make, by the kubeconfig in $KUBECONFIG."""
import base64
import json
import os
import ssl
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import yaml

TIMEOUT_S = 60


class ApiServer:
    """Requests as the user of the kubeconfig's current context."""

    def __init__(self, kubeconfig):
        with open(kubeconfig, encoding="utf-8") as file:
            config = yaml.safe_load(file)
        named = {kind: {entry["name"]: entry[kind[:-1]] for entry in config[kind]}
                 for kind in ("clusters", "users", "contexts")}
        context = named["contexts"][config["current-context"]]
        cluster, user = named["clusters"][context["cluster"]], named["users"][context["user"]]
        self.url = cluster["server"].rstrip("/")
        self.headers = {"Authorization": "Bearer " + user["token"]} if "token" in user else {}
        folder = os.path.dirname(os.path.abspath(kubeconfig))
        self.tls = ssl.create_default_context()
        if cluster.get("insecure-skip-tls-verify"):
            self.tls.check_hostname = False
            self.tls.verify_mode = ssl.CERT_NONE
        else:
            self.tls.load_verify_locations(self._file(cluster, "certificate-authority", folder))
        if "token" not in user:
            self.tls.load_cert_chain(self._file(user, "client-certificate", folder), self._file(user, "client-key", folder))

    @staticmethod
    def _file(entry, key, folder):
        if key in entry:
            return os.path.join(folder, entry[key])
        with tempfile.NamedTemporaryFile(delete=False, prefix="chart-test-") as file:
            file.write(base64.b64decode(entry[key + "-data"]))
        return file.name

    def call(self, method, path, body=None, query=None, headers=None):
        """(HTTP status, decoded answer); an HTTP error is an answer like any other."""
        url = self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        all_headers = {"Content-Type": "application/json", "Accept": "application/json", **self.headers, **(headers or {})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers=all_headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self.tls) as answer:
                return answer.status, self._decode(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, self._decode(error.read())

    @staticmethod
    def _decode(text):
        try:
            return json.loads(text)
        except ValueError:
            return {"message": text.decode(errors="replace")}

    def path_of(self, obj, with_name=False):
        """The URL path of an object's collection, or of the object, as discovery names it."""
        group_version = obj["apiVersion"]
        root = f"/api/{group_version}" if "/" not in group_version else f"/apis/{group_version}"
        status, found = self.call("GET", root)
        assert status == 200, f"{group_version} is not served: {found.get('message')}"
        resource = next((r for r in found["resources"] if r["kind"] == obj["kind"] and "/" not in r["name"]), None)
        assert resource, f"{group_version} {obj['kind']} is not served"
        namespace = obj["metadata"].get("namespace", "default")
        path = root + (f"/namespaces/{namespace}" if resource["namespaced"] else "") + "/" + resource["name"]
        return path + "/" + obj["metadata"]["name"] if with_name else path

    def apply(self, obj, dry_run=False):
        """Server-side apply; (HTTP status, answer)."""
        query = {"fieldManager": "chart-test", "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        return self.call("PATCH", self.path_of(obj, with_name=True), obj, query,
                         {"Content-Type": "application/apply-patch+yaml"})

    def create(self, obj, headers=None):
        """Dry-run create with strict field validation; (HTTP status, answer)."""
        return self.call("POST", self.path_of(obj), obj, {"dryRun": "All", "fieldValidation": "Strict"}, headers)

    def delete(self, obj):
        self.call("DELETE", self.path_of(obj, with_name=True))
