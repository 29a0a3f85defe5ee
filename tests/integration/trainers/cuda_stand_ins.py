#!/usr/bin/env python3
"""Makes stand-ins for the CUDA libraries that PyTorch's wheel links with, so that `import torch` works without them.

  cuda_stand_ins.py TORCH_LIB_FOLDER OUT_FOLDER

The wheel for CUDA is the only one for x86-64 on PyPI, and what it links with takes several gigabytes more. Its libraries
are bound when they are loaded, so each missing one needs its name, its symbol versions and its functions. A stand-in's
functions all return 35, which CUDA reads as "the driver is too old": torch.cuda.is_available() is False, the rest works.
Needs gcc and readelf.
"""
import pathlib
import re
import subprocess
import sys

INSUFFICIENT_DRIVER = 35


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed_by(library):
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "--dynamic", "--wide", library)))


def versions_wanted_by(library):
    """Soname -> symbol versions of it that the library asks for."""
    wanted, soname = {}, None
    for line in output_of("readelf", "--version-info", "--wide", library).splitlines():
        if found := re.search(r"Version: \d+\s+File: (\S+)", line):
            soname = found[1]
        elif soname and (found := re.search(r"Name: (\S+)\s+Flags", line)):
            wanted.setdefault(soname, set()).add(found[1])
        elif not line.strip():
            soname = None
    return wanted


def symbols_of(library):
    """(defined names without version, undefined ones as (name, version or "")); weak ones may stay undefined."""
    defined, undefined = set(), set()
    for line in output_of("readelf", "--dyn-syms", "--wide", library).splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[4] not in ("GLOBAL", "WEAK", "UNIQUE"):
            continue
        name, _, version = fields[7].partition("@")
        if fields[6] != "UND":
            defined.add(name)
        elif fields[4] == "GLOBAL":
            undefined.add((name, version.lstrip("@")))
    return defined, undefined


def system_libraries():
    """Soname -> path, as the loader finds them."""
    return dict(re.findall(r"^\s+(\S+) \(.*x86-64.*\) => (\S+)$", output_of("/sbin/ldconfig", "-p"), re.MULTILINE))


def make(soname, versions, folder):
    """`versions`: symbol version (or "") -> names."""
    source, script = folder / "stand_in.c", folder / "stand_in.map"
    names = sorted(set().union(*versions.values()))
    # Functions whose result is printed must not be read as a number.
    source.write_text("".join(
        f'const char* {name}(void) {{ return "stand-in"; }}\n' if name.endswith(("String", "Name")) else
        f"int {name}(void) {{ return {INSUFFICIENT_DRIVER}; }}\n" for name in names))
    script.write_text("".join(
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};\n"
        for version, names in sorted(versions.items()) if version))
    command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-w", f"-Wl,-soname,{soname}", str(source), "-o", str(folder / soname)]
    if any(versions):
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)
    source.unlink()
    script.unlink()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    libraries, out = sorted(pathlib.Path(sys.argv[1]).glob("*.so*")), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    system, own = system_libraries(), {path.name for path in libraries}
    needed = set().union(*map(needed_by, libraries))
    missing = {soname for soname in needed if soname not in own and soname not in system}
    symbols = {library: symbols_of(library) for library in [*libraries, *(system[soname] for soname in needed if soname in system)]}
    defined = set().union(*(names for names, _ in symbols.values()))
    versions = {soname: {} for soname in missing}
    for library in libraries:
        for soname, names in versions_wanted_by(library).items():
            for version in names if soname in missing else ():
                versions[soname].setdefault(version, set())
    for library in libraries:
        # Names without a version are looked for in what the library itself links with; one of these takes them all.
        homes = sorted(needed_by(library) & missing, key=lambda soname: (bool(versions[soname]), soname))
        for name, version in symbols[library][1]:
            if version:
                for of_version in versions.values():
                    of_version.get(version, set()).add(name)
            elif name not in defined and homes:
                versions[homes[0]].setdefault("", set()).add(name)
    for soname in sorted(missing):
        make(soname, versions[soname] or {"": set()}, out)
    print(f"{len(missing)} stand-ins in {out}")


if __name__ == "__main__":
    main()
