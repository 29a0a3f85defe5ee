#!/usr/bin/env python3
"""Runs GoogleTest programs and test scripts side by side and reports them as one.

  scripts/run_tests.py [--jobs N] [--timeout SECONDS] [--report FILE] PROGRAM|SCRIPT...

A compiled program is taken for a GoogleTest program and counted test by test from its own XML. A script counts by its closing
line "N passed, N failed, N skipped", or as one test by its exit code: 77 is a skip, whose reason is the last line. Every skip
is printed with its reason, the script's lines that begin with "skip"; one such line is about all. Every failure is printed
with the end of its output. Results are added to the report file, so that several runs can close with one line:

  scripts/run_tests.py --close FILE      prints "N passed, N failed, N skipped" and exits 1 when anything failed
"""
import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

TAIL_LINES = 60
SKIP_CODE = 77  # as automake and others have it
CLOSING_LINES = 12  # of each failure, said once more at the end of a long log
CLOSING_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)


class Result:
    """What one program did: counts, and a text for each failure and skip."""

    def __init__(self, name):
        self.name = name
        self.passed = 0
        self.failures = []
        self.skips = []
        self.seconds = 0.0
        self.output = ""


def run_one(path, label, timeout):
    name = f"{label}{os.path.basename(path)}"
    result = Result(name)
    is_gtest = is_program(path)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="paceline-test-") as folder:
        xml_path = os.path.join(folder, "result.xml")
        env = dict(os.environ)
        if is_gtest:
            env["GTEST_OUTPUT"] = f"xml:{xml_path}"
        # A session of its own: on timeout the whole family of processes is ended, not only the first.
        process = subprocess.Popen([os.path.abspath(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, env=env, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=timeout)
            timed_out = False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            timed_out = True
        result.seconds = time.monotonic() - started
        result.output = output.decode("utf-8", "replace")
        if timed_out:
            result.failures.append((name, f"no end after {timeout} s; killed"))
        elif is_gtest:
            read_gtest(result, xml_path, process.returncode)
        else:
            read_script(result, process.returncode)
    return result


def is_program(path):
    """True for a compiled test program, false for a script."""
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def read_gtest(result, xml_path, returncode):
    try:
        root = ElementTree.parse(xml_path).getroot()
    except (OSError, ElementTree.ParseError):
        result.failures.append((result.name, f"ended with {returncode} before writing its results"))
        return
    for case in root.iter("testcase"):
        if case.get("status") == "notrun":
            continue
        test = f"{result.name}: {case.get('classname')}.{case.get('name')}"
        failures = [f.get("message", "") for f in case.findall("failure")]
        skipped = case.find("skipped")
        if failures:
            result.failures.append((test, "\n".join(failures)))
        elif skipped is not None:
            result.skips.append((test, (skipped.get("message") or "").strip()))
        else:
            result.passed += 1
    if returncode != 0 and not result.failures:  # a sanitizer report or a crash at exit
        result.failures.append((result.name, f"all tests passed, but the program ended with {returncode}"))


def read_script(result, returncode):
    if returncode == SKIP_CODE:
        result.skips = [(result.name, (result.output.strip().splitlines() or [""])[-1])]
        return
    lines = CLOSING_LINE.findall(result.output)
    if lines:
        passed, failed, skipped = (int(n or 0) for n in lines[-1])
        result.passed = passed
        reasons = re.findall(r"^(?:skip|SKIP)\S*\s+(.*)$", result.output, re.M)
        if len(reasons) == 1:
            reasons *= skipped
        result.skips = [(result.name, reasons[i] if i < len(reasons) else "") for i in range(skipped)]
        told = re.findall(r"^(?:FAILED|FAIL|not ok)\s+(.*(?:\n(?!ok|FAIL|SKIP|skip|not ok|\d+ passed).*){0,8})", result.output, re.M)
        result.failures = [(result.name, told[i] if i < len(told) else "see above") for i in range(failed)]
    if returncode != 0 and not result.failures:
        result.failures.append((result.name, f"ended with {returncode}"))
    elif not lines and returncode == 0:
        result.passed = 1


def print_result(result):
    mark = "ok  " if not result.failures else "FAIL"
    print(f"{mark} {result.name}: {result.passed} passed, {len(result.failures)} failed, "
          f"{len(result.skips)} skipped ({result.seconds:.1f} s)", flush=True)
    reasons = {}
    for test, reason in result.skips:
        reasons.setdefault(reason or "no reason given", []).append(test)
    for reason, tests in reasons.items():
        print(f"     skipped {len(tests)}: {reason}", flush=True)
    if result.failures:
        for test, text in result.failures:
            print(f"     failed {test}\n       " + text.replace("\n", "\n       "), flush=True)
        tail = result.output.splitlines()[-TAIL_LINES:]
        print("     --- end of its output\n     " + "\n     ".join(tail), flush=True)


def load_report(path):
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    return {"passed": 0, "failed": 0, "skipped": 0, "failures": []}


def close_report(path):
    report = load_report(path)
    for name, text in report["failures"]:
        print(f"failed: {name}")
        for line in text.splitlines()[:CLOSING_LINES]:
            print(f"    {line}")
    print(f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped")
    return 1 if report["failed"] or report["passed"] == 0 else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one program")
    parser.add_argument("--label", default="", help="put in front of the names, e.g. asan/")
    parser.add_argument("--report", help="file to which the counts are added")
    parser.add_argument("--skip", nargs=2, metavar=("NAME", "REASON"), help="add one skip to the report and exit")
    parser.add_argument("--close", metavar="FILE", help="print the closing line of a report and exit")
    args = parser.parse_args()
    if args.close:
        return close_report(args.close)
    if not args.programs and not args.skip:
        parser.error("name at least one test program")
    report = load_report(args.report)
    if args.skip:
        result = Result(args.skip[0])
        result.skips = [tuple(args.skip)]
        print_result(result)
        report["skipped"] += 1
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        runs = [pool.submit(run_one, path, args.label, args.timeout) for path in args.programs]
        for run in concurrent.futures.as_completed(runs):
            result = run.result()
            print_result(result)
            report["passed"] += result.passed
            report["failed"] += len(result.failures)
            report["skipped"] += len(result.skips)
            report["failures"] += result.failures
    if args.report:
        with open(args.report, "w", encoding="utf-8") as f:
            json.dump(report, f)
    else:
        print(f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped")
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
