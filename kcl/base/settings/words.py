"""The description of each setting, for `kcl env` and the page of variables. No run of a program needs them."""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """The description of a setting: the values that it takes, its effect in one line, details, and its default."""

    values: str
    effect: str
    more: str = ""
    default: str = "unset"


WORDS = {
    "KCL_CACHE_DIR": Words(
        "an absolute path",
        "Root of kcl's folders, instead of the platform's cache directory",
        "The folders are `pytools/`, `pyopencl/` and `kcl/`.",
    ),
    "KCL_DUMP": Words(
        "an absolute path",
        "Writes every stage of each kernel of the run below this directory",
        "The stages are loopy's unit as returned and as scheduled, OpenCL C, invoker, options, log and "
        "binary. On a hit loopy generates for that, so the run is slow.",
    ),
    "KCL_MAX_SIZE": Words(
        "bytes, with a unit or without: `500M`, `2G`; `0`: no bound",
        "Bounds the entries on disk",
        "If the entries of all layers take more, kernels are removed until a tenth of the bound is free: first "
        "those that were used longest ago.",
        default="2G",
    ),
    "KCL_NO_CACHE": Words(
        "`1`, or a comma-separated list of `generator`, `binary`, `shapes`, `tuning`, `graph`",
        "Switches the named parts of kcl off, `1` all of them",
        "`generator`, `binary` and `tuning` are the layers. A layer that is off opens, creates and writes no file. "
        '`shapes`: `fixed="auto"` fixes no size. `tuning`: every recipe with a space takes its defaults. '
        "`graph`: no [graph of pytato](../howto/lazy.md) is looked up.",
    ),
    "KCL_PROGRESS": Words(
        "`1` or `0`",
        "Counts the kernels of the run after two seconds of work for them",
        "The count stands on one line of stderr while what was not in the cache is made. The line is written "
        "over each second, and erased as the work ends. `1`: also where stderr is no terminal, as lines that "
        "stay.",
        default="1 where stderr is a terminal, else 0",
    ),
    "KCL_PROMOTE": Words(
        "`background`, `exit` or `off`",
        "Decides when a helper process completes entries (PoCL)",
        "Such a driver is slow to give out a binary. `background`: after the first launches; `exit`: as the "
        "process ends; `off` leaves the jobs to later runs and to `kcl flush`.",
        default="background",
    ),
    "KCL_REMOTE": Words(
        "the address of a remote: `redis://host/0`, `s3://bucket/prefix`, `https://host/path`, `file:///dir`; `off`",
        "The remote whose packs warm the cache of a driver at its first miss",
        "A pack counts if trusted keys have signed it.",
    ),
    "KCL_REMOTE_FRESH": Words(
        "an age",
        "The age of an answer after which the remote is asked again",
        default="1h",
    ),
    "KCL_REMOTE_HEADERS": Words(
        '`["NAME: TEXT"]`',
        "Headers for a remote of http or https",
        "They go to the host of `remote` in this file, by `https`, or by `http` on this machine. They have no"
        " comma and follow no redirect.",
    ),
    "KCL_REMOTE_NAME": Words(
        "a text",
        "Names the packs, in place of the project's name",
        default="the project's name",
    ),
    "KCL_REMOTE_TIMEOUT": Words(
        "an age",
        "No process waits longer for a pack",
        default="2s",
    ),
    "KCL_REMOTE_UNSIGNED": Words(
        "addresses",
        "Remotes whose packs need no signature",
    ),
    "KCL_REMOTE_WRITE": Words(
        '`true`, `false` or `"exit"`',
        "A process that made an entry pushes what runs used",
        '`true`: after its end; `"exit"`: before it, in a minute at most. Once in `remote_fresh` any process pushes.',
        default="false",
    ),
    "KCL_REPORT": Words(
        "`1`, `kernels`, `explain`, `json:PATH`, or several: `kernels,explain,json:/tmp/report.jsonl`",
        "Prints a report at exit, or adds one to a file",
        "`1`: on stderr the report (layer, hits, misses, bypassed, errors, seconds, saved, bytes, files); "
        "`kernels`: the same with a row for each kernel with its parameters; `explain`: what missed in this "
        "process and why. `json:PATH`, which comes last, adds a line of JSON to the file at this absolute "
        "path: one for each process that ends, with the members that `kcl report --json` prints.",
    ),
    "KCL_SIGNING_KEY": Words(
        "a name",
        "The key of `kcl key new` that signs",
        default="the only key",
    ),
    "KCL_SITE": Words(
        "absolute paths with `:` between, or `off`",
        "Directories of root, which `kcl load --into` fills",
        "A layer looks there for entries that the user's own cache lacks. It never writes there.",
    ),
    "KCL_SITE_OWNERS": Words(
        "numbers of users: `[1001]`",
        "Further users whose site directories are read",
        "Those of root and your own are read.",
    ),
    "KCL_STRICT": Words(
        "`hit`, `fault` or `hit,fault`",
        "Raises an error for what is no hit, or for a fault of the cache",
        "`hit`: any outcome but a hit in a layer that is on raises `kcl.CacheMiss`; a hit does not raise, even "
        "if loopy had to be imported; `fault`: a fault of the cache raises `kcl.CacheFault` "
        "and is no miss. With any other value each look-up raises `kcl.SettingError`.",
    ),
    "KCL_TRACE": Words(
        "an absolute path",
        "Adds what took how long to this file as each process ends",
        "It has Chrome trace events, which Perfetto and speedscope show: import, record, make, generate, "
        "build, load, complete, first launch, by kernel and layer.",
    ),
    "KCL_TRUSTED_KEYS": Words(
        "`NAME:base64`s",
        "Keys that are trusted beside those of `kcl key trust`",
    ),
    "KCL_TRUST_UID": Words(
        "the number of a user",
        "Root runs and keeps the code of this user",
        "The code lies in the directory that `KCL_CACHE_DIR` names, and this user gets the files that root "
        "makes there.",
    ),
}
