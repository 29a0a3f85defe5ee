"""The images are made in two ways, by the Dockerfiles and by deploy/images/build; both hold the same."""
import os
import re
import subprocess

from render import ROOT

IMAGES = os.path.join(ROOT, "deploy", "images")
NAMES = ("operator", "agent", "holder", "snapshotter", "pacectl")


def shown(name):
    """What deploy/images/build puts into an image."""
    done = subprocess.run([os.path.join(IMAGES, "build"), "--show", name], capture_output=True, text=True, timeout=30, check=True)
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]

    def values(key):
        return sorted(value for word, value in lines if word == key)
    return {"programs": values("program"), "plugins": values("plugin"), "user": values("user"), "entrypoint": values("entrypoint"),
            "env": values("env"), "labels": sorted(value.split("=", 1)[0] for value in values("label")),
            "named": [value for value in values("label") if ".title=" in value or ".licenses=" in value]}


def written(name):
    """What the Dockerfile says."""
    with open(os.path.join(IMAGES, f"{name}.Dockerfile"), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    build, image = text.split("FROM scratch\n")
    rootfs = re.search(r"deploy/images/rootfs(.*)/rootfs", build).group(1).split()
    plugins = [os.path.basename(word) for word in rootfs if word.endswith(".so")]
    programs = [os.path.basename(word) for word in rootfs if word.startswith("build/bin/")]
    targets = re.search(r"scripts/build ([^&]*)&&", build).group(1).split()
    assert set(programs) <= set(targets) and len(targets) == len(programs) + len(plugins), f"{name} builds {targets}"

    def values(keyword):
        return sorted(word for line in re.findall(rf"^{keyword} +(.*)$", image, re.M) for word in line.split())
    labels = values("LABEL")
    return {"programs": sorted(programs), "plugins": plugins, "user": values("USER"), "entrypoint": re.findall(r'^ENTRYPOINT \["(.*)"\]$', image, re.M),
            "env": values("ENV"), "labels": [label.split("=", 1)[0] for label in labels],
            "named": [label for label in labels if ".title=" in label or ".licenses=" in label]}


def check_dockerfiles():
    assert sorted(NAMES) == sorted(name.removesuffix(".Dockerfile") for name in os.listdir(IMAGES) if name.endswith(".Dockerfile"))
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"^project\(paceline VERSION ([\d.]+)", file.read(), re.M).group(1)
    for name in NAMES:
        ours, theirs = shown(name), written(name)
        assert ours == theirs, f"{name}: build says {ours}, the Dockerfile {theirs}"
        with open(os.path.join(IMAGES, f"{name}.Dockerfile"), encoding="utf-8") as file:
            assert f"ARG VERSION={version}\n" in file.read(), f"{name}: not version {version}"


def is_left_out(path, patterns):
    """As .dockerignore is read: a pattern is of a whole path from the root, and what lies below goes along."""
    parts = path.split("/")
    wholes = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return any(re.fullmatch(pattern, whole) for pattern in patterns for whole in wholes)


def as_regex(pattern):
    return re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")


def check_build_context():
    """A used tree's build folders stay out; every source gets in."""
    with open(os.path.join(ROOT, ".dockerignore"), encoding="utf-8") as file:
        patterns = [as_regex(line) for line in file.read().splitlines() if line and not line.startswith("#")]
    for path in ("build/release/CMakeCache.txt", "build/bin/pacectl", "build-asan/x", "tests/chart/__pycache__/render.cpython-311.pyc",
                 "compile_commands.json"):
        assert is_left_out(path, patterns), f"{path} gets into the build of an image"
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    if listed.returncode == 0:
        lost = [path for path in listed.stdout.splitlines() if is_left_out(path, patterns)]
        assert not lost, f"not in the build of an image: {lost[:5]}"
