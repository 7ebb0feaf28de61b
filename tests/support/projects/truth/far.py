"""Two modules away."""

REACHED = 12
LOCAL = 5


def constant():
    return LOCAL
