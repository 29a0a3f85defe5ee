#!/usr/bin/env python3
"""The rules of the house that a program can check.

    scripts/check_style.py              every file that git knows or would know
    scripts/check_style.py PATH...      these files only
    scripts/check_style.py --self-test  every rule rejects its bad example and accepts its good one

Prints "file:line: rule: what to do instead" and exits with 1 when there is an error; warnings do not count. A rule is a
function or a line pattern with a message and a list of paths that are exempt, each with its reason beside it. The bad
examples lie in tests/style/bad/<rule>/: there, the lines that the rule must name end in "BAD". Which folder may include
which is a table of its own, scripts/layers.txt.
"""

import argparse
import fnmatch
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterable

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = "tests/style/"
MAX_FILE_BYTES = 1_000_000  # larger ones are data


# Comments and literals, so that patterns look at code alone. Numbers come first: 1'000 holds no character literal.
TOKENS = re.compile(
    r"""(?P<number>\b\d[\w.]*(?:'\w+)+)
      | (?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<raw>R"(?P<delimiter>[^(\s"]*)\(.*?\)(?P=delimiter)")
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<character>'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.VERBOSE)


def blank(match: re.Match) -> str:
    text = match.group()
    if match.lastgroup == "number":
        return text
    blanked = re.sub(r"[^\n]", " ", text)
    # A literal stays a literal: its quotes remain, so that f("x") does not become f().
    return blanked if match.lastgroup == "comment" else '"' + blanked[2:] + '"' if len(text) > 1 else text


class File:
    """One file, with views of it that are made once."""

    def __init__(self, path: str, text: str):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        self.is_cpp = path.endswith((".h", ".cc", ".c"))
        self.is_header = path.endswith(".h")
        self._code = None

    @property
    def code(self) -> list[str]:
        """The lines without comments and without what is inside literals."""
        if self._code is None:
            self._code = TOKENS.sub(blank, self.text).split("\n")
        return self._code

    def includes(self) -> Iterable[tuple[int, str, bool]]:
        """(line, path, in quotes) of each #include."""
        for number, line in enumerate(self.lines, 1):
            match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if match:
                yield number, match.group(2), match.group(1) == '"'


@dataclass
class Tree:
    """What a run looks at. `layers` maps a folder to those it may include."""

    files: dict[str, File]
    layers: dict[str, list[str]]


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {'warning: ' if self.is_warning else ''}{self.rule}: {self.message}"


# What a check yields: line, message. The rule adds the rest.
Hits = Iterable[tuple[int, str]]


@dataclass
class Rule:
    name: str
    check: Callable[[File, Tree], Hits]
    only: list[str] = field(default_factory=lambda: ["*.h", "*.cc", "*.c"])
    allow: list[str] = field(default_factory=list)  # globs; * crosses slashes
    is_warning: bool = False

    def applies_to(self, path: str) -> bool:
        return matches(path, self.only) and not matches(path, self.allow)

    def findings(self, tree: Tree) -> Iterable[Finding]:
        for file in tree.files.values():
            if self.applies_to(file.path):
                for line, message in self.check(file, tree):
                    yield Finding(file.path, line, self.name, message, self.is_warning)


def matches(path: str, globs: list[str]) -> bool:
    return any(fnmatch.fnmatch(path, glob) for glob in globs)


def pattern(regex: str, message: str, where: str = "code") -> Callable[[File, Tree], Hits]:
    """A check that names each line on which `regex` is found, in the code or in the whole text."""
    compiled = re.compile(regex)
    is_anchored = "^" in regex or "$" in regex

    def check(file: File, _: Tree) -> Hits:
        # Most files hold no hit at all, and one search of the text is quick; the code is never more than the text.
        if not is_anchored and not compiled.search(file.text):
            return
        for number, line in enumerate(file.code if where == "code" else file.lines, 1):
            found = compiled.search(line)
            if found:
                yield number, message.replace("{}", found.group().strip())

    return check



def read_layers(text: str) -> dict[str, list[str]]:
    layers = {}
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if line:
            folder, _, allowed = line.partition(":")
            layers[folder.strip()] = allowed.split()
    return layers


def module_of(path: str, layers: dict[str, list[str]]) -> str | None:
    parts = path.split("/")[:-1]
    while parts:
        if "/".join(parts) in layers:
            return "/".join(parts)
        parts.pop()
    return None


def check_layers(file: File, tree: Tree) -> Hits:
    here = module_of(file.path, tree.layers)
    if here is None:
        yield 1, "this folder has no line in scripts/layers.txt; add one that says what it may include"
        return
    for line, included, is_quoted in file.includes():
        if not is_quoted:
            continue
        there = module_of(included, tree.layers)
        if there is None:
            if re.search(r"\.(grpc\.)?pb\.h$", included):
                continue  # generated into the build folder
            yield line, f'include "{included}" by its path from the root of the repository'
        elif there != here and there not in tree.layers[here] and "*" not in tree.layers[here]:
            yield line, f"{here} may not include {there}; move what is needed to a lower layer (scripts/layers.txt)"


# Third-party headers by prefix: who may include them. docs/decisions/0002-dependencies.md has the reasons.
WRAPPERS = [
    (("spdlog/",), ["lib/base/log.cc"]),
    (("prometheus/",), ["lib/base/metrics.cc"]),
    (("CLI/",), ["lib/base/config*.cc", "cli/*"]),
    (("yaml-cpp/",), ["lib/base/config*.cc", "lib/kube/config*.cc", "agent/plan/*.cc", "analysis/whatif/trace_file.cc", "cli/*"]),
    (("cpprest/", "pplx/"), ["lib/net/*.cc"]),
    (("boost/",), ["lib/net/*.cc"]),
    (("openssl/",), ["lib/net/*", "lib/hdfs/sasl_crypto.cc", "lib/blocks/format/digest.cc",
                     "lib/blocks/format/signature.cc"]),
    (("zlib.h",), ["lib/net/*", "analysis/parquet/codec.cc"]),
    (("snappy",), ["analysis/parquet/codec.cc"]),
    (("zstd.h",), ["analysis/parquet/codec.cc", "lib/blocks/format/zstd_codec.cc"]),
    (("gssapi/",), ["lib/hdfs/gss_client.cc"]),
    (("grpc/", "grpcpp/", "google/protobuf/"), ["agent/*", "snapshotter/*", "lib/hdfs/*"]),
    (("expat.h",), ["lib/hdfs/hadoop_config.cc"]),
    (("isa-l",), ["lib/hdfs/checksum.cc", "lib/hdfs/ec_decode.cc", "lib/blocks/format/digest.cc",
                  "lib/blocks/image/gzip_source.cc"]),
    (("fuse3/", "fuse.h", "fuse_lowlevel.h"), ["lib/fusefs/*"]),
    (("nlohmann/json.hpp", "nlohmann/ordered"), ["*.cc", "lib/api/field*.h", "lib/api/*_impl.h"]),  # internal headers
    (("fmt/",), ["*.cc"]),
    (("gtest/", "gmock/"), []),
    (("benchmark/",), []),
]


def check_third_party(file: File, _: Tree) -> Hits:
    for line, included, _is_quoted in file.includes():
        for prefixes, allowed in WRAPPERS:
            if included.startswith(prefixes) and not matches(file.path, allowed):
                where = ", ".join(allowed) or "tests"
                yield line, f"<{included}> is for {where}; use the wrapper, or json_fwd.hpp and a source for json"


def check_includes_of_header(file: File, _: Tree) -> Hits:
    includes = list(file.includes())
    if len(includes) > 12:
        yield includes[12][0], f"{len(includes)} includes in a header, at most 12; split it or forward-declare"



def check_length(file: File, limit: int, what: str) -> Hits:
    count = file.text.count("\n")
    if count > limit:
        yield limit + 1, f"{count} lines, {what} at most {limit}; split by what the parts are about"


CONTROL = re.compile(r"\b(if|for|while|switch|catch|do|else|namespace|class|struct|enum|union|return|extern)\b[^;{}]*$")
BODY = re.compile(r"(\)|\bconst|\boverride|\bfinal|\bnoexcept|\btry|->\s*[\w:<>,&*\s]+|[)}]\s*,?\s*)\s*$")
MAX_FUNCTION_LINES = 60


def check_function_length(file: File, _: Tree) -> Hits:
    """Approximate: a brace behind ")" (and const, override, a return type, ...) opens a function; its inside is skipped."""
    code = "\n".join("" if line.lstrip().startswith("#") else line for line in file.code)
    head_start, position, line = 0, 0, 1
    function_start, depth, function_depth = 0, 0, -1
    for match in re.finditer(r"[{};\n]", code):
        character, position = match.group(), match.start()
        if character == "\n":
            line += 1
            continue
        if character == "{":
            head = code[head_start:position]
            if function_depth < 0 and BODY.search(head) and not CONTROL.search(head.strip()):
                function_depth, function_start = depth, line
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == function_depth:
                if line - function_start + 1 > MAX_FUNCTION_LINES:
                    yield function_start, (f"a function of {line - function_start + 1} lines, at most "
                                           f"{MAX_FUNCTION_LINES}; give its parts names of their own")
                function_depth = -1
        head_start = position + 1


BANNED_WORDS = ("util", "utils", "common", "helper", "helpers", "manager", "misc")


def check_file_name(file: File, _: Tree) -> Hits:
    words = re.split(r"[/_.\-]", file.path.lower())
    for word in words[:-1]:
        if word in BANNED_WORDS:
            yield 1, f'"{word}" says nothing about what is inside; name the thing'
            return


def check_header_head(file: File, _: Tree) -> Hits:
    if not file.text.startswith("//"):
        yield 1, "a header opens with a comment: what this is, why it exists, who calls it, thread-safety"
    if "#pragma once" not in file.text:
        yield 1, "a header needs #pragma once"


def check_is_built(file: File, tree: Tree) -> Hits:
    """A source that no CMakeLists.txt of its folder or one above names is built by nobody, and a test in it never runs."""
    name = file.path.rsplit("/", 1)[-1]
    parts = file.path.split("/")[:-1]
    for depth in range(len(parts), -1, -1):
        lists = tree.files.get("/".join(parts[:depth] + ["CMakeLists.txt"]))
        if lists and re.search(r"(?<![\w-])" + re.escape(name) + r"(?![\w-])", lists.text):
            return
    yield 1, "no CMakeLists.txt names this file, so nothing builds it; add it to a target"


def target_of(path: str, tree: Tree) -> str | None:
    """The target that compiles a source: its CMakeLists.txt and the line where the add_… that names it begins."""
    parts = path.split("/")
    for depth in range(len(parts) - 1, -1, -1):
        lists = tree.files.get("/".join(parts[:depth] + ["CMakeLists.txt"]))
        if not lists:
            continue
        name = re.compile(r"(?<![\w./-])" + re.escape("/".join(parts[depth:])) + r"(?![\w-])")
        for block in re.finditer(r"^add_.*?(?=^add_|\Z)", lists.text, re.MULTILINE | re.DOTALL):
            if name.search(block.group()):
                return f"{lists.path}:{block.start()}"
    return None


HIDDEN_NAME = re.compile(
    r"(?:struct|class|enum(?: class)?) (?P<type>\w+)[^;]*\{"
    r"|using (?P<alias>\w+) = (?P<aliased>.*);"
    r"|(?:inline )?(?:constexpr|const) [^=({]*?(?P<constant>\w+)(?:\[\])? ?[={]"
    r"|(?!return\b|using\b)\w[\w:<>,&* ]*[\w>&*] [&*]*(?P<function>\w+)\((?P<parameters>[^)]*)")


def hidden_names(file: File) -> Iterable[tuple[int, str]]:
    """(line, name) of what a source defines in anonymous namespaces: overloads with the types of their parameters, another
    name for a type with that type."""
    depth_open = False
    for number, line in enumerate(file.code, 1):
        if re.match(r"namespace \{", line):
            depth_open = True
        elif depth_open and line.startswith("}") and "// namespace" in file.lines[number - 1]:
            depth_open = False
        match = HIDDEN_NAME.match(line) if depth_open else None
        if match and match.group("function"):
            parameters = re.sub(r" ?\b\w+(?= ?(?:,|=|$))", "", match.group("parameters"))
            yield number, f"{match.group('function')}({parameters}"
        elif match and match.group("alias"):
            yield number, f"{match.group('alias')} = {match.group('aliased')}"
        elif match:
            yield number, match.group("type") or match.group("constant")


def key_of(name: str) -> str:
    return name.split(" = ")[0]


def check_joined_names(file: File, tree: Tree) -> Hits:
    """The presets release, asan and tsan compile several sources of a target as one (docs/decisions/0007-ci-time.md)."""
    if not hasattr(tree, "hidden"):
        tree.hidden = {}
        for path, other in sorted(tree.files.items()):
            if path.endswith(".cc") and "namespace {" in other.text:
                target = target_of(path, tree)
                for number, name in hidden_names(other):
                    tree.hidden.setdefault((target, key_of(name)), (path, number, name))
    target = target_of(file.path, tree)
    for number, name in hidden_names(file):
        first, line, same = tree.hidden.get((target, key_of(name)), (file.path, 0, name))
        is_same_alias = " = " in name and name == same
        if target and first != file.path and not is_same_alias:
            yield number, f"{re.match(r'[^( ]*', name).group()} is defined in {first}:{line}, too, and both may be compiled as one; tell it once"


def check_one_definition(file: File, tree: Tree) -> Hits:
    """Two types of one name in one namespace are one type to the linker: it keeps one of their destructors for both."""
    if not hasattr(tree, "types"):
        tree.types = {}
        for path, other in sorted(tree.files.items()):
            for number, name in types_of_header(other) if path.endswith(".h") else ():
                tree.types.setdefault(name, (path, number))
    for number, name in types_of_header(file):
        first, line = tree.types.get(name, (file.path, 0))
        if first != file.path:
            yield number, f"{name} is defined in {first}:{line}, too; give one of them another name"


def types_of_header(file: File) -> Iterable[tuple[int, str]]:
    """(line, qualified name) of the types that a header defines at the outermost level of its namespace."""
    space = ""
    for number, line in enumerate(file.code, 1):
        opened = re.match(r"namespace ([\w:]+) \{", line)
        space = opened.group(1) if opened else space
        match = re.match(r"(?:struct|class|enum class) (\w+)\b(?!::)[^;<]*\{", line)
        if match:
            yield number, f"{space}::{match.group(1)}"


def check_bash_head(file: File, _: Tree) -> Hits:
    """Programs only: a file without #! is sourced and takes the options of whoever sources it."""
    shell = re.match(r"#!.*\b(bash|sh)\b", file.lines[0])
    if not shell:
        return
    options = "euo pipefail" if shell.group(1) == "bash" else "eu"
    for number, line in enumerate(file.lines[1:], 2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        # A script that is one exec has nothing that could go on after a failure.
        if not re.match(rf"set -E?{options}\b|exec ", line):
            yield number, f'the first command is "set -{options}", so that a failed step ends the script'
        return


def check_is_run(file: File, tree: Tree) -> Hits:
    """Compiled tests are found by their names; a script runs only where it is named."""
    if file.lines[0].startswith("#!") and file.path not in tree.files["scripts/test"].text:
        yield 1, "no test run names this script: add it to scripts/test"


TIME_WORDS = r"(timeout|interval|period|delay|deadline|lifetime|ttl|grace|backoff)"
CPP = ["*.h", "*.cc", "*.c"]

RULES = [
    Rule("layer", check_layers),
    Rule("joined-names", check_joined_names, only=["*.cc"]),
    Rule("one-definition", check_one_definition, only=["*.h"], allow=["tests/*"]),
    Rule("third-party", check_third_party, allow=["tests/*", "bench/*"]),
    Rule("header-includes", check_includes_of_header, only=["*.h"]),
    Rule("wall-clock",
         pattern(r"\b(system_clock|steady_clock|high_resolution_clock)::now\b|\bgettimeofday\b|\bclock_gettime\b|"
                 r"\bstd::time\(|(?<![\w.:>])time\((nullptr|NULL|0|&)",
                 "take a Clock& (lib/base/clock.h), so that tests can move time; {} cannot be moved"),
         allow=["lib/base/clock.cc",  # the real clock itself
                "lib/ring/*", "tracer/*",  # loaded into other people's processes: no lib/base there
                "deps-wrapper/clock.cc"]),  # runs in other people's images: none there either
    Rule("sleep",
         pattern(r"\bsleep_(for|until)\b|\b(usleep|nanosleep|clock_nanosleep)\b|(?<![\w.>])(::)?sleep\(",
                 "wait with Clock::SleepUntil or CondVar::WaitUntil, which end on a stop and in simulated time"),
         allow=["tests/collectives/*"]),  # plays a process that is slow
    Rule("std-mutex",
         # Not the parameters of Clock::WaitUntil, which an implementation of Clock has to spell.
         pattern(r"\bstd::(mutex(?!>&)|timed_mutex|recursive_mutex|shared_mutex|shared_timed_mutex|lock_guard|"
                 r"unique_lock(?!<std::mutex>&)|scoped_lock|shared_lock|condition_variable|"
                 r"condition_variable_any(?!&))\b(?!&)",
                 "use Mutex, MutexLock and CondVar (lib/base/mutex.h): Clang's analysis cannot see {}"),
         allow=["lib/base/mutex.h", "lib/base/clock.*",  # what they are made of
                "tests/fakes/simulated_clock.*"]),  # implements the wait of Clock
    Rule("getenv",
         pattern(r"\b(secure_)?getenv\b", "settings come from the program's config.h; see ConfigField::Env"),
         allow=["lib/base/config.cc", "*/config.*", "*/config_*", "*/main.cc", "*_main.cc", "tests/*", "bench/*"]),
    Rule("catch-all",
         pattern(r"\bcatch\s*\(\s*\.\.\.\s*\)", "catch what the library documents and turn it into a Status"),
         allow=["tracer/*", "lib/fusefs/*"]),  # C boundaries: nothing may pass
    Rule("throw",
         pattern(r"\bthrow\b", "return a Status; nothing of ours throws"),
         allow=["tests/*"]),
    Rule("unitless",
         pattern(r"\b(Duration|duration|sleep|SleepFor)[({]\s*[1-9]\d*\s*[,)}]|"
                 r"\b(int|long|unsigned|double|float|u?int(32|64)_t|size_t)\s+\w*" + TIME_WORDS + r"_?\s*[=;{,)]",
                 "say the unit: use Duration with 5s or 100ms, or end the name in _ms, _ns, _seconds where a format "
                 "asks for a number")),
    Rule("long-header", lambda file, _: check_length(file, 300, "a header"), only=["*.h"]),
    Rule("long-source", lambda file, _: check_length(file, 800, "a source"), only=["*.cc", "*.c", "*.py", "*.go"]),
    Rule("longish-source", lambda file, _: check_length(file, 600, "a source"), only=["*.cc", "*.c", "*.py", "*.go"],
         is_warning=True),
    Rule("long-function", check_function_length, is_warning=True),
    Rule("file-name", check_file_name, only=["*"],
         allow=["*/templates/_helpers.tpl"]),  # the name that every Helm chart uses
    Rule("type-name",
         pattern(r"^\s*(template\s*<[^>]*>\s*)?(class|struct)\s+(\w*(Utils?|Helpers?|Manager|Misc)|Base|Common)\b\s*"
                 r"(final\b)?\s*([:{;]|$)",
                 "name the type after what it does; Util, Helper, Manager, Misc, Common and Base say nothing")),
    Rule("header-head", check_header_head, only=["*.h"]),
    Rule("built", check_is_built, only=["*.cc"]),
    Rule("run", check_is_run, only=["tests/*_test", "tests/*_test.py"],
         allow=["tests/integration/trainers_test"]),  # needs PyTorch, which no package of Debian brings
    Rule("todo",
         pattern(r"\b(TODO(?!\((perf|port|test)\))|FIXME|XXX|HACK)\b", "do it now, or file it and write TODO(perf), "
                 "TODO(port) or TODO(test) with what is missing; TODO(soon) blocks a release", where="text"),
         only=["*.h", "*.cc", "*.c", "*.py", "*.sh", "*.cmake", "*CMakeLists.txt", "*.go", "*.yaml", "*.tpl", "*.proto"],
         allow=["scripts/check_style.py"]),
    Rule("machine-path",
         pattern(r"(?<![\w.\-}$])/(work|farm|home/\w+)/", "a path of one machine; make it relative or a setting",
                 where="text"),
         only=["*"], allow=["scripts/check_style.py"]),
    Rule("bash-head", check_bash_head, only=["*"],
         allow=["tests/testbed/node-init"]),  # PID 1 of a node: goes on whatever fails
    Rule("banner",
         pattern(r"^\s*(//|#).*[-=*/#~]{8,}\s*$|^\s*/\*{8,}", "no banner art; a blank line is enough", where="text"),
         only=[*CPP, "*.cmake", "*CMakeLists.txt", "*.sh", "*.py"]),
    Rule("using-namespace",
         pattern(r"^using namespace\b", "a header must not open a namespace for whoever includes it"), only=["*.h"]),
    Rule("new-cpp",
         pattern(r"#\s*include\s*<(ranges|source_location|format|expected|print)>",
                 "gcc 12 and clang 14 do not agree on this header; use fmt, Result, plain algorithms")),
    Rule("detach", pattern(r"\.detach\(\)", "every thread has an owner that joins it; keep a std::jthread"),
         allow=["lib/net/host_lookup.cc"]),  # getaddrinfo cannot be interrupted; the thread owns all that it touches
    Rule("cmake-glob",
         pattern(r"\bfile\s*\(\s*GLOB", "name each file: a glob does not see new ones until CMake runs again",
                 where="text"),
         only=["*CMakeLists.txt", "*.cmake"],
         allow=["cmake/header_check.cmake"]),  # must not miss a header, and is no part of a program
]



def load(paths: Iterable[str], root: Path, layers: dict[str, list[str]]) -> Tree:
    files = {}
    for path in paths:
        full = root / path
        if full.is_symlink() or not full.is_file() or full.stat().st_size > MAX_FILE_BYTES:
            continue
        data = full.read_bytes()
        if b"\0" in data:
            continue
        files[path] = File(path, data.decode("utf-8", errors="replace"))
    return Tree(files, layers)


def project_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout
    return sorted({path for path in listed.split("\0")
                   if path and not path.startswith(FIXTURES) and not path.endswith((".sum", ".svg"))})


def all_findings(tree: Tree, rules: list[Rule] = RULES) -> list[Finding]:
    return sorted((finding for rule in rules for finding in rule.findings(tree)),
                  key=lambda finding: (finding.path, finding.line, finding.rule))


def generated_fixtures() -> dict[str, dict[str, str]]:
    """Bad examples whose fault is their length."""
    head = "// A header.\n#pragma once\n"
    long_function = "void F(int a) {\n" + "  a++;\n" * 60 + "}\n"
    return {
        "long-header": {"lib/base/a.h": head + "\n" * 298 + "int a;  // BAD\n"},
        "long-source": {"lib/base/a.cc": "\n" * 800 + "int a;  // BAD\n"},
        "longish-source": {"lib/base/a.cc": "\n" * 600 + "int a;  // BAD\n"},
        "long-function": {"lib/base/a.cc": "namespace a {\n" + long_function.replace("{\n", "{  // BAD\n", 1) + "}\n"},
    }


def self_test_rule(rule: Rule, tree: Tree) -> list[str]:
    """Problems with what `rule` says about its bad example."""
    found = {(finding.path, finding.line) for finding in rule.findings(tree)}
    wanted = {(file.path, number) for file in tree.files.values()
              for number, line in enumerate(file.lines, 1) if re.search(r"\bBAD\W*$", line)}
    problems = [f"{rule.name}: does not reject {path}:{line}" for path, line in sorted(wanted - found)]
    problems += [f"{rule.name}: rejects {path}:{line}, which is fine" for path, line in sorted(found - wanted)]
    if not wanted:
        problems.append(f"{rule.name}: has no bad example in {FIXTURES}bad/{rule.name}/")
    return problems


def self_test() -> int:
    layers = read_layers((ROOT / "scripts/layers.txt").read_text())
    fixtures = ROOT / FIXTURES
    generated = generated_fixtures()
    problems = []
    for rule in RULES:
        folder = fixtures / "bad" / rule.name
        paths = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]
        tree = load(paths, folder, layers)
        tree.files.update({path: File(path, text) for path, text in generated.get(rule.name, {}).items()})
        problems += self_test_rule(rule, tree)
    known = {rule.name for rule in RULES}
    problems += [f"{path.name}: examples of a rule that does not exist" for path in (fixtures / "bad").iterdir()
                 if path.name not in known]
    good = fixtures / "good"
    paths = [str(path.relative_to(good)) for path in sorted(good.rglob("*")) if path.is_file()]
    problems += [f"good example rejected: {finding}" for finding in all_findings(load(paths, good, layers))]
    for problem in problems:
        print(problem)
    print(f"{len(RULES)} rules, {len(problems)} problems")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true", help="prove that each rule rejects its bad example")
    parser.add_argument("paths", nargs="*", help="report on these files only")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    tree = load(project_files(), ROOT, read_layers((ROOT / "scripts/layers.txt").read_text()))
    findings = all_findings(tree)
    if arguments.paths:
        wanted = {str(Path(path).resolve().relative_to(ROOT)) for path in arguments.paths}
        findings = [finding for finding in findings if finding.path in wanted]
    for finding in findings:
        print(finding)
    errors = sum(not finding.is_warning for finding in findings)
    print(f"{len(tree.files)} files, {errors} errors, {len(findings) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
