"""`kcl report`: the last run as text, JSON or a page, which escapes what is the user's and asks no network."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from commands import run
from printed import differs

from kcl.base import events
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.stores import Stat
from kcl.cli import pages
from kcl.cli.report import collect_facts, fill_page
from kcl.inspect import flush
from kcl.inspect.explain.listing import Change
from kcl.inspect.explain.misses import Miss
from kcl.inspect.history.records import COUNTERS
from kcl.inspect.inventory import ListedEntry
from kcl.inspect.kernels import KernelRow, LookSummary, Run, find_last_run, name_rows

pytestmark = pytest.mark.one_platform

EVIL = "</code></pre><script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>\"' &amp;"
VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Reads a page as a browser does; what is not closed, or closed twice, is a fault."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def of(self, attribute: str) -> list[str]:
        """Return the values of an attribute."""
        return [found[attribute] or "" for _tag, found in self.elements if attribute in found]


def check(text: str) -> Reader:
    assert text.startswith("<!doctype html>\n")
    reader = Reader(text)
    active = "script img link iframe object embed form base svg"
    assert {tag for tag, _ in reader.elements}.isdisjoint(active.split())
    attributes = {name for _tag, found in reader.elements for name in found}
    assert not [name for name in attributes if name.startswith("on") or name == "src"]
    identities = reader.of("id")
    assert len(identities) == len(set(identities))
    assert all(link.startswith("#") and link[1:] in identities for link in reader.of("href"))
    assert all(name in identities for name in reader.of("aria-labelledby"))
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "color-scheme" in style
    assert re.search(r"url\(|@import|//", style) is None
    policies = [found["content"] for _tag, found in reader.elements if "http-equiv" in found]
    assert [policy.partition(";")[0] for policy in policies] == ["default-src 'none'"]
    assert reader.elements[0] == ("html", {"lang": "en"})
    return reader


def page_of(run: Run) -> str:
    shared = collect_facts(run)
    found = {"title": run.driver or "python", "when": shared["processes"], "version": "1"}
    return pages.fill("page", main=fill_page(run, shared), **found)


def look(outcome: str, seconds: float, saved: float, layer: str = "binary") -> LookSummary:
    return LookSummary(layer, "mm", outcome, "", "", 1, 1.0, seconds, saved, ())


def evil_run() -> Run:
    """Return a run in which each text is the user's, and means no good."""
    key = Key([("source", EVIL)])
    parts = {"source.cl": EVIL.encode(), "binary": EVIL.encode()}
    about = {"kernel": EVIL, "device": {"name": EVIL}, "platform": {"name": EVIL}}
    address = f"x-{key.digest}"
    stored: Any = {address: Entry(key, about, parts).pack()}
    held = ListedEntry("binary", address, Stat(1, 1.0), key, about, stored)
    looks = [
        LookSummary("binary", EVIL, outcome, EVIL, key.digest, 2, 5.0, 1.0, 1.0, {EVIL: EVIL})
        for outcome in ("hit", "miss", "error", "bypass")
    ]
    change = Change("source", EVIL, (f"-{EVIL}", f"+{EVIL}"))
    words = (EVIL,), {EVIL: EVIL}
    miss = Miss(5.0, EVIL, 1, "binary", EVIL, "miss", 2, EVIL, key.digest, None, (change,), *words)
    layer = {"layer": "binary", **dict.fromkeys(COUNTERS, 1.0)}
    rows = [KernelRow(EVIL, looks, [held])]
    return Run(EVIL, (1, 2), 4.0, 5.0, [layer], rows, [EVIL], (miss,), 3)


def kcl(*words, code=0):
    return run(*words, code=code).output


class TestReport:
    def test_nothing(self):
        assert kcl("report", code=1) == "no run is known\n"
        assert kcl("report", "never.py", code=1) == "no run of 'never.py' is known\n"

    @pytest.mark.usefixtures("cache")
    def test_text(self):
        said = kcl("report", "driver.py")
        assert said.startswith("driver.py, process ")
        lines = said.splitlines()
        (parameter,) = [line.split() for line in lines if line.startswith("parameter(factor=9)")]
        assert parameter[1:3] == ["hit", "hit"]
        assert max(map(len, lines)) <= 80

    def test_missed(self, copy, monkeypatch):
        """What missed is explained, as text and on the page; the lines fit where `COLUMNS` says a width."""
        copy.edit("driver.py", "parameter(9)", "parameter(10)")
        copy.run("inputs")
        kcl("flush")  # what a helper completes meanwhile would differ between two reports
        said = kcl("report")
        assert "parameter(factor=10), generator layer: miss\n" in said
        assert "  parameter factor: 9 -> 10\n" in said
        assert differs("report", json.loads(kcl("report", "--json"))) == []
        reader, rows = check(kcl("report", "--html", "-")), find_last_run().rows
        assert [tag for tag, _ in reader.elements].count("details") == len(rows)
        for words in (*name_rows(rows), "parameter factor: 9 -> 10", "__kernel"):
            assert words in reader.text
        monkeypatch.setenv("COLUMNS", "50")
        narrow = kcl("report")
        assert narrow.split("ago", 1)[1].split() == said.split("ago", 1)[1].split()
        assert all(len(line) <= 50 or " " not in line.strip() for line in narrow.splitlines())

    def test_fail_on_miss(self):
        """`--fail-on-miss` lists every look-up that was no hit, with its reason, and ends with 1; without any with 0.

        A layer that is off does not count.
        """
        off = events.Event("binary", "good", "", "bypass", "off: KCL_NO_CACHE=binary", 0.0, 0)
        for event in (off, off._replace(outcome="hit", reason="")):
            events.emit(event)
        flush()
        kcl("report", "--fail-on-miss")
        for number in range(41):
            events.emit(off._replace(kernel=f"bad{number}", reason="does not compile: b"))
        flush()
        missed = kcl("report", "--fail-on-miss", code=1)
        assert missed.count(", binary layer: bypass\n") == 42
        assert "does not compile: b" in missed
        assert "are left out" not in missed
        assert "2 earlier ones are left out" in kcl("report")

    @pytest.mark.usefixtures("cache")
    def test_html(self, tmp_path):
        path = tmp_path / "page.html"
        assert kcl("report", "driver.py", "--html", str(path)) == f"written: {path}\n"
        assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
        path.unlink()
        done = run("report", "driver.py", "--json", "--html", str(path))
        assert json.loads(done.stdout)["driver"].endswith("driver.py")
        assert path.exists()


class TestPage:
    def test_escaped(self):
        """Names, sources, paths and messages of users are shown as they are, and are nothing but text."""
        reader = check(page_of(evil_run()))
        assert reader.text.count(EVIL) > 5

    def test_empty(self):
        reader = check(page_of(Run("", (1,), 1.0, 1.0, [], [])))
        assert "python" in reader.text
        assert "Every look-up was a hit." in reader.text

    def test_bars(self):
        """A kernel has one bar: what its misses took, what its hits took and what they saved, by the longest of the run."""
        missed = KernelRow("mm", [look("miss", 3.0, 0.0), look("hit", 1.0, 4.0, "generator")], [])
        held = KernelRow("lap", [look("hit", 1.0, -3.0)], [])
        reader = check(page_of(Run("", (1,), 1.0, 1.0, [], [missed, held])))
        bars = [found for tag, found in reader.elements if tag == "i" and "style" in found]
        assert [bar["class"] for bar in bars] == ["miss", "hit", "saved"] * 2
        calc = re.compile(r"width: calc\(100% \* ([-\d.e]+) / ([\d.e]+)\)")
        pairs = [calc.fullmatch(bar["style"]).groups() for bar in bars]
        widths = [100 * float(part) / float(whole) for part, whole in pairs]
        assert widths == [37.5, 12.5, 50.0, 0.0, 12.5, 0.0]
        assert [found["class"] for tag, found in reader.elements if tag == "b"] == ["miss", "hit"]
        assert "4.0 s spent, 4.0 s saved; generator: hit; binary: miss" in reader.text
