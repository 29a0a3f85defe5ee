#!/usr/bin/env python3
"""Writes Prometheus targets for running pods that ask to be scraped: discover-pods.py API_URL PKI_FOLDER FILE

Annotations as usual: prometheus.io/scrape "true", prometheus.io/port, and optionally prometheus.io/path and /scheme.
"""
import json
import os
import ssl
import sys
import time
import urllib.request

PERIOD_SECONDS = 5


def running_pods(api, context):
    # resourceVersion=0: from the API server's memory.
    url = f"{api}/api/v1/pods?fieldSelector=status.phase%3DRunning&resourceVersion=0"
    with urllib.request.urlopen(url, context=context, timeout=30) as answer:
        return json.load(answer)["items"]


def target(pod):
    annotations = pod["metadata"].get("annotations") or {}
    address, port = pod["status"].get("podIP"), annotations.get("prometheus.io/port")
    if annotations.get("prometheus.io/scrape") != "true" or not address or not port:
        return None
    labels = {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"], "node": pod["spec"].get("nodeName", ""), "job": "pods"}
    for name in ("path", "scheme"):
        if value := annotations.get(f"prometheus.io/{name}"):
            labels[f"__{'metrics_path' if name == 'path' else name}__"] = value
    return {"targets": [f"{address}:{port}"], "labels": labels}


def main():
    api, pki, path = sys.argv[1:]
    context = ssl.create_default_context(cafile=f"{pki}/ca.crt")
    context.load_cert_chain(f"{pki}/admin.crt", f"{pki}/admin.key")
    while True:
        try:
            text = json.dumps([entry for entry in map(target, running_pods(api, context)) if entry], indent=1)
            with open(f"{path}.part", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{path}.part", path)
        except OSError as error:  # the API server may be restarting
            print(f"list of pods skipped: {error}", flush=True)
        time.sleep(PERIOD_SECONDS)


main()
