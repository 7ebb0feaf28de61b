"""Corners."""


def count(n):
    return len([i for i in range(n) if i % 2 == 0 and (i > 1 or n < 9)])
