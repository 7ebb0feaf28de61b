# Everything a fresh machine needs is Python with venv, and make; a C compiler too where PoCL does not know the CPU.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ON_POCL = $(BIN)/python tools/with_pocl.py

.PHONY: demo test test-slow test-again test-all pages truth faults soak compat compat-libraries compat-loopy compat-pocl lint docs docs-look transcripts bench bench-check bench-report clean

demo: $(VENV)/.demo
	$(ON_POCL) $(BIN)/python examples/demo.py

test: $(VENV)/.dev
	$(ON_POCL) sh tools/with_intel.sh $(BIN)/python -m pytest -m "not slow" -n auto --maxprocesses 4 --dist loadfile \
		--no-loadscope-reorder --max-worker-restart 0

# The tests that `make test` leaves out. KCL_SLOW_SECONDS=450 takes a sample, by a seed that is printed; KCL_SLOW_SEED
# gives it.
test-slow: $(VENV)/.dev
	$(ON_POCL) sh tools/with_intel.sh $(BIN)/python -m pytest -m slow -n auto --maxprocesses 4 --dist loadgroup \
		--no-loadscope-reorder --max-worker-restart 0

# The tests that failed last, each alone: what passes now is named as FLAKY.
test-again: $(VENV)/.dev
	$(ON_POCL) sh tools/with_intel.sh $(BIN)/python tools/again.py

test-all:
	sh tools/test_all.sh

# The recipes of the pages about remotes, sites, ranks, CI and containers, twice, from empty, with a directory, Redis and S3.
# It names what it leaves out: what needs docker, or a runner of GitHub or GitLab.
pages: $(VENV)/.dev
	$(ON_POCL) sh tools/with_intel.sh $(BIN)/python -m pytest -rs tests/behaviour/test_pages.py

# Noises against processes without a cache, made-up calls of 200 kernels against
# loopy's executor, ten storms of processes with threads, a crowd of 64 processes with 16 threads, 64 readers and writers
# beside eviction, chains of transformations, families of programs: minutes.
truth: $(VENV)/.dev
	$(ON_POCL) sh tools/with_intel.sh $(BIN)/python -m pytest \
		tests/truth/test_noises.py tests/truth/test_sizes.py
	KCL_TRUTH_CALLS=$${KCL_TRUTH_CALLS:-200} $(ON_POCL) sh tools/with_intel.sh $(BIN)/python -m pytest \
		tests/truth/test_calls.py
	KCL_STORMS=$${KCL_STORMS:-10} $(ON_POCL) sh tools/with_intel.sh $(BIN)/python -m pytest tests/unit/cache/test_lead.py -k storm
	KCL_CROWD_PROCESSES=$${KCL_CROWD_PROCESSES:-64} KCL_CROWD_THREADS=$${KCL_CROWD_THREADS:-16} \
		KCL_CROWD_SECONDS=$${KCL_CROWD_SECONDS:-60} $(ON_POCL) sh tools/with_intel.sh $(BIN)/python -m pytest \
		tests/unit/cache/test_lead.py tests/unit/inspect/test_space.py -k "ways or beside"
	KCL_TRUTH_CHAINS=$${KCL_TRUTH_CHAINS:-200} $(ON_POCL) sh tools/with_intel.sh $(BIN)/python -m pytest \
		tests/truth/test_chains.py tests/truth/families

# Every row of the matrix of faults with its full number: hours. It goes on where it stopped, prints its seeds, and ends by
# writing doc/explanation/reliability.md. FAULTS="--seconds 60" gives each row a minute, FAULTS="--baseline" runs without kcl.
faults: $(VENV)/.dev
	$(ON_POCL) sh tools/with_intel.sh $(BIN)/python tools/faults.py $(FAULTS)
	$(BIN)/python tools/faults.py --page

# One cache directory under drivers, threads, kills, faults, gc and purge at once. KCL_SOAK_MINUTES says for how long, 30
# by default; the outcome goes to build/soak.json, whose format tools/soak.py describes.
soak: $(VENV)/.dev
	$(ON_POCL) sh tools/with_intel.sh $(BIN)/python tools/soak.py

# The suites and examples of pyopencl, loopy and pytools as they are, without kcl and with it: half an hour. It writes
# its parts of doc/reference/compatibility.md and doc/design/made-units.md. COMPAT="--suite loopy" for a quick look.
compat: $(VENV)/.dev
	$(ON_POCL) $(BIN)/python tools/compat_unchanged.py $(COMPAT)

# Programs of public OpenCL libraries, without kcl and with it, in an environment of their own.
compat-libraries: $(VENV)-libraries/.done
	$(VENV)-libraries/bin/python tools/with_pocl.py $(VENV)-libraries/bin/python tools/compat_libraries.py --page

# The PoCL of Debian 12, 13 and sid, each in a root of its own below build/roots: needs root and debootstrap, else it says
# so and ends with status 2. It takes an hour and 5 GB. COMPAT="--root debian-13" takes one root, "--folder DIRECTORY" another place.
compat-pocl: $(VENV)/.dev
	$(BIN)/python tools/compat_pocl.py $(COMPAT)

# The loopys that people have: the wheel, a wheel with an edited line, an editable install, a checkout, a zip, and those of
# the interpreters in LOOPY_PYTHONS=NAME=PATH,... COMPAT="--loopy editable --part program" takes one and a part of it.
compat-loopy: $(VENV)/.dev
	$(ON_POCL) $(BIN)/python tools/compat_loopy.py $(COMPAT)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -W --keep-going -b html doc doc/_build/html

# No page scrolls sideways on a telephone, a tablet or a laptop: a headless Chromium looks, if there is one.
docs-look: docs
	$(BIN)/python tools/docs_look.py

# What the commands in the pages print, written into the pages.
transcripts: $(VENV)/.dev
	KCL_WRITE_TRANSCRIPTS=1 $(ON_POCL) $(BIN)/python -m pytest -q tests/behaviour/test_documentation.py -k execute

bench: $(VENV)/.dev
	$(ON_POCL) $(BIN)/python benchmarks/run.py

# Which goals the last `make bench` reached; status 1 if one falls short.
bench-check: $(VENV)/.dev
	$(BIN)/python benchmarks/check.py

# The pictures of doc/explanation/performance.md, from the last `make bench`.
bench-report: $(VENV)/.dev
	$(BIN)/python benchmarks/report.py

clean:
	rm -rf $(VENV) .venv-* build doc/_build

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)-libraries/.done: setup.py
	$(PYTHON) -m venv $(VENV)-libraries
	$(VENV)-libraries/bin/python -m pip install --quiet --editable ".[libraries]"
	touch $@

$(VENV)/.demo: setup.py | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[pocl]"
	touch $@

$(VENV)/.dev: setup.py | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(VENV)/.demo $@
