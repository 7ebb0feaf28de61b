"""kcl.inspect.history.records: what a process has to say when it ends."""

from kcl.inspect.history import records


def test_merge():
    """Counters of one name are added; what is given stays as it is."""
    row = dict.fromkeys(records.COUNTERS, 1.0)
    found = records.merge([{"binary": row}, {"binary": row, "generator": row}])
    assert found["binary"]["hits"] == 2.0
    assert found["generator"] == row == dict.fromkeys(records.COUNTERS, 1.0)
