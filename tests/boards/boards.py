"""Reads the Grafana boards of the chart and gives every query as Prometheus would get it."""
import glob
import json
import os
import re

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDER = os.path.join(ROOT, "deploy", "helm", "paceline", "dashboards")


def load():
    """name -> board."""
    boards = {}
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
        with open(path, encoding="utf-8") as file:
            boards[os.path.basename(path)[:-5]] = json.load(file)
    return boards


def replaced(expression, values):
    """With variables replaced as Grafana does for `values`."""
    for name, value in {"__rate_interval": "1m", **values}.items():
        expression = re.sub(r"\$\{?" + name + r"\b\}?", value, expression)
    return expression


def queries(board, values):
    """(panel, expression) for each query."""
    return [(panel["title"], replaced(target["expr"], values)) for panel in board["panels"] for target in panel.get("targets", [])]


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
