"""A headless Chromium, driven over pipes: no driver, no port, no network."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --remote-debugging-pipe --hide-scrollbars "
    "--autoplay-policy=no-user-gesture-required --no-first-run --disable-background-networking"
)


class Browser:
    """One page; remembers every error that the page's console shows."""

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._answers: dict[int, dict[str, Any]] = {}
        self._last = 0
        self._session = ""
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # Chromium wants its pipes as descriptors 3 and 4; only a shell can put them there.
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        command = ["bash", "-c", script, "-", str(CHROMIUM), *FLAGS.split()]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out = os.fdopen(ours_out, "wb", buffering=0)
        self._in = os.fdopen(ours_in, "rb", buffering=0)
        self._buffer = b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        del kind, error
        self._process.terminate()
        self._process.wait(timeout=20)
        self._out.close()
        self._in.close()

    def ask(self, method: str, **params: Any) -> Any:
        """Send a command and wait for its answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while self._last not in self._answers:
            self._take(self._read())
        answer = self._answers.pop(self._last)
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._in.fileno(), 1 << 20)
            assert data, "the browser is gone"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
            return
        method, params = message["method"], message["params"]
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(json.dumps(params["args"]))

    def show(self, page: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Open a file and wait until it has loaded."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", features=[feature])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.ask("Page.navigate", url=page.absolute().as_uri())
        self.run(
            "new Promise(done => document.readyState === 'complete' ? done(1) "
            ": addEventListener('load', () => done(1)))"
        )

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """A picture of the whole page."""
        picture = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))
