# Entry points of the repository. All that must be there beforehand is Rust (stable) and
# CPython 3.11 or newer with its venv module; the rest is set up in .venv on first use.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SUFFIXES:

# rustup installs here, and not every shell knows.
export PATH := $(PATH):$(HOME)/.cargo/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_REQUIRE_VIRTUALENV := 1
# Pictures are written to files; there may be no display.
export MPLBACKEND := Agg
# Thousands of processes of the tests import the same modules, which are to be compiled once.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that is new enough; set PYTHON to choose another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; \
	done || true)
PYTHON_VERSION := $(if $(PYTHON),$(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])'))

VENV := .venv
BIN := $(VENV)/bin
# Where the tests' own wheel is installed, with what it declares to need and nothing else.
TEST_VENV := target/test-venv
TEST_WHEELS := target/test-wheels
TEST_PYTHON = PATH="$(CURDIR)/$(TEST_VENV)/bin:$(CURDIR)/$(BIN):$$PATH" \
	"$(CURDIR)/$(TEST_VENV)/bin/python"
BENCH_VENV := .bench-venv
# Cargo takes dependencies as Cargo.lock has them, or not at all.
LOCKED := --locked
# Stamps carry the interpreter's version, so that another one starts afresh.
BUILDER := $(VENV)/.builder-$(PYTHON_VERSION)
TOOLS := $(VENV)/.tools-$(PYTHON_VERSION)
DEVELOP := $(VENV)/.develop-$(PYTHON_VERSION)
BENCH_TOOLS := $(BENCH_VENV)/.tools-$(PYTHON_VERSION)
RUSTDOC := $(or $(CARGO_TARGET_DIR),target)/doc
LIMIT := $(or $(CARGO_TARGET_DIR),target)/release/examples/stream_limit
ENGINE_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(wildcard LICENSE-*) \
	$(shell find crates \( -name '*.rs' -o -name Cargo.toml \) -type f)

DATA ?=
# How many tests run at a time: many of them wait for processes, but each process that runs those of
# Python imports what they need, and compiles it.
WORKERS ?= $(shell "$(PYTHON)" -c 'import os; n = len(os.sched_getaffinity(0)); print(min(16, n + n // 2))' \
	2>/dev/null || echo 3)
# Where chance begins in the long runs.
SEED ?= $(shell date +%s)
# What bench/run.py is to do, and an interpreter that has LiberTEM and dask already.
ARGS ?=
LIBERTEM_PYTHON ?=
OUT ?= demo-output
# What to fuzz, for how long, and where to keep inputs that lead somewhere new.
TARGET ?= detect
SECONDS ?= 60
FUZZ_CORPUS ?= target/fuzz-corpus

.PHONY: help
help:
	@echo 'make demo             simulate a scan, analyse it, leave pictures in $(OUT)/'
	@echo 'make demo DATA=path   the same with your own file'
	@echo 'make test             every check; what continuous integration runs'
	@echo 'make test-long        stress and fuzzing, SECONDS=60 for each; SEED= repeats a run'
	@echo 'make bench            compare with LiberTEM, NumPy and dask; ARGS=--quick for a glance'
	@echo 'make fuzz TARGET=mib   look for MIB files that break it; SECONDS=60'
	@echo 'make sanitize         run tests under Miri and ThreadSanitizer; needs a nightly toolchain'
	@echo 'make docs             build the documentation as a site, target/site/index.html'
	@echo 'make wheel            build the wheel into dist/'
	@echo 'make develop          set up .venv with all tools, and the package of this folder in it'
	@echo 'make fmt              format Rust and Python'
	@echo 'make web              build the page of the viewer anew, crates/view/web/dist; needs Node.js'
	@echo 'make clean            remove all that the other targets made'

# --- Set-up ---------------------------------------------------------------------------------

# What the package is built with is a small part of what it is checked with.
$(BUILDER): requirements-dev.txt requirements-docs.txt requirements-packages.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo 'found no CPython 3.11 or newer; install one, or run make PYTHON=/path/to/python3' >&2; \
		exit 1; \
	fi
	@command -v cargo >/dev/null || { \
		echo 'found no cargo; install Rust as https://rustup.rs says' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet "$$(grep '^maturin' requirements-dev.txt)"
	@touch $@

# Modules are compiled when they are imported: to compile all of them takes as long as to install them,
# and most are never imported.
$(TOOLS): $(BUILDER)
	$(BIN)/python -m pip install --quiet --no-compile -r requirements-dev.txt -r requirements-docs.txt
	$(BIN)/python -m pip install --quiet --no-compile --no-deps -r requirements-packages.txt
	@touch $@

$(DEVELOP): $(BUILDER) $(ENGINE_SOURCES)
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --release $(LOCKED) --extras plot
	@touch $@

.PHONY: develop
develop: $(TOOLS) $(DEVELOP)

# --- Use ------------------------------------------------------------------------------------

.PHONY: demo
demo: $(DEVELOP)
	$(BIN)/python examples/demo.py $(if $(DATA),"$(DATA)") --out "$(OUT)"

# The site describes the package of this folder, and shows pictures that it made.
.PHONY: docs
docs: develop test-docs
	$(BIN)/python docs/site/build.py --out target/site --rustdoc "$(RUSTDOC)"

# LiberTEM and dask live in an environment of their own; without them the rest still runs.
.PHONY: bench
bench: develop $(if $(LIBERTEM_PYTHON),,$(BENCH_TOOLS))
	cargo build --quiet --release $(LOCKED) -p framefold-io --example stream_limit
	$(BIN)/python bench/run.py --limit "$(LIMIT)" \
		$(if $(LIBERTEM_PYTHON),--libertem-python "$(LIBERTEM_PYTHON)",$$( \
			test -x $(BENCH_VENV)/bin/python && \
			echo --libertem-python $(BENCH_VENV)/bin/python)) $(ARGS)

$(BENCH_TOOLS): requirements-bench.txt
	@if $(PYTHON) -m venv --clear $(BENCH_VENV) && \
		$(BENCH_VENV)/bin/python -m pip install --quiet -r requirements-bench.txt; then \
		touch $@; \
	else \
		echo 'could not install LiberTEM and dask; going on without them' >&2; \
		rm -rf $(BENCH_VENV); \
	fi

# Coverage is counted by the compiler's own passes, of the stable one, too. They are not wanted
# in build scripts, which a named target keeps them out of.
COVERAGE := -C passes=sancov-module $(addprefix -C llvm-args=-sanitizer-coverage-,level=4 \
	inline-8bit-counters pc-table trace-compares)
FUZZ_HOST = $(shell rustc --print host-tuple)

.PHONY: fuzz
fuzz:
	RUSTFLAGS="$(COVERAGE)" cargo build --quiet $(LOCKED) --profile fuzz --target $(FUZZ_HOST) \
		-p framefold-fuzz --features guided --bin guided
	mkdir -p "$(FUZZ_CORPUS)/$(TARGET)"
	FRAMEFOLD_FUZZ_TARGET=$(TARGET) \
		"$(or $(CARGO_TARGET_DIR),target)/$(FUZZ_HOST)/fuzz/guided" \
		"$(FUZZ_CORPUS)/$(TARGET)" fuzz/corpus/$(TARGET) -max_total_time=$(SECONDS) \
		-timeout=20 -rss_limit_mb=4096 -max_len=16384 -print_final_stats=1 \
		-artifact_prefix="$(FUZZ_CORPUS)/$(TARGET)-"

# Miri runs vector instructions where they are named to it, up to AVX2; it does no foreign code: mapped
# files, signal handlers and the extension module are left to their tests. Bits of NaN, which it makes up
# otherwise, are the processor's. The lock of the guard's slots is tried in every order by loom, in
# `make test` (crates/io/tests/slot.rs).
MIRI_FEATURES := +avx,+avx2,+fma,+bmi1,+bmi2,+f16c,+lzcnt,+movbe,+popcnt

.PHONY: sanitize
sanitize: export MIRIFLAGS := -Zmiri-disable-isolation -Zmiri-deterministic-floats
sanitize:
	@cargo +nightly miri --version >/dev/null 2>&1 || { \
		echo 'found no Miri: rustup toolchain install nightly --component miri,rust-src' >&2; exit 1; }
	RUSTFLAGS="-Ctarget-feature=$(MIRI_FEATURES)" \
		cargo +nightly miri test $(LOCKED) -p framefold-simd --lib
	RUSTFLAGS="-Ctarget-feature=$(MIRI_FEATURES)" PROPTEST_CASES=2 \
		cargo +nightly miri test $(LOCKED) -p framefold-io --lib -- \
		access::storage::registry codec::bitshuffle::x86 formats::k2is::unpack \
		formats::mib::decode::bits formats::mib::decode::tests::decoding_inverts_encoding_in_any_slice
	RUSTFLAGS="-Ctarget-feature=$(MIRI_FEATURES)" \
		cargo +nightly miri test $(LOCKED) -p framefold-kernels --lib -- \
		reductions::masks::product::tests::instruction_sets
	cargo +nightly miri test $(LOCKED) -p framefold-core --lib -- cast::tests
	$(MAKE) sanitize-threads

# All that shares memory between threads of the engine: the guard of mapped files, readers, the pool
# and the driver; the standard library is built with it. Worker processes and the extension module
# are not covered.
.PHONY: sanitize-threads
sanitize-threads: export TSAN_OPTIONS := handle_segv=0 handle_sigbus=0 \
	suppressions=$(CURDIR)/crates/io/tests/thread-sanitizer.txt
sanitize-threads: export RUSTFLAGS := -Zsanitizer=thread
sanitize-threads:
	cargo +nightly test $(LOCKED) -Zbuild-std --target $(FUZZ_HOST) --target-dir target/threads \
		-p framefold-exec -p framefold-io --lib --tests

.PHONY: wheel
wheel: $(BUILDER)
	rm -f dist/framefold-*.whl
	$(BIN)/maturin build --release $(LOCKED) --out dist

# What the viewer shows in a browser is committed as it was built, so that an installation needs no
# Node.js.
WEB := crates/view/web
WEB_TOOLS := $(WEB)/node_modules/.package-lock.json

$(WEB_TOOLS): $(WEB)/package.json $(WEB)/package-lock.json
	cd $(WEB) && npm ci --silent --no-audit --no-fund
	@touch $@

.PHONY: web
web: $(WEB_TOOLS)
	cd $(WEB) && node_modules/.bin/tsc --noEmit && node build.mjs

.PHONY: fmt
fmt: $(TOOLS)
	cargo fmt --all
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format .

.PHONY: clean
clean:
	cargo clean
	rm -rf target $(VENV) $(BENCH_VENV) dist "$(OUT)" bench-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests examples bench -name '__pycache__' -type d -prune -exec rm -rf {} +
	rm -rf $(WEB)/node_modules tests/browser/node_modules
	rm -f python/framefold/_engine*.so python/framefold/_engine*.pyd

# --- Checks ---------------------------------------------------------------------------------

# What no test waits for goes on beside the tests of Python, which often wait themselves, and gives way to
# them, but ends before they do. What it prints comes after them. Tests are in the foreground, as they
# send SIGINT, which what is in the background ignores.
BESIDE := test-lints test-docs test-types stubs docstrings site

# To optimise the tests in Rust takes longer than to run them as they are.
test compile-tests test-rust test-wheel: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/tests/rustc

.PHONY: test
test: test-format test-web test-rust test-wheel
	@nice -n 5 $(MAKE) --keep-going $(BESIDE) >target/beside.txt 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null || true' EXIT; \
	$(MAKE) python && tests=0 || tests=$$?; \
	echo 'waiting for $(BESIDE)'; \
	wait $$beside && checks=0 || checks=$$?; \
	cat target/beside.txt; \
	exit $$((tests + checks))
	@echo 'all checks passed'

.PHONY: test-format
test-format: $(TOOLS)
	cargo fmt --all --check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	cargo run --quiet $(LOCKED) -p xtask -- tidy

# The extension module is built against the interpreter of .venv, and only linted here: it can
# be linked into an interpreter, but not into a test.
.PHONY: test-lints
test-lints: export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
test-lints: $(TOOLS)
	cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings

# The whole workspace, so that what is compiled here serves the extension module, too; that itself
# has no tests in Rust.
.PHONY: compile-tests
compile-tests:
	cargo test --quiet $(LOCKED) --workspace --tests --no-run

.PHONY: test-rust
test-rust:
	if cargo nextest --version >/dev/null 2>&1; then \
		cargo nextest run $(LOCKED) --workspace --test-threads $(WORKERS); \
	else \
		cargo test $(LOCKED) --workspace --tests; \
	fi
	cargo test $(LOCKED) --workspace --doc

# The committed page is what its sources build to, byte for byte.
.PHONY: test-web
test-web:
	@if command -v node >/dev/null && command -v npm >/dev/null; then \
		$(MAKE) -s $(WEB_TOOLS) && cd $(WEB) && \
			node_modules/.bin/tsc --noEmit && node build.mjs --check; \
	else \
		echo 'skipped: the page of the viewer is compared with its sources where node and npm are installed'; \
	fi

.PHONY: test-docs
test-docs: export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
test-docs: export RUSTDOCFLAGS := -D warnings
test-docs: $(TOOLS)
	cargo doc $(LOCKED) --workspace --no-deps --lib

.PHONY: test-types
test-types: $(TOOLS)
	$(BIN)/mypy --strict python/framefold

# The wheel has to work with what it declares to need and nothing else; only then come the
# tools of the tests, those of .venv. The tests see the installed package: python/ is not on their
# path, and paths that lie behind the path of .venv, such as that of `maturin develop`, are not
# followed. It is built as the tests in Rust are: optimizing for releases takes longer than the
# tests gain by it, and would not find arithmetic that overflows.
.PHONY: test-wheel
test-wheel: $(TOOLS)
	rm -rf $(TEST_WHEELS) $(TEST_VENV)
	$(BIN)/maturin build --profile dev $(LOCKED) --out $(TEST_WHEELS)
	$(PYTHON) -m venv $(TEST_VENV)
	$(TEST_VENV)/bin/python -m pip install --quiet --no-compile $(TEST_WHEELS)/framefold-*.whl
	$(TEST_VENV)/bin/python -c 'import numpy as np, framefold as ff; ctx = ff.Context(); \
		data = ctx.load("memory", data=np.ones((2, 2, 4, 4))); \
		ctx.run_udf(dataset=data, udf=ff.SumUDF(), progress=True)'
	$(TEST_VENV)/bin/framefold --version
	$(PYTHON) -m zipfile -l $(TEST_WHEELS)/framefold-*.whl | grep 'sboms/.*cyclonedx'
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(TEST_VENV)/bin/python -c \
			'import sysconfig; print(sysconfig.get_path("purelib"))')/tools.pth"

.PHONY: test-python
test-python: test-wheel python stubs docstrings

# Several at a time, as many tests wait; each looks at its own processes, files and memory alone.
.PHONY: python
python:
	$(TEST_PYTHON) -m pytest -n $(WORKERS) --dist worksteal --durations=30 tests

.PHONY: stubs
stubs:
	$(TEST_PYTHON) -m mypy.stubtest --mypy-config-file tests/stubtest.ini framefold._engine

.PHONY: docstrings
docstrings:
	cd target && $(TEST_PYTHON) -m pytest -p no:cacheprovider --doctest-modules --pyargs framefold

.PHONY: test-site
test-site: test-wheel test-docs site

# Warnings of Sphinx, links that lead nowhere and public names without an entry are errors.
.PHONY: site
site:
	$(TEST_PYTHON) docs/site/build.py --out target/test-site --rustdoc "$(RUSTDOC)"

# Chance begins elsewhere in each of these runs, and says where: SEED repeats one.
.PHONY: test-long
test-long: export FRAMEFOLD_SEED := $(SEED)
test-long: export FRAMEFOLD_FUZZ_SECONDS := $(SECONDS)
test-long: export FRAMEFOLD_STRESS_SECONDS := $(SECONDS)
test-long: test-wheel
	@echo 'make test-long SEED=$(SEED) SECONDS=$(SECONDS)'
	cargo test --quiet $(LOCKED) --profile fuzz -p framefold-fuzz -- --nocapture changed
	$(TEST_PYTHON) -m pytest -s --hypothesis-seed=$(SEED) $$(grep -rlE --include='test_*.py' \
		'FRAMEFOLD_SEED|long_runs|@given' tests)
	@echo 'all long checks passed with SEED=$(SEED)'
