"""Look at pages of HTML as devices of several widths show them: no page scrolls sideways.

    python tools/docs_look.py [PATH ...] [--shots DIRECTORY] [--dark]

PATH is a page or a folder of pages, by default the built documentation. Each page is opened in a headless Chromium
with an emulated device of 360, 768 and 1280 pixels. Ends with status 1 if a page is wider than its window, and names
the elements that stick out. `--shots` saves a picture of the first screens of each page. Where there is no Chromium the
tool says so, and ends with 0.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import NAMES, OPTIONS, command  # noqa: E402

BUILT = ROOT / "doc" / "_build" / "html"
WIDTHS = (360, 768, 1280)  # of a telephone, a tablet, a laptop
HEIGHT = 900
# The room that the page wants, that of its window, and the innermost elements that stick out. Code and tables may scroll
# by themselves.
LOOK = """(() => {
  const room = document.documentElement.clientWidth, all = [...document.querySelectorAll("body *")]
  const scrolls = one => ["auto", "scroll"].includes(getComputedStyle(one).overflowX)
  const own = "pre, .highlight, .table-wrapper, nav, aside"
  const wide = one => !one.matches(own) && scrolls(one) && one.scrollWidth > one.clientWidth
  const over = all.filter(wide).map(one => one.scrollWidth - one.clientWidth + room)
  const beyond = all.filter(one => !one.closest(own) && one.getBoundingClientRect().right > room + 0.5)
  const innermost = beyond.filter(one => !beyond.some(other => other !== one && one.contains(other)))
  return [Math.max(document.documentElement.scrollWidth, ...over), room, innermost.slice(0, 3).map(
    one => one.tagName.toLowerCase() + " " + (one.textContent || "").trim().slice(0, 60))]
})()"""


class Browser:
    """A headless Chromium with one page, which is steered by its debugging pipe."""

    def __init__(self, program: str, profile: str) -> None:
        ends = [*os.pipe(), *os.pipe()]
        # Above the two numbers that Chromium reads and writes.
        ours, self._to, self._from, theirs = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in ends)
        for end in ends:
            os.close(end)
        begin = f"import os, sys; os.dup2({ours}, 3); os.dup2({theirs}, 4); "
        begin += "os.execvp(sys.argv[1], sys.argv[1:])"
        options = (*OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-pipe")
        self._process = subprocess.Popen(
            [sys.executable, "-c", begin, program, *options],
            pass_fds=(ours, theirs),
            stderr=subprocess.DEVNULL,
        )
        os.close(ours)
        os.close(theirs)
        self._read, self._count = b"", 0
        self._session = ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        self.ask("Page.enable")

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(OSError):
            os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        self._process.wait()

    def ask(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._count += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._count, "method": method, "params": parameters, **session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next()
            if reply.get("id") == self._count:
                if "error" in reply:
                    raise SystemExit(f"Chromium refuses {method}: {reply['error']}")
                return reply["result"]

    def widen(self, width: int) -> None:
        """Show the page on a device of this width."""
        device = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **device)

    def open(self, path: pathlib.Path, width: int, is_dark: bool = False) -> None:
        """Open a page on a device of this width, and wait until it has loaded."""
        self.widen(width)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done(1) : "
            "addEventListener('load', () => done(1)))"
        )

    def evaluate(self, script: str) -> Any:
        """Return the value of a script in the page."""
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        return found["result"].get("value")

    def shot(self, screens: int = 2) -> bytes:
        """Return a picture of the first screens, as PNG."""
        width = self.evaluate("window.innerWidth")
        room = {"x": 0, "y": 0, "width": width, "height": screens * HEIGHT, "scale": 1}
        found = self.ask("Page.captureScreenshot", clip=room, captureBeyondViewport=True)
        return base64.b64decode(found["data"])

    def _next(self) -> Any:
        while b"\0" not in self._read:
            piece = os.read(self._from, 1 << 16)
            if not piece:
                raise SystemExit("Chromium has ended")
            self._read += piece
        message, _, self._read = self._read.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Run a browser in the block."""
    found = command()
    assert found is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        opened = Browser(found, profile)
        try:
            yield opened
        finally:
            opened.close()


def wide(opened: Browser, path: pathlib.Path) -> Iterator[str]:
    """Open a page; say on which devices it is wider than its window."""
    opened.open(path, WIDTHS[0])
    for width in WIDTHS:
        opened.widen(width)
        wanted, room, beyond = opened.evaluate(LOOK)
        if not wanted <= room == width:
            yield f"{path}: {wanted} pixels on a device of {width}: {'; '.join(beyond)}"


def main() -> int:
    """Look at the pages; return the status."""
    parser = argparse.ArgumentParser(description="Look for pages that scroll sideways.")
    parser.add_argument("paths", nargs="*", type=pathlib.Path, default=[BUILT], metavar="PATH")
    parser.add_argument(
        "--shots", type=pathlib.Path, metavar="DIRECTORY", help="save pictures there"
    )
    parser.add_argument("--dark", action="store_true", help="the pictures are of the dark colours")
    options = parser.parse_args()
    pages = [
        page
        for path in options.paths
        for page in (sorted(path.rglob("*.html")) if path.is_dir() else [path])
    ]
    if not pages:
        print(f"no pages in {', '.join(map(str, options.paths))}; build them: make docs")
        return 1
    if command() is None:
        print(f"SKIPPED: no Chromium ({', '.join(NAMES)}) looks at {len(pages)} pages")
        return 0
    found = []
    with browser() as opened:
        for page in pages:
            found += wide(opened, page)
            for width in WIDTHS if options.shots else ():
                opened.open(page, width, options.dark)
                options.shots.mkdir(parents=True, exist_ok=True)
                (options.shots / f"{page.stem}-{width}.png").write_bytes(opened.shot())
    print("\n".join([*found, f"{len(pages)} pages, {len(found)} wider than a window"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
