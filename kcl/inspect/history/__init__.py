"""History: the statistics of past processes, kept on disk: counters and misses, uses of entries, late switches."""
