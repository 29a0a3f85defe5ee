"""Drives a headless Chromium over its debugging pipe: no driver and no library. Debian: chromium."""
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program():
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    """One browser with one page; everything that it says on the console or throws is kept in `noise`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="paceline-chromium-")
        read_end, self.commands = os.pipe()
        self.answers, write_end = os.pipe()

        def give_pipes():
            # Chromium reads commands from descriptor 3 and answers on 4.
            os.dup2(read_end, 100)
            os.dup2(write_end, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio", "--window-size=1280,900",
             f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=give_pipes)
        os.close(read_end)
        os.close(write_end)
        self.buffer, self.number, self.session, self.noise = b"", 0, None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            if time.monotonic() > deadline:
                raise AssertionError("the browser does not answer")
            piece = os.read(self.answers, 1 << 16)
            assert piece, "the browser has ended"
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.listen(answer)

    def listen(self, event):
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.noise.append(json.dumps(what["exceptionDetails"])[:400])
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.noise.append(json.dumps(what["args"])[:400])
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.noise.append(f"{what['entry']['text']} {what['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.noise += [] if what["request"]["url"].startswith(("http://127.0.0.1:", "data:", "about:")) else [f"asked for {what['request']['url']}"]

    def run(self, script):
        """The value of an expression in the page; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{script}: {json.dumps(result['exceptionDetails'])[:500]}"
        return result["result"].get("value")

    def wait(self, script, timeout=20):
        end = time.monotonic() + timeout
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < end, f"not within {timeout} s: {script}"
            time.sleep(0.05)

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def key(self, name, text=""):
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        typed = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=codes[name], **(typed if kind == "keyDown" else {}))

    def type(self, text):
        self.call("Input.insertText", text=text)

    def color_scheme(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)
