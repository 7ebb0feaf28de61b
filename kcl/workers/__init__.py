"""Many kernels made ready at once: the user's call, the worker processes, and their knowledge of the program."""
