"""The display of values: HTML with escaped texts, and texts that fit the width of their output."""
