"""Use neither loopy nor pyopencl: a program that must not pay for kcl."""
