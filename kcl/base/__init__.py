"""What every room stands on: the state of the process, value classes, settings, spans of time, how values are shown."""
