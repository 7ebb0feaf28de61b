"""What PyInstaller must collect for kcl: modules that kcl imports by name, and the packages that its keys cover."""

from importlib.util import find_spec

from PyInstaller.utils.hooks import collect_submodules, copy_metadata

from kcl.generate import GENERATORS

hiddenimports = collect_submodules("kcl")
excludedimports = ["PyInstaller", "pytest"]
module_collection_mode = dict.fromkeys(("kcl", *GENERATORS), "pyz+py")
datas = [
    pair for name in GENERATORS if find_spec(name) for pair in copy_metadata(name, recursive=True)
]
