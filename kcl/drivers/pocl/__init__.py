"""PoCL: entries are completed by a helper process, and programs are made ahead."""
