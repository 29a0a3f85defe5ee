"""Counts checks as scripts/run_tests.py expects: "N passed, N failed, N skipped" as the last line."""
import traceback


class Skip(Exception):
    """A check that cannot run here, and why."""


class Report:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, name, check, *arguments):
        """Runs one check; anything that it raises but Skip is a failure, and the others still run."""
        try:
            check(*arguments)
        except Skip as skip:
            self.skipped += 1
            print(f"SKIP {name}: {skip}", flush=True)
        except Exception as error:  # a check is foreign code to the runner
            self.failed += 1
            detail = str(error) if isinstance(error, AssertionError) and str(error) else traceback.format_exc()
            print(f"FAIL {name}: {detail}", flush=True)
        else:
            self.passed += 1
            print(f"ok   {name}", flush=True)

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed else 0
