"""The remote: a server, bucket or directory from which a project fills its cache with packs that others have pushed.

A pack is a bundle with a signature. `kcl.remote.stores` has the kinds of remotes, `kcl.remote.seal` the signatures.
"""
