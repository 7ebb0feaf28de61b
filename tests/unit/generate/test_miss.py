"""kcl.generate.miss: code from a recipe's result on a miss."""

from __future__ import annotations


class TestOnce:
    def test_recipe_runs_once(self, child):
        """A recipe of which nobody can tell that it is loopy's runs once a miss, and sees each parameter once."""
        runs = child.json(
            """
            import json
            import numpy as np
            import pyopencl as cl
            import kcl

            ran = []

            @kcl.kernel(pure=True, version='1')
            def scaled(factors):
                import importlib

                ran.append(1)
                lp = importlib.import_module("loopy")
                return lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {next(factors)}*x[i]", lang_version=(2018, 2))

            context = cl.create_some_context(interactive=False)
            queue = cl.CommandQueue(context)
            event, (y,) = scaled(iter([2]))(queue, x=np.ones(3, dtype=np.float32))
            print(json.dumps([len(ran), float(y[0])]))
            """,
            PYOPENCL_CTX="portable",
        )
        assert runs == [1, 2.0]
