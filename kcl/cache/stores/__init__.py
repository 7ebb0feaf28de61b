"""Stores: get, put, delete and scan of bytes by address; one class per file.

A store knows nothing of what it holds: `kcl.cache.entry` verifies every byte that comes back.
"""
