"""The cache: keys, entries, stores, layers, and the one look-up that all stages share."""
