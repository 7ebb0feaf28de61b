"""The calls that were carried out, beside the packages: kcl would take a change of a list in them for a patch."""

calls = []
