"""Choosers: each Kernel has one, which finds the Line (see `kcl.line`) of a call.

A chooser is a Line itself, or it has several lines and chooses by the sizes of the call or by a table of measurements:

    general()                         the line for any sizes, with the default choice
    use(queue, arguments, launch)     launches the line for these arguments, and returns what `launch(line)` returns
    bind(queue, arguments, bind)      the launch that `bind(line)` returns; it refuses arguments of other lines
    asked(holder, values)             the line for dtypes and sizes by name, and a function that returns lines of text
                                      which explain the choice
    last(device, arguments)           the digest of the code that a call tries first; raises one of `kcl.line.UNKNOWN`
                                      if there is none; only a chooser with several lines has this

It has the `name` and the `function` of the recipe, and the given `parameters`. `state` says what was chosen, or what will
be. `has_variants` is True if lines differ by sizes, which are no parameters. `space` is that of the recipe, or None.
"""
