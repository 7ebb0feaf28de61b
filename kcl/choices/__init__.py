"""Choices: each Kernel has a chooser, which names the line of a call: what makes and launches its code (`kcl.line`).

A chooser is a line itself, or has several and chooses by the sizes of the call, or by a table of what was measured:

    general()                         the line for any sizes, of the defaults
    use(queue, arguments, launch)     launches the line for these arguments, and returns what `launch(line)` returns
    bind(queue, arguments, bind)      the launch that `bind(line)` returns; it refuses arguments of other lines
    asked(holder, values)             the line for dtypes and for sizes by name, and a function that explains the choice:
                                      it returns lines of text
    last(device, arguments)           of several lines: the digest of the code that a call tries first; raises one of
                                      `kcl.line.UNKNOWN` if there is none

It has the `name` and the `function` of the recipe, and the `parameters` that were given. `state` says what was chosen, or
is to be chosen. Lines of a chooser that `has_variants` differ by sizes, which are no parameters. `space` is that of the
recipe, None if it has none.
"""
