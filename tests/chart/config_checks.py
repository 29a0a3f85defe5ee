"""The chart's configuration files against the programs that read them."""
import os
import subprocess

import yaml

from render import ROOT, Rendered
from reporting import Skip

# The part of a program that is configured, where it has several; and what it takes to have it in the chart.
COMMANDS = {"paceline-snapshotter": ["plugin"]}
SETTINGS = {"paceline-snapshotter": ["snapshotter.enabled=true"], "paceline-operator": ["conversion.store=docker://r.test/blocks"]}
# Where the chart says something else than the program's own default, on purpose.
DIFFERENT = {"log.format"}


def _flatten(tree, prefix=""):
    flat = {}
    for key, value in (tree or {}).items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def _defaults(program):
    places = [os.path.join(place, program) for place in
              (os.environ.get("PACELINE_BIN", ""), os.path.join(ROOT, "build/bin"), os.path.join(ROOT, "build/release/bin"))]
    path = next((place for place in places if os.access(place, os.X_OK)), None)
    if path is None:
        raise Skip(f"{program} is not built (scripts/build {program})")
    done = subprocess.run([path, *COMMANDS.get(program, []), "--print-default-config"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return _flatten(yaml.safe_load(done.stdout))


def _same(a, b):
    return str(a).lower() == str(b).lower() or str(a).rstrip("0").rstrip(".") == str(b).rstrip("0").rstrip(".")


def check_config(program):
    """Every key of the rendered file exists, and the values of values.yaml are the program's defaults."""
    component = program.removeprefix("paceline-")
    known = _defaults(program)
    rendered = Rendered(settings=SETTINGS.get(program, [])).one("ConfigMap", program)["data"]["config.yaml"]
    unknown = set(_flatten(yaml.safe_load(rendered))) - set(known)
    assert not unknown, f"{program} does not know {sorted(unknown)}"
    with open(os.path.join(ROOT, "deploy/helm/paceline/values.yaml"), encoding="utf-8") as file:
        values = _flatten(yaml.safe_load(file)[component]["config"])
    differing = {key: (value, known[key]) for key, value in values.items()
                 if key not in DIFFERENT and not _same(value, known[key])}
    assert not differing, f"values.yaml says otherwise than {program}: {differing}"
