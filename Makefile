# make bench         the main job: check and time the kernels here (on the GPU if there is one)
# make test          the tests; make lint: style and types
# make gpu-test      the tests, where a test that finds no GPU fails
# make mutants       which small faults in the kernels would the check miss? (on the CPU; minutes)
# make test-fake-gpu PyCUDA's own code path on a libcuda whose device is the CPU (needs the CUDA headers)
# Each sets up its environment in $(VENV) first, once.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# On a machine with a GPU and a CUDA toolkit the environment has the GPU libraries of the toolkit's CUDA version.
CUDA := $(shell nvidia-smi -L >/dev/null 2>&1 && nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
EXTRAS := torch,test,dev$(if $(CUDA),$(comma),)$(if $(CUDA),cuda$(CUDA),)
comma := ,
READY = $(VENV)/.ready$(CUDA)

bench: $(READY)
	mkdir -p build
	$(BIN)/cudalab bench --sizes small,large -o build/results.json

test: $(READY)
	$(BIN)/python -m pytest

gpu-test: $(READY)
	CUDALAB_REQUIRE=cuda $(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

mutants: $(READY)
	$(BIN)/python bench/mutants.py

tables: $(READY)
	$(BIN)/python bench/readme_tables.py

$(READY): setup.cfg pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info

.PHONY: bench test gpu-test lint mutants tables test-fake-gpu clean

# Status 3 says that this machine cannot build the stand-in; that is a skip with a reason, not a failure.
test-fake-gpu: $(READY)
	@lines=$$($(BIN)/python tests/fake_gpu/environment.py build/fake_gpu) || { s=$$?; test $$s = 3 && exit 0; exit $$s; }; \
	eval "$$lines" && CUDALAB_CACHE=$(CURDIR)/build/fake_gpu/cache $(BIN)/python -m pytest tests/fake_gpu
