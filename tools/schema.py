"""What `--json` prints, command by command, for tools/write_reference.py; a test compares it with the commands.

A type is one of JSON's (`string`, `number`, `integer`, `boolean`, `object`), the name of another table of the same
command in angles, `list of` a type, or a type `or null`. An `object` has names of its own, which the words explain.
"""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """A member of an object; one that is not `always` there is there where it was asked for."""

    name: str
    type: str
    words: str
    always: bool = True


class Printed(NamedTuple):
    """What a command prints: its type, and the members of its objects, those of the outermost under an empty name."""

    type: str
    tables: dict[str, tuple[Field, ...]]
    wish: str = ""
    """With which options it is printed, where that is not `--json` alone."""
    extends: str = ""
    """The command whose members it has too; the reference lists these there."""


_KERNEL = Field("kernel", "string", "the name of the recipe")
_LAYER = Field("layer", "string", "`generator`, `binary` or `tuning`")
_KEY = Field("key", "string", "the digest of its key, in full")
_DRIVER = Field("driver", "string", "the file of the program, without its folder")
_ENTRY = (
    Field("platform", "string", "of a program; empty for generated code, which serves all"),
    Field("device", "string", "the same"),
    Field(
        "here",
        "boolean",
        "whether the driver of the platform is on this machine, as far as that is known",
    ),
    Field(
        "recipe",
        "string",
        "file, without its folder, and line of the recipe; empty where it is not known",
    ),
    Field(
        "parameters",
        "object",
        "the starts of the texts of the recipe's parameters; of a program as its code has them",
    ),
    Field(
        "dtypes",
        "object",
        "of the arguments, as numpy writes them; of a program as its code has them",
    ),
    Field("bytes", "integer", "its size"),
    Field("built", "number", "when it was made"),
    Field("build_seconds", "number", "what making it took"),
    Field("last_used", "number or null", "when it was last a hit; null where it never was"),
    Field("uses", "integer", "how often it was a hit in processes that have ended"),
    Field(
        "partners",
        "list of string",
        "digests: of generated code those of its programs, of a program those of its code",
    ),
)
_COUNTS = (
    Field("hits", "integer", "look-ups that found their entry"),
    Field("misses", "integer", "look-ups that did not"),
    Field("defaults", "integer", "calls of recipes with a space that take their defaults"),
    Field("bypassed", "integer", "look-ups that could not be, or were switched off"),
    Field("errors", "integer", "look-ups in which something failed"),
    Field("seconds", "number", "what all of them took, with the work of those that were no hits"),
    Field("saved", "number", "what making the entries took, less what loading them took"),
    Field("bytes", "integer", "of the entries that were read or published"),
)


def _object(
    *fields: Field,
    is_list: bool = False,
    wish: str = "",
    extends: str = "",
    **tables: tuple[Field, ...],
) -> Printed:
    """Describe an object with these members, or a list of such; the tables are those of its members."""
    return Printed("list of <>" if is_list else "<>", {"": fields, **tables}, wish, extends)


_LEFT = _object(
    Field("programs", "integer", "how many wait to be completed on this machine"),
    Field("elsewhere", "object", "how many wait for a device that this machine lacks, by its name"),
    Field(
        "words",
        "list of string",
        "the same as sentences, with what completes them; none where nothing is left",
    ),
)

SCHEMA: dict[str, tuple[Printed, ...]] = {
    "status": (
        _object(
            Field(
                "layers", "list of <layer>", "the layers of kcl, then the foreign caches by name"
            ),
            Field(
                "max_size",
                "integer",
                "the bound on the bytes of kcl's entries, 0 where there is none",
            ),
            Field("pins", "list of string", "what `kcl pin` holds: names, patterns, digests"),
            Field("sites", "list of <site>", "the site directories"),
            Field("remote", "<remote>", "the remote"),
            Field("pending", "<pending>", "the programs that are still being completed"),
            Field(
                "late",
                "list of <late>",
                "the switches of the last week that came too late, newest first",
            ),
            Field("notes", "list of string", "settings that were not understood"),
            layer=(
                Field("layer", "string", "the name that commands take"),
                Field(
                    "kind",
                    "string",
                    "`kcl`, `below` (the caches of OpenCL and loopy) or `neighbour`",
                ),
                Field("title", "string", "the name for a person"),
                Field("on", "boolean", "whether it is on"),
                Field("reason", "string", "why not; with `on` true: for which recipes it is off"),
                Field("directory", "string", "where it lies; empty where it has no place"),
                Field("why", "string", "what decided that: a variable, a setting, or the default"),
                Field(
                    "here",
                    "boolean",
                    "whether its owner or driver is on this machine, as far as that is known",
                ),
                Field(
                    "entries",
                    "integer",
                    "how many there are, as `kcl ls` lists them; 0 where kcl's layer is off",
                ),
                Field("bytes", "integer", "the size of its files"),
                Field("oldest", "number", "when its oldest file was written; 0 without files"),
                Field("newest", "number", "when its newest file was written; 0 without files"),
                Field(
                    "version", "string", "the installed version of its owner, as far as it is known"
                ),
                Field(
                    "hit_rate",
                    "number or null",
                    "hits by look-ups over the last runs; null where there were none",
                ),
                Field(
                    "saved",
                    "number or null",
                    "seconds that its hits saved over the last runs; null of foreign",
                ),
                Field("fault", "string", "what is wrong with it; empty where nothing is"),
            ),
            site=(
                Field("directory", "string", "where it lies"),
                Field("entries", "integer", "how many entries it has for this kcl"),
                Field("bytes", "integer", "their size"),
                Field("fault", "string", "why it is not used; empty where it is"),
            ),
            remote=(
                Field(
                    "address", "string", "where it is, without a password; empty without a remote"
                ),
                Field(
                    "entries", "integer", "how many entries the packs of the last project brought"
                ),
                Field("bytes", "integer", "their size as they travelled"),
                Field("seconds", "number", "how long that took"),
                Field("refused", "list of string", "why its packs did not come or go, if so"),
                Field("words", "list of string", "the same as sentences"),
            ),
            pending=(
                Field("programs", "integer", "how many wait to be completed"),
                Field(
                    "since", "number", "when the first of them was asked for; 0 where none waits"
                ),
                Field("helper", "boolean", "whether a helper process is at it"),
                Field(
                    "elsewhere",
                    "object",
                    "how many wait for a device that this machine lacks, by its name",
                ),
                Field("words", "list of string", "the same as sentences, with what completes them"),
            ),
            late=(
                Field("time", "number", "when that was found last"),
                _DRIVER,
                Field(
                    "words",
                    "string",
                    "the variable, how it changed, and the cache that did not see it",
                ),
            ),
        ),
    ),
    "ls": (_object(_KERNEL, _LAYER, *_ENTRY, _KEY, is_list=True),),
    "show": (
        _object(
            _KERNEL,
            _LAYER,
            _KEY,
            Field("file", "string", "the file in which it lies"),
            Field(
                "parts", "list of list of string", "the parts of its key, each a name and a value"
            ),
            Field(
                "metadata",
                "object",
                "what kcl keeps beside it; may change with the format of entries",
            ),
            Field("sizes", "object", "the bytes of each part by its name"),
            *_ENTRY,
            Field("source", "string", "the OpenCL C", always=False),
            Field("log", "string", "what the compiler said", always=False),
            Field("invoker", "string", "the Python code that launches it", always=False),
            Field("asm", "string", "the native code", always=False),
            is_list=True,
            extends="ls",
        ),
    ),
    "explain": (
        _object(
            Field("time", "number", "when it was looked up"),
            _DRIVER,
            Field("process", "integer", "its process id"),
            _LAYER,
            _KERNEL,
            Field("outcome", "string", "`miss`, `bypass` or `error`"),
            Field("times", "integer", "how often the same was so in that run"),
            Field("reason", "string", "the reason of the event; of a bypass with its cure"),
            Field("key", "string or null", "the digest of the key; null where it was not known"),
            Field(
                "nearest",
                "string or null",
                "the digest of the nearest earlier entry, if there is one",
            ),
            Field("changes", "list of <change>", "what differs from it; of a bypass nothing"),
            Field(
                "words", "list of string", "its explanation as lines, as `kcl explain` prints that"
            ),
            Field(
                "parameters",
                "object",
                "the parameters of the recipe as text, by name; empty where they are not known",
            ),
            Field(
                "run",
                "string",
                "the name of the process in the journal: two processes may have one id",
            ),
            is_list=True,
            change=(
                Field("part", "string", "the name of the part of the key"),
                Field("sentence", "string", "how it differs, in words"),
                Field(
                    "diff",
                    "list of string",
                    "the first lines that differ, as `diff -u` writes them",
                ),
                Field(
                    "place",
                    "string",
                    "file and line of a call; empty for a part of the key, and for a call that is gone",
                ),
            ),
        ),
    ),
    "report": (
        _object(
            _DRIVER,
            Field("processes", "list of integer", "the ids of its processes"),
            Field("began", "number", "when the first look-up began"),
            Field("ended", "number", "when the last process ended"),
            Field("layers", "list of <layer>", "the layers of kcl"),
            Field(
                "kernels", "list of <kernel>", "the kernels, each with its parameters and dtypes"
            ),
            Field("remarks", "list of string", "what else there is to know"),
            layer=(
                _LAYER,
                *_COUNTS,
                Field("files", "string", "where its files lie, or why there are none"),
            ),
            kernel=(
                _KERNEL,
                Field(
                    "parameters",
                    "object",
                    "the parameters of the recipe as text, by name, as far as known",
                ),
                Field("dtypes", "object", "the dtypes of the arguments, by name, as far as known"),
                Field("seconds", "number", "what its look-ups took"),
                Field("saved", "number", "what its hits saved"),
                Field(
                    "lookups",
                    "list of <lookup>",
                    "its look-ups; those of one entry and one outcome together",
                ),
            ),
            lookup=(
                _LAYER,
                Field("outcome", "string", "`hit`, `miss`, `bypass` or `error`"),
                Field("reason", "string", "the reason of the event"),
                Field("times", "integer", "how often"),
                Field(
                    "time",
                    "number or null",
                    "when the last one ended; null where that is not known",
                ),
                Field("seconds", "number", "what all of them took"),
                Field("saved", "number", "what the hits saved"),
                Field(
                    "key",
                    "string or null",
                    "the digest of the entry's key; null where it is not known",
                ),
            ),
        ),
    ),
    "verify": (
        _object(
            Field("checked", "object", "how many entries were checked, by layer"),
            Field("whole", "boolean", "whether every byte was read: false with `--headers`"),
            Field(
                "damaged",
                "list of <damaged>",
                "the entries, and PoCL's files, that are not what was written",
            ),
            damaged=(
                _LAYER,
                Field("place", "string", "the file, or the address in its store"),
                Field("reason", "string", "what is wrong"),
            ),
        ),
    ),
    "stats": (
        _object(
            Field("layer", "string", "`generator`, `binary` or `tuning`", always=False),
            Field("kernel", "string", "the name of the recipe", always=False),
            Field("day", "string", "as 2026-03-31", always=False),
            *_COUNTS,
            is_list=True,
        ),
    ),
    "env": (
        _object(
            Field("variable", "string", "its name"),
            Field(
                "value",
                "string or null",
                "its value, or that of the settings file; null without one",
            ),
            Field(
                "read_by",
                "list of string",
                "`kcl` and names of caches; empty where nobody reads it",
            ),
            Field("effect", "string", "what it does now, or what it is for"),
            is_list=True,
        ),
        _object(
            Field("set", "object", "what to set: values by variables"),
            Field("unset", "list of string", "the variables to remove"),
            wish="a wish",
        ),
    ),
    "flush": (_LEFT,),
    "wait": (_LEFT,),
    "gc": (
        _object(
            Field("before", "integer", "the bytes of the entries before"),
            Field("max_size", "integer", "the bound; 0 for none"),
            Field("dry_run", "boolean", "whether nothing was removed"),
            Field("entries", "integer", "how many entries went, or would go"),
            Field("bytes", "integer", "their size, with the rows that lead to them"),
            Field("refusals", "list of <refusal>", "what was left alone"),
            refusal=(
                Field("cache", "string", "the layer"),
                Field("place", "string", "where"),
                Field("reason", "string", "why"),
            ),
        ),
    ),
    "pin": (Printed("list of string", {}),),
    "doctor": (
        _object(
            Field("check", "string", "what was looked at"),
            Field("severity", "string", "`ok`, `note`, `warning` or `problem`"),
            Field("words", "string", "what was found"),
            Field("cure", "string", "what to do about it; empty where there is nothing to do"),
            is_list=True,
        ),
    ),
}
