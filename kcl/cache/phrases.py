"""The parts of a key in words: the text that a user reads where two keys differ.

`_WHOLE` and `_FIRST` are the one table of names. A sentence names the part that changed. Where the change is short
enough, the sentence shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from kcl.base.text.layout import alike, cut
from kcl.base.text.names import dtype, of_value
from kcl.cache.key import Difference

ABSENT = "absent"
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
WIDTH = 60  # of a value in a sentence


class Origin(NamedTuple):
    """Where the code of a part is written: its module and its first line there, 0 where that is unknown."""

    module: str
    line: int


class About(NamedTuple):
    """The facts about a kernel that stand beside two of its keys.

    `recipe` names the part with the code of the recipe. `files` names the parts that are contents of files. `line`
    returns the first line that differs in the module of a part of code, 0 where it is unknown.
    """

    recipe: str = ""
    origins: Mapping[str, Origin] = {}
    files: Collection[str] = ()
    binary: bool = False
    line: Callable[[str], int] = lambda _name: 0
    told: Collection[str] = ()  # distributions with a sentence of their own


def sentence(difference: Difference, about: About = About()) -> str:  # noqa: B008 (immutable)
    """Say how a part differs between an earlier key and a later one; empty where the words of another part do."""
    name, before, after = difference
    first, _, rest = name.partition(" ")
    if about.binary and first == "variable":
        return _changed(f"variable {rest}", before, after)
    if name in about.files or first in _PLACES or (first == "module" and "." in rest):
        return _read(name, before, after)
    write = _WHOLE.get(name) or _FIRST.get(first) if rest else _WHOLE.get(name)
    if isinstance(write, str):
        thing, _, label = rest.rpartition(" in ")
        return _changed(write.format(rest, thing or rest, label), before, after)
    if write is not None:
        return write(rest, difference, about)
    thing, inside, label = name.rpartition(" in ")
    return _changed(f"{thing} in `{label}`" if inside else name, before, after)


def value(text: str) -> str:
    """Write a value for the user: dtypes and classes by name, digests short."""
    return _DIGEST.sub(lambda match: match[0][:8], of_value(text))


def _changed(what: str, before: str | None, after: str | None) -> str:
    if before is None:
        return f"{what} is new" + (f": {cut(value(after or ''), WIDTH)}" if telling(after) else "")
    if after is None:
        return f"{what} is no longer there"
    if not (telling(before) and telling(after)):
        return f"{what} changed"
    return f"{what}{' ' if ': ' in what else ': '}{arrow(value(before), value(after))}"


def telling(text: str | None) -> bool:
    """Tell whether a value is more than a digest."""
    return bool(text) and _DIGEST.sub("", text or "") not in ("", "sha256 ")


def arrow(before: str, after: str) -> str:
    """Show two values; of long values, show the place where they part."""
    if before == after:
        return f"{cut(before, WIDTH)}, with other content"
    if max(len(before), len(after)) <= WIDTH:
        return f"{before} -> {after}"
    start = max(0, alike(before, after) - WIDTH // 3)
    return " -> ".join(cut(("..." if start else "") + text[start:], WIDTH) for text in (before, after))


def _code(label: str, difference: Difference, about: About) -> str:
    _name, before, after = difference
    if difference.name == about.recipe and before is not None:
        line = about.line(difference.name)
        return f"recipe `{label.rpartition('.')[2]}`: body changed" + (f" at line {line}" if line else "")
    what = f"helper `{label}`{_module(difference.name, about)}"
    if before is None:
        return f"{what} is called now"
    return f"{what} is not called any more" if after is None else f"{what} changed"


def _module(name: str, about: About) -> str:
    """Name the module of code that does not belong to the recipe."""
    origin, own = about.origins.get(name), about.origins.get(about.recipe)
    return f" in {origin.module}" if origin is not None and (own is None or own.module != origin.module) else ""


def _class(label: str, difference: Difference, about: About) -> str:
    _name, before, after = difference
    what = f"class `{label}`{_module(difference.name, about)}"
    if before is None or after is None:
        return f"{what} is {'used now' if before is None else 'not used any more'}"
    parts = _changed_items(before.split("; "), after.split("; "))
    return f"{what}: {parts}" if parts else f"{what} changed"


def _changed_items(before: list[str], after: list[str]) -> str:
    """Show the attribute that differs, where only one does."""
    if len(before) != len(after) or not before:
        return ""
    pairs = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    if len(pairs) != 1 or not all(telling(side) and ": " in side for side in pairs[0]):
        return ""
    (one, other) = (side.partition(": ") for side in pairs[0])
    return f"{one[0]} {arrow(value(one[2]), value(other[2]))}" if one[0] == other[0] else ""


def _distribution(name: str, difference: Difference, about: About) -> str:
    """Compare "<version> <record>"; required distributions may follow after semicolons."""
    before, after = (None if side == ABSENT else side for side in difference[1:])
    if before is None or after is None:
        reached = "is used now" if before is None else "is not used any more"
        return f"{name} {_version(before or after or '')} {reached}".replace("  ", " ")
    (own, *needed), (now, *needs) = before.split("; "), after.split("; ")
    if own != now:
        return _versions(name, own, now)
    changes = _required(needed, needs, about)
    return f"what {name} requires: {changes}" if changes else ""


def _own(_name: str, difference: Difference, _about: About) -> str:
    """Compare "<format> <version> <digest of the files>"."""
    before, after = ((side or "").split(" ")[1:2] for side in (difference.before, difference.after))
    return "kcl itself changed" if before == after else f"kcl {' '.join(before)} -> {' '.join(after)}"


def _others(_name: str, difference: Difference, about: About) -> str:
    """Compare "<name> <version>, <name> <version>, ... <digest>"."""
    needed, needs = ((side or "").rpartition(" ")[0].split(", ") for side in difference[1:])
    return _required(needed, needs, about) or "what loopy requires was installed anew"


def _required(before: list[str], after: list[str], about: About) -> str:
    """Compare lists of "<name> <version>"; leave out the distributions that have a sentence of their own."""
    known, found = (dict(item.partition(" ")[::2] for item in items if item) for items in (before, after))
    return ", ".join(
        _versions(name, known.get(name, ABSENT), found.get(name, ABSENT))
        for name in sorted({*known, *found})
        if known.get(name) != found.get(name) and name not in about.told
    )


def _versions(name: str, before: str, after: str) -> str:
    if ABSENT in (before, after):
        return f"{name} {'was installed' if before == ABSENT else 'is gone'}"
    one, other = _version(before), _version(after)
    if one != other:
        return f"{name} {one} -> {other}"
    return f"{name}: its editable install changed" if one == "editable" else f"{name} {one}: installed files changed"


def _version(text: str) -> str:
    return text.partition(" ")[0]


def _argument(name: str, difference: Difference, _about: About) -> str:
    if name == "checks":
        return f"loopy {'leaves argument checks out' if difference.before is None else 'checks arguments again'}"
    sides = ["not given" if text is None else dtype(text) for text in difference[1:]]
    return f"argument {name}: {arrow(*sides)}"


def _options(_rest: str, difference: Difference, _about: About) -> str:
    import shlex

    def flags(text: str | None) -> list[str]:
        try:
            return shlex.split(text or "")
        except ValueError:
            return (text or "").split()

    before, after = flags(difference.before), flags(difference.after)
    values = {name: one for name, is_set, one in (flag.partition("=") for flag in before) if is_set}
    said = []
    for flag in after:
        name, is_set, new = flag.partition("=")
        if flag not in before:
            old = values.pop(name, None) if is_set else None
            said.append(f"build option {flag} added" if old is None else f"build option {name}: {old} -> {new}")
    replaced = {flag.partition("=")[0] for flag in after if "=" in flag and flag not in before}
    for flag in before:
        if flag not in after and not ("=" in flag and flag.partition("=")[0] in replaced):
            said.append(f"build option {flag} removed")
    return ", ".join(said) or "build options: another order"


def _header(name: str, difference: Difference, _about: About) -> str:
    if difference.before is None or difference.after is None:
        return f"header {name} is {'included now' if difference.before is None else 'not included any more'}"
    return f"header {name} changed"


def _features(_rest: str, difference: Difference, _about: About) -> str:
    before, after = ((text or "").split() for text in difference[1:])
    what = "CPU features" if difference.name.startswith("cpu") else difference.name
    changes = [f"{word} added" for word in after if word not in before]
    changes += [f"{word} removed" for word in before if word not in after]
    return f"device: {what}: {cut(', '.join(changes), WIDTH) or 'another order'}"


def _declared(rest: str, difference: Difference, _about: About) -> str:
    kind = rest.partition(" ")[0]
    if kind == "version":
        return _changed("declared version", *difference[1:])
    if kind in ("read", "variable"):
        thing = f"{'input' if kind == 'read' else kind} {difference.after or difference.before}"
        if difference.before is not None and difference.after is not None:
            return f"declared {kind}: {difference.before} -> {difference.after}"
        return f"{thing} is {'declared now' if difference.before is None else 'not declared any more'}"
    return _read(*difference)


def _target(_rest: str, difference: Difference, _about: About) -> str:
    """Show two targets where both are short; the text of a long target says little."""
    sides = [text or "" for text in difference[1:]]
    told = all(telling(text) and len(text) <= WIDTH for text in sides)
    return f"default target: {arrow(*map(value, sides))}" if told else "default target changed"


def _source(_rest: str, _difference: Difference, about: About) -> str:
    """Name the thing behind the digest: in the key of a recipe, a whole kcl.Source."""
    return "OpenCL C changed" if about.binary else "OpenCL C, declarations or build options changed"


def _result(_rest: str, _difference: Difference, _about: About) -> str:
    return "the recipe returned something else"


def _read(name: str, before: str | None, after: str | None) -> str:
    """Say how an input that the recipe reads changed."""
    words = name.split(" ")
    places = _PLACES | {"module", "declared"}
    path = " ".join(words[next((i for i, word in enumerate(words) if word not in places), len(words)) :])
    file = re.split(r"[/\\]", path)[-1]
    what = {
        "directory": "working directory",
        "variable": f"variable {path}",
        "link": f"link '{file}' that the recipe follows",
        "declared": f"declared input {path}",
    }.get(words[0], f"file '{file}' that the recipe reads")
    gone, new = after in (None, ABSENT), before in (None, ABSENT)
    if words[0] == "variable":
        return f"{what} {'was set' if new else 'is not set any more' if gone else 'changed'}"
    return f"{what} {'is new' if new else 'is gone' if gone else 'changed'}"


Writer = Callable[[str, Difference, About], str]

# inputs that a recipe read: the first word of a part's name in a row that depends on reads
_PLACES = frozenset({"cwd", "absolute", "resolved", "link", "variable", "directory"})

# names as a whole
_WHOLE: dict[str, str | Writer] = {
    "kcl": _own,
    "other distributions": _others,
    "unit": "the content of the translation unit",
    "state": "what the program changed in loopy or registered with it",
    "dtype names": "the names of dtypes in C",
    "entry point": "entry point",
    "proofs": "file with the calls",
    "row": "kind of the row",
    "python": "Python",
    "optimize": "python -O level",
    "result": _result,
    "record": "the record of the recipe's calls",
    "default target": _target,
    "format": "kcl's format of binaries",
    "source": _source,
    "options": _options,
    "platform": "platform",
    "platform vendor": "platform: vendor",
    "platform version": "platform: version",
    "device": "device",
    "device vendor": "device: vendor",
    "device version": "device: version",
    "driver": "device: driver",
    "OpenCL C": "device: language",
    "extensions": _features,
    "address bits": "device: address width",
    "driver library": "device: build of the driver's library",
    "cpu features": _features,
    "shared objects": "which names stand for one object",
    "(order)": "order of the parts",
}

# names by their first word; {0} is the rest, {1} and {2} are the texts before and after its " in "
_FIRST: dict[str, str | Writer] = {
    "code": _code,
    "class": _class,
    "parameter": "parameter {0}",
    "default": "default of {1} in `{2}`",
    "closure": "closure variable {1} of `{2}`",
    "global": "global {1} in `{2}`",
    "import": "import of {1} in `{2}`",
    "value": "{1}, which `{2}` uses",
    "changed": "{1}, which `{2}` uses and the program changed",
    "replaced": "{1}, which `{2}` uses and the program replaced",
    "attribute": "attribute {0}",
    "language": "loopy's language {0}",
    "module": "module {0}",
    "__doc__": "docstring {0}",
    "__annotations__": "annotations {0}",
    "__module__": "name of the module {0}",
    "depends": "declared dependency {0}",
    "declared": _declared,
    "distribution": _distribution,
    "argument": _argument,
    "header": _header,
}
