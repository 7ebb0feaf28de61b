"""The remote: a place that holds one pack for each driver, and warms its cache in one get.

A pack is a bundle with a signature. `kcl.remote.stores` has the places, `kcl.remote.seal` the signatures.
"""
