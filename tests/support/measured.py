"""Rows of tuning as a tuning stores them: with the digests of the code that they may serve."""

from kcl import handle
from kcl.choices.tuning import table as tables
from kcl.choices.tuning.space import describe
from kcl.choices.tuning.table import RankedChoice
from kcl.code import dtype_text
from kcl.generate.stage import CallValues, dtypes_of
from kcl.line import bindings_of


def measured(kernel, queue, row, arguments):
    """Return a row whose choices have the code that they have now, for arguments of these dtypes."""
    chooser, build = handle.chooser_of(kernel), bindings_of(queue).build
    sizes = dict(zip(chooser.sizes.texts, row.sizes, strict=True))
    served, best = row.best or (RankedChoice(row.choice, row.ratio, row.noise, ()),), []
    if describe(row.choice) == describe(chooser.default_at(sizes)):
        served = ()
    for one in served:
        codes = one.codes
        if not codes:
            try:
                generate = chooser.line_at(one.choice, sizes).generate
                code = generate.unstored(CallValues(arguments))[0]
                codes = (tables.code_digest(build, code, build.headers_digest(code.text)),)
            except Exception:
                codes = ("-",)  # it fails before it can be compared
        best.append(one._replace(codes=codes))
    asked = chooser.digest_default(sizes, chooser.default_at(sizes))
    return row._replace(
        best=tuple(best),
        variant=chooser.variant,
        codes=(asked,) if asked else (),
        dtypes={name: dtype_text(one) for name, one in dtypes_of(arguments).items()},
    )


def put(kernel, queue, *rows, **arguments):
    """Store rows for a kernel, and have its next call decide by them."""
    chooser = handle.chooser_of(kernel)
    table = chooser.table(queue)
    for one in rows:
        table.put(measured(kernel, queue, one, arguments))
    chooser.forget()
    return table
