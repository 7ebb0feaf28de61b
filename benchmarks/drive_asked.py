"""Ask COUNT units of loopy what only loopy can answer, as programs do that look into their kernels.

python drive_asked.py COUNT KIND
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import kernels
import loopy as lp


def key(unit: Any) -> Any:
    """Use a unit as the key of a dictionary."""
    return {unit: 1}[unit]


def pickled(unit: Any) -> Any:
    """Send a unit to another process, and have it back."""
    return pickle.loads(pickle.dumps(unit)).entrypoints == unit.entrypoints


def arguments(unit: Any) -> Any:
    """Look at the arguments of a unit."""
    return [argument.name for argument in unit.default_entrypoint.args]


def operations(unit: Any) -> Any:
    """Count the operations of a unit."""
    return len(lp.get_op_map(unit, subgroup_size=1))


# The units are launched behind these questions.
QUESTIONS = {
    "dictionary keys": key,
    "pickles": pickled,
    "arguments": arguments,
    "operations": operations,
}


def printed(number: int) -> str:
    """Return the text of a small unit."""
    return str(
        lp.make_kernel("{[i]: 0<=i<n}", f"out[i] = {number + 2}*a[i]", lang_version=(2018, 2))
    )


def in_c(number: int) -> str:
    """Return the C code of a small unit."""
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        f"out[i] = {number + 2}*a[i]",
        target=lp.CTarget(),
        lang_version=(2018, 2),
    )
    code: str = lp.generate_code_v2(lp.add_dtypes(unit, {"a": "float32"})).device_code()
    return code


TEXTS = {"printed": printed, "C target": in_c}


def main() -> None:
    count, kind = int(sys.argv[1]), sys.argv[2]
    if kind in TEXTS:
        print([TEXTS[kind](number) for number in range(count)])
        return
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    given = kernels.Arguments(queue)
    answers = []
    for number in range(count):
        recipe, variant = kernels.case(number)
        unit = recipe(variant)
        answers.append(QUESTIONS[kind](unit))
        unit.executor(context)(queue, **given.of(number))
    print(answers, given.checksum())


if __name__ == "__main__":
    main()
