# `make help` lists the targets. A fresh machine needs only the compilers: Rust through rustup, Go, a C compiler.
# Everything that is built lands in target/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

N ?= 200
SERVICE_ACCOUNT ?= 0
CRDS ?= 0
NOISE ?= 0
CLUSTER ?= own
TARGET ?= archive
TIME ?= 600
STORIES ?= 100000
STORY_SEED ?= 0

target := $(abspath $(or $(CARGO_TARGET_DIR),target))
devcluster := tests/devcluster
fuzz_targets := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
# The demo, the scale run and the soak are one program; see tests/stage/main.rs.
stage := cargo test --quiet --test stage --

.PHONY: help
help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The control plane is compiled by Go and the rest by Cargo, side by side: each leaves a core idle while it downloads and links.
beside := @$(MAKE) --jobs=2

.PHONY: demo
demo: ## the main job, step by step. CLUSTER=current: on the cluster of KUBECONFIG; SEED=n: the same kills again
	$(beside) $(if $(filter current,$(CLUSTER)),kubectl,control-plane) stage
	@CLUSTER=$(CLUSTER) $(stage) demo

.PHONY: check
check: lint ## format, lints and unit tests: what to run after every change
	cargo test --lib

.PHONY: test test-all
test: ready-to-test ## all checks, and all tests but the whole matrices of crashes. TEST=hooks: only tests/behaviour/hooks.rs
	@tests/suite.sh $(TEST)

test-all: ready-to-test ## the same with the whole matrices: the operator broken at every single write
	@tests/suite.sh all $(TEST)

.PHONY: scale
scale: ## speed and cost with N=200 releases, as one JSON object; about 5 minutes. SERVICE_ACCOUNT=1: all in the name of one account, =n: of n; CRDS=500 NOISE=10000: beside so much of others
	$(beside) control-plane stage
	@cargo build --release
	@SHERPACK_OPERATOR=$${SHERPACK_OPERATOR:-$(target)/release/sherpack-operator} N=$(N) SERVICE_ACCOUNT=$(SERVICE_ACCOUNT) CRDS=$(CRDS) NOISE=$(NOISE) $(stage) scale

.PHONY: compare
compare: ## the last scale run beside the figures of other systems, with their sources
	@$(stage) compare

.PHONY: soak
soak: ## a long random story of many releases while everything around them fails. MINUTES=30 SEED=n RELEASES=30
	$(beside) control-plane stage
	@MINUTES=$(or $(MINUTES),30) $(if $(SEED),SEED=$(SEED)) $(if $(RELEASES),RELEASES=$(RELEASES)) $(stage) soak

.PHONY: attack
attack: ## a tenant does all that it can to the operator, beside 20 releases of others. MINUTES=5 DEEDS=renders,waits: only these
	$(beside) control-plane stage
	@cargo build --release
	@SHERPACK_OPERATOR=$${SHERPACK_OPERATOR:-$(target)/release/sherpack-operator} MINUTES=$(or $(MINUTES),5) DEEDS=$(DEEDS) $(stage) attack

.PHONY: stories
stories: ## random stories of one release on a model of the cluster; a few minutes. STORIES=100000 STORY_SEED=n
	STORIES=$(STORIES) STORY_SEED=$(STORY_SEED) cargo test --lib release::story

.PHONY: cluster cluster-stop clean-cluster
cluster: ## leave a control plane running and print its KUBECONFIG
	@$(devcluster)/cluster.sh start

cluster-stop: ## end it
	@$(devcluster)/cluster.sh stop

clean-cluster: cluster-stop ## end it and throw away the binaries of the control plane
	rm -rf target/devcluster

.PHONY: lint fmt crds docs deny
lint: components ## format, lints and links of the code's documentation, as `make test` does first
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	@# The stage is no part of `cargo test`, so `--all-targets` leaves it out.
	cargo clippy --test stage -- -D warnings
	@# A link that leads nowhere is found only here; of what is private and of what is public, because either may link to the other.
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --document-private-items
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps

fmt: components ## format the code
	cargo fmt

crds: ## generate crds/ and the chart's copy anew from the code
	@mkdir -p target
	cargo run --quiet -- crd >target/crd.yaml
	cp target/crd.yaml crds/sherpack.io_sherpackreleases.yaml
	cp target/crd.yaml charts/sherpack-operator/files/sherpack.io_sherpackreleases.yaml

docs: ## generate docs/reference anew from the code
	WRITE_DOCS=1 cargo test --quiet --lib docs::the_reference

deny: $(or $(shell command -v cargo-deny),target/tools/bin/cargo-deny) ## licences, bans, sources and known flaws of what the binary is made of
	PATH="$$PWD/target/tools/bin:$$PATH" cargo deny check

.PHONY: bench
bench: ## speed and memory of rendering, speed of comparing definitions
	cargo bench --bench render --bench render_memory --bench crd_diff

.PHONY: fuzz
fuzz: target/tools/bin/cargo-fuzz ## look for inputs that harm: TARGET=archive TIME=600; needs a nightly toolchain
	@mkdir -p target/fuzz/corpus/$(TARGET)
	PATH="$$PWD/target/tools/bin:$$PATH" CARGO_TARGET_DIR=$$PWD/target/fuzz/build cargo +nightly fuzz run --sanitizer none $(TARGET) \
	  target/fuzz/corpus/$(TARGET) fuzz/corpus/$(TARGET) -- -max_total_time=$(TIME) -timeout=20 -rss_limit_mb=2048 -max_len=16384

.PHONY: fuzz-all
fuzz-all: ## each target of fuzz/ for TIME seconds
	@failed=; for target in $(fuzz_targets); do $(MAKE) fuzz TARGET=$$target || failed+=" $$target"; done; \
	  [[ -z $$failed ]] || { echo "found something:$$failed; see fuzz/artifacts" >&2; exit 1; }

# What the targets above need.

.PHONY: ready-to-test compiled stage
ready-to-test:
	$(beside) control-plane-and-helm $(if $(TEST),,compiled)

compiled: lint
	cargo test --no-run

stage:
	cargo build --test stage

.PHONY: control-plane control-plane-and-helm
control-plane:
	@$(devcluster)/build.sh cluster

control-plane-and-helm:
	@$(devcluster)/build.sh

.PHONY: kubectl
kubectl:
	@command -v kubectl >/dev/null || $(devcluster)/build.sh cluster

# rust-toolchain.toml names the components, so rustup usually has them already.
.PHONY: components
components:
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

target/tools/bin/cargo-deny:
	cargo install --locked --root target/tools --version 0.20.2 cargo-deny

target/tools/bin/cargo-fuzz:
	cargo install --locked --root target/tools --version 0.13.2 cargo-fuzz
