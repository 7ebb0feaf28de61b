"""Inspection: show the contents of the caches, explain misses, find damaged entries, and remove entries."""
