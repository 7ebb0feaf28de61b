"""PoCL: entries are completed by a helper process."""
