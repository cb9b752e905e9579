# The menu. Every recipe does all of its own set-up; `make help` lists them.
#
# All but `build`, `smoke` and `run`, which compile what they run and nothing else, compile the
# whole workspace with all its targets: then cargo chooses the same features for every dependency
# each time, and compiles it once.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build run smoke test test-python test-slow soak bench lint plugins guests testserver deploytool image check-tools check-rust check-go check-python check-deny check-musl

target := $(abspath $(or $(CARGO_TARGET_DIR),target))
# Where guests go: shipped plugins, and those that only tests and examples use.
plugins_dir := $(target)/plugins
guests_dir := $(target)/test-guests

# Cargo's profile for `build`: `make build PROFILE=dev` leaves out most of the optimising, and builds into target/debug.
PROFILE := release
host := $(target)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/pilothouse

# The image has no C library: it is of a static binary.
musl := $(shell uname -m)-unknown-linux-musl
static_host := $(target)/$(musl)/$(notdir $(patsubst %/,%,$(dir $(host))))/pilothouse
image_dir := $(target)/image$(if $(filter-out release,$(PROFILE)),-$(PROFILE))
version := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)

rust_plugins := bootstrap-signer clusterrole-aggregation cronjob daemonset deployment disruption endpoints endpointslice endpointslicemirroring ephemeral-volume garbage-collector job legacy-serviceaccount-token-cleaner namespace persistentvolume-expander persistentvolume-protection persistentvolumeclaim-protection pod-garbage-collector replicaset replicationcontroller resourcequota root-ca-certificate-publisher serviceaccount statefulset taint-eviction token-cleaner ttl ttl-after-finished
test_guests := actions fickle hello-rust hostile keyring kinds ledger lister misbehaving narrow optional panicking purge remember sparse stages stranger tally tidy widgets
python_guests := examples/hello-python tests/guests-python/census

say = @printf '==> %s\n' "$(1)"

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: check-rust ## Build the host: target/release/pilothouse
	$(call say,building the host ($(PROFILE)))
	PILOTHOUSE_COMMIT="$$(git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || true)" \
	  cargo build --profile $(PROFILE) --locked
	@echo "$(host)"

image: check-rust check-musl deploytool ## Write the container image to target/image, as an OCI layout; with PROFILE=dev to target/image-dev
	$(call say,building a static host ($(PROFILE)))
	PILOTHOUSE_COMMIT="$$(git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || true)" \
	  cargo build --profile $(PROFILE) --locked --target $(musl)
	@"$$(deploy/tool/build.sh)" image --binary $(static_host) --output $(image_dir) --version $(version) \
	  --revision "$$(git rev-parse HEAD 2>/dev/null || true)" \
	  --created "$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
	@echo "$(image_dir)"

smoke: build plugins testserver ## Do what the README says under "Run it", against an API server
	@tests/readme.sh $(host) $(plugins_dir)

run: check-rust check-go testserver plugins ## Show the main job: an API server, the host, a Deployment that is created, scaled and rolled out
	$(call say,building the host and the demo)
	cargo build --locked --package pilothouse --package pilothouse-tests --bins
	@PILOTHOUSE_TESTSERVER="$$(tests/apiserver/build.sh)" PILOTHOUSE_BIN=$(target)/debug/pilothouse \
	  PILOTHOUSE_GUESTS=$(plugins_dir) exec $(target)/debug/demo

test: check-tools check-musl test-python testserver plugins guests deploytool ## Run every test
	@$(MAKE) --no-print-directory image PROFILE=dev
	$(call say,building the host and the tests)
	cargo build --locked --workspace --all-targets
	$(call say,testing)
	PILOTHOUSE_TESTSERVER="$$(tests/apiserver/build.sh)" PILOTHOUSE_BIN=$(target)/debug/pilothouse \
	  PILOTHOUSE_DEPLOYTOOL="$$(deploy/tool/build.sh)" PILOTHOUSE_IMAGE=$(target)/image-dev \
	  PILOTHOUSE_GUESTS=$(plugins_dir):$(guests_dir) cargo test --locked --workspace

test-python: check-python ## Run the tests of the Python SDK, of its documents and of the Python example
	$(call say,testing Python)
	cd plugins/sdk/python && python3 -B -m unittest discover --start-directory tests
	PYTHONPATH=plugins/sdk/python python3 -B -m unittest discover --start-directory examples/hello-python

test-slow: check-tools testserver plugins guests ## Run the tests that take minutes
	$(call say,building the host and the tests)
	cargo build --locked --workspace --all-targets
	$(call say,testing for half an hour and more)
	PILOTHOUSE_TESTSERVER="$$(tests/apiserver/build.sh)" PILOTHOUSE_BIN=$(target)/debug/pilothouse \
	  PILOTHOUSE_GUESTS=$(plugins_dir):$(guests_dir) cargo test --locked --workspace --no-fail-fast --test faults -- --ignored

soak: check-tools testserver plugins guests ## Run hostile guests and files thousands of times, a whole cluster's day, a thousand stories of the collector, thousands of stops of hosts, and a million schedules of sharing
	$(call say,building the host and the tests)
	cargo build --locked --workspace --all-targets
	$(call say,sharing: a million schedules)
	cargo test --release --locked --package pilothouse-core --lib million -- --ignored --nocapture
	$(call say,soaking for hours)
	PILOTHOUSE_TESTSERVER="$$(tests/apiserver/build.sh)" PILOTHOUSE_BIN=$(target)/debug/pilothouse \
	  PILOTHOUSE_GUESTS=$(plugins_dir):$(guests_dir) cargo test --locked --workspace --no-fail-fast --test all --test promises --test day --test ends --test hosts -- --ignored --nocapture --test-threads=1

bench: check-tools testserver plugins guests ## Measure, as ratios within one run
	$(call say,building the host and the benchmarks (release))
	cargo build --release --locked --workspace --features pilothouse-tests/reflector --bins --benches
	PILOTHOUSE_TESTSERVER="$$(tests/apiserver/build.sh)" PILOTHOUSE_BIN=$(target)/release/pilothouse \
	  PILOTHOUSE_GUESTS=$(plugins_dir):$(guests_dir) cargo bench --locked --workspace --features pilothouse-tests/reflector --bench changes --bench core --bench ends --bench fairness --bench hosts --bench idle --bench joining --bench kinds --bench loop --bench reload --bench plugins --bench patterns --bench reflector --bench workloads

lint: check-rust check-deny ## Formatting, clippy, each crate by itself, docs, shell syntax, licences
	cargo fmt --all --check
	@# rustfmt wraps code, not comments. The bindings are generated.
	@wide=$$(git ls-files '*.rs' ':!*/bindings.rs' | LC_ALL=C.UTF-8 xargs grep -nP '^(?= *//).{101,}$$' || true); \
	  [ -z "$$wide" ] || { printf '%s\n' "$$wide"; echo "these comments are wider than 100 columns: wrap them"; exit 1; }
	@wide=$$(git ls-files '*.py' ':!tests/apiserver' | LC_ALL=C.UTF-8 xargs grep -nP '^.{101,}$$' || true); \
	  [ -z "$$wide" ] || { printf '%s\n' "$$wide"; echo "these lines are wider than 100 columns: wrap them"; exit 1; }
	cargo clippy --locked --workspace --all-targets --features pilothouse-tests/reflector -- -D warnings
	@# In the workspace a crate has whatever features any other asks of a dependency; by itself, only those that it declares.
	@for crate in $$(cargo tree --locked --workspace --depth 0 --prefix none | awk 'NF {print $$1}'); do \
	  printf '==> checking %s by itself\n' "$$crate"; \
	  cargo check --locked --quiet --package "$$crate" || \
	    { echo "$$crate does not compile by itself: let its Cargo.toml name every feature that it uses"; exit 1; }; \
	done
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items --quiet
	@for script in plugins/build.sh examples/build-python.sh tests/apiserver/build.sh deploy/tool/build.sh tests/readme.sh tests/demo.sh .ci/run; do bash -n "$$script"; done
	cargo deny --all-features check --hide-inclusion-graph licenses bans sources
	@# The advisories are in a repository of their own, which is not to be reached from everywhere.
	@if cargo deny --all-features fetch db >/dev/null 2>&1; then cargo deny --all-features check --disable-fetch advisories; \
	  else echo "advisories not checked: their database cannot be reached"; fi

plugins: check-rust ## Build the shipped plugins: target/plugins/NAME.wasm
	$(call say,building plugins)
	@plugins/build.sh $(plugins_dir) $(rust_plugins)

guests: check-rust check-python ## Build the guests of examples and tests
	$(call say,building the guests of examples and tests)
	@plugins/build.sh $(guests_dir) $(test_guests)
	@examples/build-python.sh $(guests_dir) $(python_guests)

testserver: check-go ## Build the API server for tests (once; cached outside of the checkout)
	$(call say,building the test API server (the first time takes about ten minutes))
	@tests/apiserver/build.sh >/dev/null

deploytool: check-go ## Build what renders manifests and assembles images (once; cached outside of the checkout)
	$(call say,building what renders manifests (the first time takes minutes))
	@deploy/tool/build.sh >/dev/null

check-tools: check-rust check-go check-python
	@command -v git >/dev/null || { echo "git is missing: apt-get install git"; exit 1; }

check-rust:
	@command -v cargo >/dev/null || { echo "cargo is missing: install rustup from https://rustup.rs, then 'rustup toolchain install 1.95.0'"; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is missing: apt-get install build-essential"; exit 1; }

check-musl:
	@command -v musl-gcc >/dev/null || { echo "a C compiler for musl is missing (for static binaries): apt-get install musl-tools"; exit 1; }
	@rustup target list --installed | grep -qx $(musl) || rustup target add $(musl)

check-deny:
	@cargo deny --version >/dev/null 2>&1 || { echo "cargo-deny is missing: cargo install --locked cargo-deny"; exit 1; }

check-python:
	@command -v python3 >/dev/null || { echo "python3 is missing (for the Python SDK and its example): apt-get install python3 python3-venv"; exit 1; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "python3 is too old: $$(python3 --version); install Python 3.10 or newer"; exit 1; }
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "python3 has no venv (for the Python example): apt-get install python3-venv"; exit 1; }

check-go:
	@command -v go >/dev/null || { echo "go is missing: install Go 1.26 or newer from https://go.dev/dl"; exit 1; }
	@go version | awk '{split(substr($$3, 3), v, "."); if (v[1] < 1 || v[1] == 1 && v[2] < 26) {print "go is too old: " $$3 "; install Go 1.26 or newer from https://go.dev/dl"; exit 1}}'
