"""loopy itself, for tests that look into its objects: a module that imports it by a statement may get kcl's face."""

import importlib

loopy = importlib.import_module("loopy")
