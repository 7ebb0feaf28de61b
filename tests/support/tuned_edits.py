"""A program that is tuned once, and what is edited afterwards.

An edit is a list of replacements in its files, with what follows for the row that was measured: "served" means that its
best choice runs on; "dropped" that it does not run, and that the run says so; "other" that the row was never meant for
the call, so that nothing is said.
"""

from typing import NamedTuple

DRIVER = '''\
import sys

import numpy as np
import pyopencl as cl

import mine

(found,) = [one for one in cl.get_platforms() if one.name == sys.argv[1]]
context = cl.Context(found.get_devices()[:1])
queue = cl.CommandQueue(context)


def show(kernel, x, **more):
    """Print what a kernel computes, and which choice it takes."""
    event, (y,) = kernel(queue, x=x, **more)
    print(y.dtype, y.tolist())
    print(kernel.explain(queue, x=x, **more).splitlines()[-1].strip(), file=sys.stderr)


kernel = mine.scaled()
show(kernel, np.arange(1000, dtype=np.float32))
'''
MINE = '''\
import os

import kcl
from helping import FACTOR, for_all, for_winner

HERE = os.path.dirname(os.path.abspath(__file__))
SPACE = kcl.space(turns=[400, 1, 2])
SIZES = {"n": "x.shape[0]"}
ADDED = 0


@kcl.kernel(sizes=SIZES, space=SPACE)
def scaled(mode="plain", turns=400, added=0):
    body, kind, options, heads = for_all("x[i]"), "float", [], ["given.h"]
    work_items, group = "n", 1
    if turns == 1:
        body = for_winner(body)
        pass  # the winner
    elif turns == 2:
        pass  # the second
    else:
        pass  # the default
    includes = "\\n".join(f'#include "{one}"' for one in heads)
    text = f"""{includes}
    kernel void scaled(global const {kind} *x, global {kind} *y, int n)
    {{
        int i = get_global_id(0);
        float waste = x[i];
        for (int k = 0; k < {turns}; ++k)
            waste = sin(waste);
        y[i] = waste > 4 ? 0 : {body};
    }}"""
    dtype = {"float": "float32", "double": "float64", "int": "int32"}[kind]
    arguments = [kcl.Array("x", dtype, "n"), kcl.Array("y", dtype, "n", "out"), kcl.Scalar("n", "int32")]
    return kcl.Source(text, entry="scaled", arguments=arguments, global_size=work_items, local_size=group,
                      build_options=options, include_dirs=[HERE])
'''
HELPING = """\
FACTOR = 2


def for_all(text):
    return f"TIMES(2, {text})"


def for_winner(text):
    return text
"""
GIVEN = """\
#include "deeper.h"
#ifdef WINNER
#define TIMES(a, b) (WINNER * (b))
#endif
"""
DEEPER = "#ifndef WINNER\n#define TIMES(a, b) ((a) * (b))\n#endif\n"
LOOPY = '''\
import kcl

SPACE = kcl.space(turns=[400, 1, 2])


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=SPACE)
def scaled(turns=400):
    import loopy as lp

    body, block = "2*x[i]", 4
    if turns == 1:
        pass  # the winner
    elif turns == 2:
        pass  # the second
    else:
        pass  # the default
    text = f"""
    <> waste = sum(k, x[i] * k) {{id=sum}}
    y[i] = if(waste < -1, 0, {body}) {{dep=sum}}
    """
    domains = ["{[i]: 0<=i<n}", f"{{[k]: 0<=k<{100 * turns}}}"]
    knl = lp.make_kernel(domains, text, name="scaled", lang_version=(2018, 2))
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")
'''
PROGRAMS = {
    "source": {
        "driver.py": DRIVER,
        "mine.py": MINE,
        "helping.py": HELPING,
        "given.h": GIVEN,
        "deeper.h": DEEPER,
    },
    "loopy": {"driver.py": DRIVER, "mine.py": LOOPY},
}

WINNER, SECOND, DEFAULT = (
    f"        pass  # the {one}\n" for one in ("winner", "second", "default")
)
X = "np.arange(1000, dtype=np.float32)"
SHOWN = f"show(kernel, {X})\n"
FEWER = (("POCL_MAX_PTHREAD_COUNT", "1"),)


class Edit(NamedTuple):
    """Replacements as (file, text, new text), variables of the run, and what follows; `of` names the files."""

    title: str
    replaced: tuple[tuple[str, str, str], ...] = ()
    row: str = "dropped"
    variables: tuple[tuple[str, str], ...] = ()
    of: str = "source"

    def texts(self) -> dict[str, str]:
        """Return all files as edited."""
        found = dict(PROGRAMS[self.of])
        for name, old, new in self.replaced:
            assert old in found.get(name, ""), f"{name} has no {old!r}"
            found[name] = found[name].replace(old, new) if old else new
        return found


def mine(title: str, *pairs: tuple[str, str], row: str = "dropped", of: str = "source") -> Edit:
    """Return an edit of the module of the recipe."""
    return Edit(title, tuple(("mine.py", old, new) for old, new in pairs), row, of=of)


def called(
    title: str, call: str, *pairs: tuple[str, str], row: str = "dropped", of: str = "source"
) -> Edit:
    """Return an edit of the call, and of the module of the recipe."""
    others = tuple(("mine.py", old, new) for old, new in pairs)
    return Edit(title, (("driver.py", SHOWN, f"{call}\n"), *others), row, of=of)


def then(name: str, line: str) -> tuple[str, str]:
    """Return the pair that puts a line into a branch."""
    branch = {"winner": WINNER, "second": SECOND, "default": DEFAULT}[name]
    return branch, f"{branch}        {line}\n"


THIRD = then("winner", "body = '3*x[i]'")
IN_OTHERS = (then("winner", "body += f' + {added}'"), then("second", "body += f' + {added}'"))
EDITS = [
    Edit("nothing", (), "served"),
    mine("a comment", (WINNER, f"        # more\n{WINNER}"), row="served"),
    mine("the branch of the winner", then("winner", "body = '3*x[i]'")),
    mine("the branch of the second", then("second", "body = '3*x[i]'"), row="served"),
    mine("the branch of the default", then("default", "body = '3*x[i]'")),
    mine("all branches", ('for_all("x[i]")', 'for_all("x[i] + 1")')),
    Edit("a helper of all", (("helping.py", "TIMES(2, {text})", "TIMES(3, {text})"),)),
    Edit(
        "a header", (("given.h", "#endif", "#endif\n#undef TIMES\n#define TIMES(a, b) (5 * (b))"),)
    ),
    Edit("a header of a header", (("deeper.h", "((a) * (b))", "((a) * (b) + 1)"),)),
    Edit("a comment in a header", (("given.h", "#ifdef", "// more\n#ifdef"),)),
    mine("the launch size of the winner", then("winner", 'work_items = "n // 2"')),
    mine("the launch size of the default", then("default", 'work_items = "n // 1"')),
    mine("the group of the winner", then("winner", "group = 4")),
    mine("a build option of the winner", then("winner", 'options = ["-DWINNER=3"]')),
    mine("a build option of all", ("[], [", '["-DWINNER=3"], [')),
    mine("a declared dtype", ('"float", [], [', '"double", [], ['), row="any"),
    mine("a declared dtype of the winner", then("winner", 'kind = "int"')),
    mine("the winner raises", then("winner", "raise ValueError('not now')")),
    mine("the winner does not build", then("winner", "body = 'none'")),
    mine("the winner skips itself", then("winner", "raise kcl.Skip('not now')")),
    mine("the winner is out of the space", ("[400, 1, 2]", "[400, 2, 3]")),
    mine("all measured are out of the space", ("[400, 1, 2]", "[400, 3]")),
    mine("another order in the space", ("[400, 1, 2]", "[2, 1, 400]"), row="served"),
    mine(
        "a where refuses the winner",
        ("[400, 1, 2])", "[400, 1, 2]).where(lambda turns: turns != 1)"),
        row="any",
    ),
    mine("another default", ("turns=400, added", "turns=2, added")),
    mine("a declared version", ("space=SPACE)", 'space=SPACE, version="2")')),
    mine(
        "pure now, and the winner is another",
        ("space=SPACE)", 'space=SPACE, pure=True, version="1")'),
        then("winner", "body = '3*x[i]'"),
    ),
    mine("the expression of a size", ('"x.shape[0]"', '"x.shape[0] // 1"')),
    mine("another size for the space", ('"x.shape[0]"', '"x.shape[0]", "more": "x.size"')),
    mine(
        "the recipe asks for the size",
        ("def scaled(", "def scaled(n, "),
        then("winner", "body += f' + {n.multiple}'"),
    ),
    called("a parameter that acts in the others", f"show(mine.scaled(added=1), {X})", *IN_OTHERS),
    called("a variant with equal code", f"show(mine.scaled('other'), {X})", row="any"),
    called("a choice by hand", f"show(mine.scaled(turns=2), {X})", row="other"),
    called("another size nearby", f"show(kernel, {X}[:700])", row="served"),
    called("a size nearby, and another winner", f"show(kernel, {X}[:700])", THIRD),
    called("a size far away", f"show(kernel, {X}[:40])", row="other"),
    called("a named size", f"show(kernel, {X}, n=1000)", row="served"),
    Edit(
        "after another recipe of the same name",
        (
            ("driver.py", SHOWN, f"import theirs\nshow(theirs.scaled(), {X})\n{SHOWN}"),
            ("theirs.py", "", MINE.replace(*THIRD)),
        ),
        "any",
    ),
    Edit(
        "the recipe moves to another module",
        (("driver.py", "import mine\n", "import moved as mine\n"), ("moved.py", "", MINE)),
        "any",
    ),
    Edit("fewer threads of PoCL", (), "other", FEWER),
    Edit("fewer threads, and another winner", (("mine.py", *THIRD),), "other", FEWER),
    Edit("nothing with loopy", (), "served", of="loopy"),
    mine("the branch of the winner with loopy", THIRD, of="loopy"),
    mine("the branch of the default with loopy", then("default", "body = '3*x[i]'"), of="loopy"),
    mine("the unrolling of the winner", then("winner", "block = 8"), of="loopy"),
    called("another float", f"show(kernel, {X}.astype(np.float64) / 3)", of="loopy"),
    called("an integer", f"show(kernel, {X}.astype(np.int64) + (1 << 40))", of="loopy"),
    called("another size with loopy", f"show(kernel, {X}[:600])", row="served", of="loopy"),
    called("a named size with loopy", f"show(kernel, {X}, n=1000)", row="served", of="loopy"),
    called("a size by numpy", f"show(kernel, {X}, n=np.int64(1000))", row="any", of="loopy"),
    called(
        "the output is given",
        f"show(kernel, {X}, y=np.empty(1000, np.float32))",
        row="served",
        of="loopy",
    ),
]
