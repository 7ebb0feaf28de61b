"""History: what past processes did, kept on disk: counters and misses, uses of entries, late switches."""
