"""`kcl.prepare`: makes many kernels ready at once, in worker processes."""
