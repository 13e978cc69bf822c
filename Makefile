# One command each to see, build, test, measure and document ampcast. `make help` lists them.
#
#   TORCH=torch==2.14.1   the torch to put into VENV; without it, one that is there is kept, else torch 2.13.0 is installed
#   VENV=path             the virtual environment to use, .venv by default
#   PYTHON=python3.12     the interpreter that makes VENV
#   WERROR=ON             warnings are errors

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
VENV ?= .venv
PYTHON ?= python3
WERROR ?= OFF
DEFAULT_TORCH := torch==2.13.0

PY := $(abspath $(VENV))/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
BUILD := build/develop
# The tools that pip puts into VENV come first.
export PATH := $(abspath $(VENV))/bin:$(PATH)
export CMAKE_CXX_COMPILER_LAUNCHER ?= $(shell command -v ccache)
export AMPCAST_BUILD_DIR := $(abspath $(BUILD))

.NOTPARALLEL:
.PHONY: help demo test test-cpp test-python test-consumer test-consumer-prefix test-consumer-all test-asan tsan lint bench \
        docs install wheel torch tools catch2 clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-22s %s\n", $$1, $$2}'

demo: install ## train a small network in float32, bfloat16 and float16, in Python and C++; table and plot
	$(PIP) -r demo/requirements.txt
	cmake -S demo/cpp -B build/demo -G Ninja "-DCMAKE_PREFIX_PATH=$$(cd / && $(PY) -m ampcast --cmake-prefix-path)"
	cmake --build build/demo
	$(PY) demo/train_digits.py --cpp-program build/demo/train_digits

test: test-cpp test-python test-consumer ## build and run all tests

test-cpp: install-with-tests ## the C++ tests, once an instruction set
	ctest --test-dir $(BUILD) --output-on-failure

test-python: install-with-tests ## the Python tests
	$(PIP) -r tests/python/requirements.txt
	AMPCAST_SCALER_PROGRAM=$(abspath $(BUILD))/tests/cpp/scaler_program $(PY) -m pytest $(PYTEST_ARGS)

test-consumer: install ## a C++ project against the package that pip installed
	.ci/test_consumer package "-DCMAKE_PREFIX_PATH=$$(cd / && $(PY) -m ampcast --cmake-prefix-path)"

test-consumer-prefix: install ## the same project against a `cmake --install` prefix
	cmake --install $(BUILD) --component ampcast --prefix build/prefix
	.ci/test_consumer prefix "-DCMAKE_PREFIX_PATH=$(abspath build/prefix)" "-DPython_EXECUTABLE=$(PY)"

test-consumer-all: test-consumer test-consumer-prefix ## the same project against both, and with ampcast as a subdirectory
	.ci/test_consumer subdirectory "-DAMPCAST_SOURCE_DIR=$(CURDIR)" "-DPython_EXECUTABLE=$(PY)"

test-asan: install-with-tests ## the bodies of the CUDA kernels on the host, under the address and undefined sanitizers
	cmake --build $(BUILD) --target ampcast_body_tests_asan
	ASAN_OPTIONS=detect_leaks=0 $(BUILD)/tests/cpp/ampcast_body_tests_asan # torch keeps its globals

tsan: install-with-tests ## the same under the thread sanitizer
	cmake --build $(BUILD) --target ampcast_body_tests_tsan
	OMP_NUM_THREADS=1 $(BUILD)/tests/cpp/ampcast_body_tests_tsan

lint: install-with-tests ## format, types, clang-tidy on changed files, symbols
	$(PIP) -r .ci/requirements.txt
	.ci/lint $(BUILD)

bench: install ## time ampcast against torch
	$(PY) -m bench $(BENCH_ARGS)

docs: install ## build the documentation into docs/_build
	@command -v doxygen >/dev/null || .ci/apt_install doxygen || true
	$(PIP) -r docs/requirements.txt
	$(PY) -m sphinx -W -b html docs docs/_build

wheel: torch ## build a wheel into dist/ for release, for every GPU that torch supports
	AMPCAST_CMAKE_ARGS="-DAMPCAST_WERROR=$(WERROR) '-DCMAKE_CUDA_ARCHITECTURES=75-real;80-real;90-real;100-real;120'" \
	  AMPCAST_BUILD_DIR=$(CURDIR)/build/wheel $(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

install: torch ## build ampcast and install it into VENV
	export AMPCAST_CMAKE_ARGS="-DAMPCAST_WERROR=$(WERROR) $(CMAKE_ARGS)"; \
	  $(PY) setup.py --quiet build_ext --inplace && $(PIP) --no-deps --no-build-isolation --editable .

.PHONY: install-with-tests
install-with-tests: CMAKE_ARGS := -DAMPCAST_BUILD_TESTS=ON
install-with-tests: catch2 install

torch: $(VENV)/bin/python
	@if [ -n "$(TORCH)" ] || ! $(PY) -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'; then \
	  echo "installing $(or $(TORCH),$(DEFAULT_TORCH))"; $(PIP) "$(or $(TORCH),$(DEFAULT_TORCH))"; \
	fi
	@$(PIP) "setuptools>=77" numpy
	@cmake --version 2>/dev/null | grep -qE 'version (3\.(2[5-9]|[3-9][0-9])|[4-9])' || $(PIP) "cmake>=3.25"
	@command -v ninja >/dev/null || $(PIP) ninja

$(VENV)/bin/python: | tools
	$(PYTHON) -m venv $(VENV)

tools: # what pip cannot install
	@.ci/check_tools $(PYTHON)

catch2: | tools
	@.ci/install_catch2

clean: ## remove what was built, not VENV
	rm -rf build dist demo/out docs/_build docs/api python/ampcast/{_C.*.so,_build_info.py,include,lib,share}
