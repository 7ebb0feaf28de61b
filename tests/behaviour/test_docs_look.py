"""tools/docs_look.py: a page that scrolls sideways is named; the built documentation has none."""

import importlib
import subprocess
import sys

import pytest
from harness import ROOT, run_command

TOOL = ROOT / "tools" / "docs_look.py"
BUTTONS = """
(() => {
  const all = words => [...document.querySelectorAll(words)]
  const opacity = all(".highlight button.copybtn").map(one => getComputedStyle(one).opacity)
  return [all(".highlight pre").length, opacity]
})()
"""
PAGE = "<!doctype html><meta name=viewport content='width=device-width'><body style='margin:0'>{}"


@pytest.fixture
def docs_look(monkeypatch):
    monkeypatch.syspath_prepend(TOOL.parent)
    return importlib.import_module("docs_look")


def looked(*words, **variables):
    command = [sys.executable, TOOL, *words]
    return run_command(command, env=variables or None)


class TestPages:
    @pytest.mark.browser
    def test_wide(self, tmp_path):
        """A page that is wider than a device is named with what sticks out; the status is 1."""
        (tmp_path / "page.html").write_text(PAGE.format("<div style='width:800px'>a plank</div>"))
        done = looked(tmp_path)
        assert done.returncode == 1
        assert "on a device of 360: div a plank" in done.stdout
        assert "device of 1280" not in done.stdout
        assert "1 pages, 2 wider than a window" in done.stdout

    @pytest.mark.browser
    def test_scrolls_within(self, tmp_path):
        """A part that scrolls is wide, too, unless it is code or the frame of a table."""
        div = "<div class={} style='overflow-x:auto'><div style='width:800px'>a plank</div></div>"
        (tmp_path / "page.html").write_text(PAGE.format(div.format("content")))
        assert looked(tmp_path).returncode == 1
        (tmp_path / "page.html").write_text(PAGE.format(div.format("table-wrapper")))
        assert looked(tmp_path).returncode == 0

    def test_no_chromium(self, tmp_path):
        """Where there is no Chromium the tool says that it skips the pages."""
        (tmp_path / "page.html").write_text(PAGE.format(""))
        done = looked(tmp_path, PATH=str(tmp_path))
        assert done.returncode == 0
        assert done.stdout.startswith("SKIPPED: no Chromium")

    def test_no_pages(self, tmp_path):
        done = looked(tmp_path)
        assert done.returncode == 1
        assert "make docs" in done.stdout


@pytest.mark.slow
class TestDocumentation:
    @pytest.fixture(scope="class")
    def built(self, tmp_path_factory):
        pytest.importorskip("furo")
        built = tmp_path_factory.mktemp("html")
        command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", ROOT / "doc", built]
        subprocess.run(command, check=True)
        return built

    @pytest.mark.browser
    def test_fits(self, built):
        """No page of the documentation scrolls sideways at 360, 768 and 1280 pixels."""
        done = looked(built)
        assert done.returncode == 0, done.stdout

    @pytest.mark.browser
    def test_copy_button(self, built, docs_look):
        """Each block of code has a button that copies it, which shows without a pointer; it leaves prompts out."""
        with docs_look.browser() as opened:
            opened.open(built / "index.html", 360)
            blocks, opacity = opened.evaluate(BUTTONS)
        assert blocks == len(opacity) > 0
        assert all(float(one) > 0.3 for one in opacity)
