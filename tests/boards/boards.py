"""Reads the Grafana boards of the chart and gives every query as Prometheus would get it."""
import glob
import json
import os
import re

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDER = os.path.join(ROOT, "deploy", "helm", "paceline", "dashboards")

# Queries that show nothing while all is well, or until somebody uses the feature: board, panel, and what they wait for.
QUIET = {
    ("cluster", "Open incidents"): "an incident",
    ("cluster", "Incidents told per hour"): "an incident",
    ("job", "Open incidents"): "an incident",
    ("job", "Alerts of agents per hour"): "a stall, a slowdown or a lost process",
    ("job", "Slowdown"): "a traced run that is long enough for a figure",
    ("job", "Slowdown by rank, the slowest ranks"): "a traced run with slow ranks",
    ("nodes", "Cordoned nodes"): "a cordoned node",
    **{("images", title): "paceline-snapshotter" for title in (
        "Bytes of lazy images by source", "Chunks that were here when a read needed them", "Pulls that went the ordinary way, per hour",
        "Layers by what became of them, one day", "Hot sets, one day", "Images open, bytes on disk", "Damaged chunks, one day",
        "Calls of containerd, p99")},
    # Prometheus sees no increase in a series that begins with it.
    **{panel: "a second start of its kind since the operator began" for panel in (
        ("cluster", "Startup, median and p90 of a day"), ("images", "Time for images of a worker, one day"),
        ("startup", "Full start against hot restart, median"))},
    ("nodes", "Nodes of straggler policies"): "a StragglerPolicy",
    ("nodes", "Slow nodes left alone"): "a StragglerPolicy that finds a slow node",
    ("nodes", "Actions of straggler policies per hour"): "a StragglerPolicy that acts",
}


def load():
    """name -> board."""
    boards = {}
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
        with open(path, encoding="utf-8") as file:
            boards[os.path.basename(path)[:-5]] = json.load(file)
    return boards


def queries(board, values):
    """(panel, expression) for each query, with variables replaced as Grafana does for `values`."""
    found = []
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in {"__rate_interval": "1m", **values}.items():
                expression = re.sub(r"\$\{?" + name + r"\b\}?", value, expression)
            found.append((panel["title"], expression))
    return found


def variable_queries(board):
    """(variable, selector, label) of each label_values(selector, label)."""
    found = []
    for variable in board["templating"]["list"]:
        if variable["type"] != "query":
            continue
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
        found.append((variable["name"], selector, label))
    return found


def metrics(expression):
    """Names of metrics in an expression; those of recording rules have colons."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    bare = re.sub(r"\b(?:by|on|without|group_left|group_right|ignoring)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    return [word for word in re.findall(r"[a-z_][a-z0-9_:]*(?![a-z0-9_:]*\s*\()", bare)
            if re.match(r"(?:paceline|process|workqueue|controller_runtime|rest_client|leader_election)_|.*:", word)]
