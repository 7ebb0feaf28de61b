"""Inspection: what lies in the caches, why a look-up missed, what is damaged, and how to remove it."""
