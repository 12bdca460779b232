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
FUZZ := build/fuzz
GEN := $(RELEASE)/generator/stratum-gen
LIBRARY := $(RELEASE)/runtime/libstratum.so
EMULATOR := $(RELEASE)/tools/emulator/libstratum_emulator.so
WHEELS := build/wheels
# A folder of plans whose kernels the pack shall have beside the shipped ones, and the folder to assemble: one of its own
# with such plans, which test-gpu uses for strata that the shipped pack lacks.
PLANS ?=
EXTENDED := build/extended
SUBMISSION ?= $(if $(PLANS),$(EXTENDED),build/submission)
# Options of the demo, of the bench and of the mutants.
DEMO ?=
BENCH ?=
MUTANTS ?=
# What to sweep: a sweep file, or the folder of a sweep that was begun.
SWEEP ?= examples/sweeps/forward-d64-r32-sm90.json

# How long each fuzzer runs, in seconds.
FUZZ_SECONDS ?= 600

# Reports of the sanitizers end a test; leaks count.
export ASAN_OPTIONS := detect_leaks=1:halt_on_error=1
export UBSAN_OPTIONS := print_stacktrace=1:halt_on_error=1

say = @printf '\n== %s\n' '$(1)'

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

## Set-up -------------------------------------------------------------------------------------------------------------

.PHONY: setup
setup: test-packages $(VENV)/.test ## install what is missing: Debian packages, Python packages in .venv

.PHONY: packages test-packages
packages:
	@tools/setup/packages.sh $(PYTHON)
test-packages:
	@tools/setup/packages.sh $(PYTHON) tests

$(PY): | packages
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "setup: CPython 3.10 or newer needed, $(PYTHON) is " + sys.version)'
	@echo 'setup: making $(VENV)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run $(VENV)/.test: $(VENV)/.%: requirements/%.txt requirements/run.txt | $(PY)
	@echo 'setup: installing $<'
	@$(PY) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

## Build --------------------------------------------------------------------------------------------------------------

# What is built in $(RELEASE): what runs the shipped kernels, the generator, those of the tests that need them as they ship.
ENGINE := stratum stratum_emulator_driver
RELEASE_TESTS := emulator_tests emulator_driver_tests generator_tests library_tests

define compile # TARGETS
	@cmake -S . -B $(RELEASE) -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=WARNING
	@cmake --build $(RELEASE) --parallel $(JOBS) --target $(1)
endef

.PHONY: build
build: packages ## stratum-gen, libstratum.so and the emulator
	$(call compile,stratum-gen $(ENGINE))

# Half of the time of `build`: for `make run`.
.PHONY: engine
engine: packages
	$(call compile,$(ENGINE))

.PHONY: toolchain
toolchain: build $(VENV)/.run
	@$(PY) tools/setup/toolchain.py $(GEN)

.PHONY: clean
clean: ## remove everything that was built; .venv stays
	@rm -rf build

## Kernels ------------------------------------------------------------------------------------------------------------

.PHONY: cubins
cubins: toolchain ## compile the plans into the pack in cubins/
	@$(GEN) build

.PHONY: verify
verify: toolchain ## rebuild every kernel and compare with the pack in cubins/
	@$(GEN) verify

## The folder that ships ----------------------------------------------------------------------------------------------

PACK := $(if $(PLANS),build/pack,cubins)

.PHONY: submission
submission: engine $(VENV)/.run $(if $(PLANS),extended-pack) ## assemble build/submission; PLANS=FOLDER adds strata
	@$(PY) -m tools.assemble --library $(LIBRARY) --pack $(PACK) --wheels $(WHEELS) --out $(SUBMISSION)

# Starts from the shipped pack, so that only the added plans are compiled.
.PHONY: extended-pack
extended-pack: toolchain
	@rm -rf $(PACK) && mkdir -p build && cp -r cubins $(PACK)
	@$(GEN) build --plans templates/plans --plans $(PLANS) --out $(PACK)

## Run and test -------------------------------------------------------------------------------------------------------

.PHONY: run
run: submission ## the main job: train, prefill, decode, checked against float64; on a GPU, else on the CPU
	@$(PY) -m tools.demo --submission $(SUBMISSION) --emulator $(EMULATOR) $(DEMO)

.PHONY: test
test: setup toolchain submission release-tests ## every test that this machine can run
	$(call say,The pack belongs to these sources)
	@$(GEN) verify --keys
	$(call say,C++ tests as it ships)
	@ctest --test-dir $(RELEASE) --tests-regex '^(emulator|generator|library)' --parallel $(JOBS) --output-on-failure
	@$(MAKE) sanitize TOOL_TESTS=OFF
	$(call say,Python tests)
	@$(PY) -m pytest tests/python
	$(call say,Tests of the engine on the emulator)
	@$(PY) -m pytest tests/emulated --numprocesses $(JOBS)
	$(call say,Tests of the sweep)
	@$(PY) -m pytest tests/sweep
	$(call say,Tests of the harness)
	@$(PY) -m pytest tests/grade --numprocesses $(JOBS) --dist worksteal
	$(call say,Mutants of the kernels)
	@$(PY) -m pytest tests/mutants
	$(call say,Seeded bugs in copies of the kernels)
	@$(PY) -m pytest tests/seeded --numprocesses $(JOBS)
	$(call say,Tests of the folder that ships)
	@$(PY) -m pytest tests/packaging

# Of one architecture: minutes.
.PHONY: mutants
mutants: submission ## mutants of the portable kernels' PTX, on the emulator: which survive, which lines are not executed
	@$(PY) -m tools.emulator mutants --submission $(SUBMISSION) --emulator $(EMULATOR) --jobs $(JOBS) $(MUTANTS)

.PHONY: release-tests
release-tests: build
	$(call compile,$(RELEASE_TESTS))

# `make test` takes what runs in a user's process with sanitizers, the generator and the emulator's own tests without: both
# would take as long again.
TOOL_TESTS ?= ON
.PHONY: sanitize
sanitize: packages ## the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call say,C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer)
	@cmake -S . -B $(SANITIZE) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSTRATUM_SANITIZE=ON \
		-DSTRATUM_TOOL_TESTS=$(TOOL_TESTS) --log-level=WARNING
	@cmake --build $(SANITIZE) --parallel $(JOBS)
	@ctest --test-dir $(SANITIZE) --parallel $(JOBS) --output-on-failure

.PHONY: fuzz
fuzz: ## the parsers, the emulator and the pack's reader on bytes that libFuzzer makes, FUZZ_SECONDS each
	@tools/setup/packages.sh $(PYTHON) fuzz
	@cmake -S . -B $(FUZZ) -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-DSTRATUM_SANITIZE=ON -DSTRATUM_FUZZ=ON --log-level=WARNING
	@cmake --build $(FUZZ) --parallel $(JOBS) --target ptx_fuzz run_fuzz manifest_fuzz zstd_fuzz fuzz_seeds
	@tests/fuzz/fuzz.sh $(FUZZ) $(FUZZ_SECONDS)

.PHONY: sweep
sweep: toolchain submission ## search a kernel's tiles, SWEEP=FILE; times where python3 has torch and a GPU
	@STRATUM_SUBMISSION=$(SUBMISSION) $(PYTHON) -m tools.sweep $(SWEEP)

# Those below run where nothing can be installed: they take python3 as it is, and folders assembled before.

# $(call assembled,FOLDER,COMMAND): fails, naming the command that makes it, unless the folder is there.
# $(call current,FOLDER): fails unless its pack is the one in cubins/.
assembled = @[ -d $(1) ] || { echo '$(1) is missing; `$(2)` assembles it' >&2; exit 1; }
current = @cmp -s cubins/manifest.json $(1)/cubins/manifest.json || { echo '$(1) has another pack than cubins/; `make submission` renews it' >&2; exit 1; }

.PHONY: test-gpu
test-gpu: ## the tests that need a GPU, with the python3 that has torch; installs nothing
	$(call assembled,$(SUBMISSION),make submission)
	$(call current,$(SUBMISSION))
	$(call assembled,$(EXTENDED),make submission PLANS=examples/plans)
	@STRATUM_SUBMISSION=$(SUBMISSION) STRATUM_EXTENDED=$(EXTENDED) $(PYTHON) -m pytest tests/gpu
	@$(PYTHON) -m pytest tests/grade/test_check.py --gpu

.PHONY: grade
grade: ## audit the folder as a stranger would, then time it beside the starter; on a GPU; installs nothing
	$(call assembled,$(SUBMISSION),make submission)
	@$(PYTHON) -m tools.grade check $(SUBMISSION) --json build/grade/check.json
	@$(PYTHON) -m tools.grade bench $(SUBMISSION) --peer tools/bench/triton_engine --json build/grade/bench.json

.PHONY: bench
bench: ## timings on a GPU beside peers, and their page in build/bench; installs nothing
	$(call assembled,$(SUBMISSION),make submission)
	$(call current,$(SUBMISSION))
	@STRATUM_SUBMISSION=$(SUBMISSION) $(PYTHON) -m tools.bench $(BENCH)
