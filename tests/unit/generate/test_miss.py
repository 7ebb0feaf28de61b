"""kcl.generate.miss: code from a recipe's result on a miss."""

from __future__ import annotations

import importlib

from kcl.generate import miss


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


def test_quiet():
    """Only loopy has disk caches to be kept off."""
    loopy = importlib.import_module("loopy")
    before, found = loopy.CACHING_ENABLED, []
    for front_end in ("opencl", "loopy"):
        with miss.quiet(front_end):
            found.append(loopy.CACHING_ENABLED)
    assert found == [before, False]
    assert loopy.CACHING_ENABLED is before


class TestAbort:
    CODE = """
        import json
        import numpy as np
        import pyopencl as cl
        import kcl
        from pytools.persistent_dict import NoSuchEntryError

        @kcl.kernel
        def scaled():
            import loopy as lp
            return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))

        context = cl.create_some_context(interactive=False)
        queue = cl.CommandQueue(context)
        try:
            event, (y,) = scaled()(queue, x=np.ones(3, dtype=np.float32))
            print(json.dumps(float(y[0])))
        except NoSuchEntryError as error:
            print(json.dumps(str(error)))
        """

    def test_a_miss(self, child):
        """`LOOPY_ABORT_ON_CACHE_MISS` has loopy's error raised where kcl would generate, unless caching is off."""

        def said(**variables):
            return child.json(self.CODE, PYOPENCL_CTX="portable", **variables)

        assert "run once without it" in said(LOOPY_ABORT_ON_CACHE_MISS="1")
        assert said(LOOPY_ABORT_ON_CACHE_MISS="1", LOOPY_NO_CACHE="1") == 2.0
        assert said() == 2.0
        assert said(LOOPY_ABORT_ON_CACHE_MISS="1") == 2.0
