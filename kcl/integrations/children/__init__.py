"""The folder that `kcl run` puts at the head of the PYTHONPATH of its children, for `sitecustomize`."""
