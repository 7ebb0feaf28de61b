"""Many kernels made ready at once: what the user calls, the worker processes, and what they know of the program."""
