"""Stores: get, put, delete and scan of bytes by address; one class per file.

A store does not interpret its bytes: `kcl.cache.entry` verifies every byte that comes back.
"""
