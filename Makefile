# The only entrance. `make help` lists the targets; README.md says what they are for.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
JOBS ?= $(shell nproc)

VENV := .venv
PY := $(VENV)/bin/python
RELEASE := build/release
SANITIZE := build/sanitize
GEN := $(RELEASE)/generator/stratum-gen
LIBRARY := $(RELEASE)/runtime/libstratum.so
SUBMISSION := build/submission
WHEELS := build/wheels

# Reports of the sanitizers end a test; leaks count.
export ASAN_OPTIONS := detect_leaks=1:halt_on_error=1
export UBSAN_OPTIONS := print_stacktrace=1:halt_on_error=1

say = @printf '\n== %s\n' '$(1)'

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

## Set-up -------------------------------------------------------------------------------------------------------------

.PHONY: setup
setup: packages $(VENV)/.test ## install what is missing: Debian packages, Python packages in .venv

.PHONY: packages
packages:
	@tools/setup/packages.sh $(PYTHON)

$(PY): | packages
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "setup: CPython 3.10 or newer needed, $(PYTHON) is " + sys.version)'
	@echo 'setup: making $(VENV)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run $(VENV)/.test: $(VENV)/.%: requirements/%.txt requirements/run.txt | $(PY)
	@echo 'setup: installing $<'
	@$(PY) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

## Build --------------------------------------------------------------------------------------------------------------

.PHONY: build
build: packages ## stratum-gen, libstratum.so and the C++ tests
	@cmake -S . -B $(RELEASE) -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=WARNING
	@cmake --build $(RELEASE) --parallel $(JOBS)

.PHONY: submission
submission: build $(VENV)/.run ## assemble $(SUBMISSION), the folder that ships
	@$(PY) -m tools.assemble --library $(LIBRARY) --pack cubins --wheels $(WHEELS) --out $(SUBMISSION)

.PHONY: clean
clean: ## remove everything that was built; .venv stays
	@rm -rf build

## Kernels ------------------------------------------------------------------------------------------------------------

.PHONY: cubins
cubins: build ## compile the plans into the pack in cubins/
	@$(GEN) build

.PHONY: verify
verify: build ## rebuild every kernel and compare with the pack
	@$(GEN) verify

## Run and test -------------------------------------------------------------------------------------------------------

.PHONY: run
run: submission ## the main job: train, prefill and decode on a GPU, checked against float64
	@$(PY) -m tools.demo --submission $(SUBMISSION) --stratum-gen $(GEN)

.PHONY: test
test: setup submission ## every test that this machine can run
	$(call say,C++ tests)
	@ctest --test-dir $(RELEASE) --parallel $(JOBS) --output-on-failure
	@$(MAKE) sanitize
	$(call say,The pack belongs to these sources)
	@$(GEN) verify --keys
	$(call say,Python tests)
	@$(PY) -m pytest tests/python tests/packaging

.PHONY: sanitize
sanitize: packages ## the C++ tests built with AddressSanitizer and UndefinedBehaviorSanitizer
	$(call say,C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer)
	@cmake -S . -B $(SANITIZE) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSTRATUM_SANITIZE=ON --log-level=WARNING
	@cmake --build $(SANITIZE) --parallel $(JOBS)
	@ctest --test-dir $(SANITIZE) --parallel $(JOBS) --output-on-failure

.PHONY: test-gpu
test-gpu: ## the tests that need a GPU, with the python3 that has torch; installs nothing
	@[ -d $(SUBMISSION) ] || $(MAKE) submission
	@$(PYTHON) -m pytest tests/gpu

.PHONY: bench
bench: ## timings on a GPU, with the python3 that has torch; installs nothing
	@[ -d $(SUBMISSION) ] || $(MAKE) submission
	@$(PYTHON) -m tools.bench
