"""Drivers: what OpenCL drivers do differently."""
