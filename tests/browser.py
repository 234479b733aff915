"""A headless Chromium, driven through chromedriver's WebDriver protocol: JSON over HTTP."""

import base64
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
TAB, ENTER, SPACE, DOWN = "\ue004", "\ue007", " ", "\ue015"  # keys, for `Browser.press`
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # how the protocol marks an element
_TIMEOUT = 60


class Browser:
    """One window. `script` runs JavaScript; keys and clicks are those of a user."""

    def __init__(self, address):
        self._address = address

    def request(self, method, path, content=None):
        data = None if method != "POST" else json.dumps(content or {}).encode()
        request = urllib.request.Request(f"{self._address}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        # A proxy of the environment has no business here.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=_TIMEOUT) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()}") from None

    def open(self, address):
        """Open a file, or a page by its http address."""
        if not str(address).startswith("http"):
            address = pathlib.Path(address).as_uri()
        self.request("POST", "/url", {"url": address})

    def script(self, code, *arguments):
        content = {"script": code, "args": list(arguments)}
        return self.request("POST", "/execute/sync", content)

    def wait(self, code, *arguments):
        """Run JavaScript again and again until it returns something true; return that."""
        end = time.monotonic() + _TIMEOUT
        while not (value := self.script(code, *arguments)):
            if time.monotonic() > end:
                raise TimeoutError(f"Not true within {_TIMEOUT} s: {code}")
            time.sleep(0.02)
        return value

    def find(self, selector):
        found = self.request("POST", "/element", {"using": "css selector", "value": selector})
        return found[_ELEMENT]

    def click(self, selector):
        self.request("POST", f"/element/{self.find(selector)}/click")

    def choose(self, selector, *paths):
        """Choose files in an `<input type=file>`, as in the dialog that it opens."""
        content = {"text": "\n".join(map(str, paths))}
        self.request("POST", f"/element/{self.find(selector)}/value", content)

    def press(self, *keys):
        """Press keys, one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        content = {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}
        self.request("POST", "/actions", content)

    def emulate(self, command, **parameters):
        """Send a command of the DevTools protocol."""
        return self.request("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width, height):
        self.emulate(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme):
        """Set what the system prefers, `"light"` or `"dark"`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.emulate("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self):
        """Return what is in the window as PNG bytes."""
        return base64.b64decode(self.request("GET", "/screenshot"))

    def messages(self):
        """Return what the console said since it was last asked."""
        return [
            f"{entry['level']}: {entry['message']}"
            for entry in self.request("POST", "/se/log", {"type": "browser"})
        ]


@contextlib.contextmanager
def launched():
    """Give a `Browser`; skip the test where Chromium or its driver is not installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            started = (re.search(r"successfully on port (\d+)", line) for line in process.stdout)
            match = next(filter(None, started), None)
            if match is None:
                raise RuntimeError(f"{driver} ended without naming its port.")
            address = f"http://127.0.0.1:{match.group(1)}"
            options = {
                "binary": chromium,
                "args": [*_ARGUMENTS, f"--user-data-dir={profile}"],
            }
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            session = Browser(address).request(
                "POST", "/session", {"capabilities": {"alwaysMatch": wanted}}
            )
            browser = Browser(f"{address}/session/{session['sessionId']}")
            try:
                yield browser
            finally:
                browser.request("DELETE", "")
        finally:
            process.terminate()
            process.communicate(timeout=_TIMEOUT)
