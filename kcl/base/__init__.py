"""The base of all packages: the state of the process, value classes, settings, spans of time, display of values."""
