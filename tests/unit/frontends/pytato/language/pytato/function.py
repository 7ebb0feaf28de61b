"""Functions, which this language lacks."""


class FunctionDefinition:
    pass
