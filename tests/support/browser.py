"""A headless browser: Chromium, or one that takes the same options. A helper of tests.

`KCL_TEST_BROWSER` names its command; without the variable the usual names are looked for.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
# Without a sandbox, since a container often allows none: the pages are our own.
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
)


def command() -> str | None:
    """Return the command of the browser; None where there is none."""
    named = os.environ.get("KCL_TEST_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def measured(page: str, script: str, folder: pathlib.Path, width: int, dark: bool):
    """Show a page, run a script in it, and return the value of its last expression, which JSON must hold.

    The script runs in a copy of the page whose policy does not forbid scripts.
    """
    allowed = page.replace("default-src &#x27;none&#x27;", "script-src 'unsafe-inline'")
    assert allowed != page
    ending = f"<script>document.body.dataset.measured = JSON.stringify((() => {{{script}}})())</script></body>"
    printed = dom(allowed.replace("</body>", ending), folder, width, dark)
    found = re.search(r'data-measured="([^"]*)"', printed)
    assert found, printed[-2000:]
    return json.loads(
        found[1]
        .replace("&quot;", '"')
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
    )


def dom(page: str, folder: pathlib.Path, width: int = 1200, dark: bool = False) -> str:
    """Return the document that the browser makes of a page."""
    path = folder / "shown.html"
    path.write_text(page, encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={int(not dark)}"
    return _run(f"--window-size={width},900", scheme, "--dump-dom", path.as_uri(), folder=folder)


def printed(page: str, folder: pathlib.Path) -> bytes:
    """Return a page as the browser prints it: PDF."""
    path, made = folder / "printed.html", folder / "printed.pdf"
    path.write_text(page, encoding="utf-8")
    _run(f"--print-to-pdf={made}", path.as_uri(), folder=folder)
    return made.read_bytes()


def _run(*words: str, folder: pathlib.Path) -> str:
    browser = command()
    assert browser is not None
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [browser, *OPTIONS, profile, *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
