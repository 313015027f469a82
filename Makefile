# make bench         the main job: check and time kernels here (on the GPU if there is one)
# make test          all that a change can break, in a few minutes on two cores; make lint: style and types
# make test-all      every test that needs no GPU, on all cores: before an issue is called resolved
# make gpu-test      the tests that use a GPU, where a test that finds none fails
# make test-wall     the tests that assert about real time, on the CPU and on a GPU: where nothing else runs
# make test-stand-in PyCUDA's own code path on a libcuda whose device is the CPU (needs the CUDA headers)
# make mutants       which small faults in the kernels would the check miss? (a sample; half an hour on two cores)
# make tables        writes the generated parts of README.md, bench/METHOD.md and docs/
# make report        build/report.html, build/studies.html and build/history.html of the H200 results, and the pictures
# make docs          the site of the documentation, in build/site
# Each sets up its environment in $(VENV) first, once, and says how long that takes.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# On a machine with a GPU the environment has the GPU libraries of the toolkit's CUDA version. Where nvcc is not on PATH,
# `cudalab toolkit` takes that of CUDA_HOME, or wheels of the driver's version, and builds PyCUDA with it.
DRIVER := $(shell $(PYTHON) -I cudalab/device/toolkit.py)
CUDA := $(firstword $(DRIVER))
EXTRAS := torch report inspect $(if $(CUDA),cuda$(CUDA))
READY = $(VENV)/.ready$(CUDA)
TOOLS = $(VENV)/.tools$(CUDA)

bench: $(READY)
	mkdir -p build
	$(BIN)/cudalab bench gelu add2d plus_one --size small,large -o build/results.json

# What `make test` leaves to the other targets; setup.cfg says what the marks mean.
LATER = sweep or wall or torch_compile or studies or nvcc or browser or network or tutorial or gpu
PYTEST = $(BIN)/python -m pytest
CORES := $(shell nproc)

# Files that may have tests with the mark `process`: to collect the others would take longer than many of these tests.
PROCESS = $(shell grep -rlE 'mark\.process|\bworkers\b' tests --include='test_*.py')

test: $(TOOLS)
	$(PYTEST) -n 2 --dist worksteal -m "not (process or $(LATER))"
	$(PYTEST) -n 2 --dist loadgroup -m "process and not ($(LATER))" $(PROCESS)

# Where there are many cores, tests that start processes run beside one another too, on fewer workers. A GPU that is
# there is not used.
test-all: export CUDALAB_FUZZ_TIMES = 1
test-all: export CUDA_VISIBLE_DEVICES =
test-all: export JAX_PLATFORMS = cpu
test-all: $(VENV)/.docs $(TOOLS)
	$(PYTEST) -n $(CORES) --dist worksteal -m "not (process or wall or gpu)"
	$(PYTEST) -n $(shell expr \( $(CORES) \* 3 + 3 \) / 4) --dist loadgroup -m "process and not (wall or gpu)"
	$(MAKE) test-stand-in STAND_IN="not wall" STAND_IN_WORKERS=$(CORES)

# A GPU's memory holds the workers of a few test processes.
gpu-test: $(TOOLS)
	CUDALAB_REQUIRE=cuda $(PYTEST) -n 12 --dist worksteal -m "gpu and not (sweep or wall)"

test-wall: $(TOOLS)
	$(PYTEST) -m wall

set-up: $(VENV)/.docs $(TOOLS)

test-tutorial: $(TOOLS)
	$(PYTEST) -m tutorial tests/docs

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

mutants: $(TOOLS)
	$(BIN)/python bench/mutants.py

tables: $(READY)
	$(BIN)/python bench/readme_tables.py
	$(BIN)/python bench/first_history.py
	$(BIN)/python -m cudalab.results.schema docs/results-file.md
	$(BIN)/python -m cudalab.spec.field_table docs/kernel.md

H200 = bench/results/h200
RUNS = $(foreach k,gelu add2d plus_one softmax matmul,$(H200)/$k.json) $(H200)/checks/gelu.json
GELU = --kernel gelu
report: $(TOOLS)
	mkdir -p build
	$(BIN)/cudalab report $(RUNS) -o build/report.html
	$(BIN)/cudalab report $(H200)/studies/*.json -o build/studies.html
	$(BIN)/python bench/first_history.py --page build/history.html
	$(BIN)/cudalab report $(RUNS) $(GELU) --dtype float32 --size xlarge -o $(H200)/gelu_speedup.svg
	$(BIN)/cudalab report $(RUNS) $(GELU) --dtype float32 --chart bandwidth -o $(H200)/gelu_bandwidth.svg
	$(BIN)/cudalab report $(RUNS) $(GELU) --dtype bfloat16 --chart accuracy -o $(H200)/gelu_accuracy.svg
	$(BIN)/cudalab report $(RUNS) $(GELU) --dtype bfloat16 --chart error -o $(H200)/gelu_error.svg
	$(BIN)/cudalab report $(RUNS) --kernel matmul --chart roofline -o $(H200)/matmul_roofline.svg
	$(BIN)/python bench/terminal_svg.py

# The variable keeps the theme from advertising its successor.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.docs: $(READY)
	$(PIP) -e '.[docs]'
	touch $@

# Each extra has a line before and after it, since pip is silent for minutes. `cudalab` is installed by the first stage:
# the others add what its extras ask for.
SAYS_torch = PyTorch (200 MB to download; 3 GB where it comes with its CUDA libraries)
SAYS_cuda12 = PyCUDA (compiled here), CuPy, PyTorch (3 GB to download)
SAYS_cuda13 = $(SAYS_cuda12)
SAYS_report = what draws plots and pages
SAYS_inspect = nvdisasm, for cudalab inspect (5 MB to download)
SAYS_test = pytest and what the tests need
SAYS_dev = linters, the type checker and what builds a wheel
# Most modules of the packages are never imported: Python compiles those that are, then.
PIP = $(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -c constraints.txt
STAGE = stage() { echo "  $$1 ..."; begun=$$(date +%s); shift; "$$@" || exit 1; \
	echo "    $$(( $$(date +%s) - begun )) s"; }
EXTRA = $(foreach extra,$(1),&& stage "$(SAYS_$(extra))" $(PIP) 'cudalab[$(extra)]')

TOOLKIT = $(if $(filter toolkit,$(DRIVER)),&& { $(BIN)/cudalab toolkit || \
	{ echo "To go on without the GPU: make $(MAKECMDGOALS) DRIVER="; exit 1; }; })

$(READY): setup.cfg pyproject.toml constraints.txt
	@echo "Installing cudalab and what it runs with into $(VENV). This happens once and takes 1 to 5 minutes,"
	@echo "most of it for the download of PyTorch."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@first=$$(date +%s); $(STAGE); stage "cudalab itself, with NumPy and SciPy" $(PIP) -e . $(TOOLKIT) \
	$(call EXTRA,$(EXTRAS)) && echo "Ready after $$(( $$(date +%s) - first )) s."
	@touch $@

$(TOOLS): $(READY)
	@echo "Installing what the tests and linters need into $(VENV). This happens once and takes about a minute."
	@$(STAGE); true $(call EXTRA,test dev)
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info

# Bench and tests start hundreds of processes; without bytecode each would compile the lab anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: bench set-up test test-tutorial test-all test-wall test-stand-in gpu-test lint mutants tables report docs clean

STAND_IN = not (sweep or wall)
STAND_IN_WORKERS = 2

# Status 3 says that this machine cannot build the stand-in; that is a skip with a reason, not a failure.
test-stand-in: $(TOOLS)
	@lines=$$($(BIN)/python tests/fake_gpu/environment.py build/fake_gpu) || { s=$$?; test $$s = 3 && exit 0; exit $$s; }; \
	eval "$$lines" && CUDALAB_CACHE=$(CURDIR)/build/fake_gpu/cache $(PYTEST) -n $(STAND_IN_WORKERS) --dist worksteal -m "$(STAND_IN)" tests/fake_gpu
