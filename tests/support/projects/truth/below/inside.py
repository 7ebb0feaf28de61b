def factor():
    return TRUTH_BELOW  # noqa: F821
