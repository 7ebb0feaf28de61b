"""Integrations: programs that were not written for kcl."""
