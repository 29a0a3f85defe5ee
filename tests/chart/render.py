"""Renders the chart with helm and finds objects in the result."""
import os
import shutil
import subprocess

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHART = os.path.join(ROOT, "deploy/helm/paceline")
VALUES = os.path.join(ROOT, "tests/chart/values")
NAMESPACE = "paceline-system"
# What the rendered objects may use beyond what every cluster has.
EXTRA_APIS = ("monitoring.coreos.com/v1", "cert-manager.io/v1")


def helm():
    return shutil.which("helm")


def run_helm(*arguments):
    return subprocess.run([helm(), *arguments], capture_output=True, text=True, timeout=120, check=False)


class Rendered:
    """The objects of one `helm template`."""

    def __init__(self, *values, release="paceline", namespace=NAMESPACE, settings=()):
        arguments = ["template", release, CHART, "--namespace", namespace, "--kube-version", "1.34.0"]
        for api in EXTRA_APIS:
            arguments += ["--api-versions", api]
        for name in values:
            arguments += ["--values", os.path.join(VALUES, name)]
        for setting in settings:
            arguments += ["--set", setting]
        done = run_helm(*arguments)
        assert done.returncode == 0, done.stderr
        self.objects = [obj for obj in yaml.safe_load_all(done.stdout) if obj]

    def all(self, kind):
        return [obj for obj in self.objects if obj["kind"] == kind]

    def one(self, kind, name=None):
        found = [obj for obj in self.all(kind) if name is None or obj["metadata"]["name"] == name]
        assert len(found) == 1, f"{len(found)} objects {kind} {name or ''}"
        return found[0]

    def names(self, kind):
        return {obj["metadata"]["name"] for obj in self.all(kind)}
