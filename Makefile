# make demo   the main job, on an emulated disk: needs a Rust toolchain, nothing else
# make test   every test, with real NBD clients, which it installs
# make bench  speed, as ratios in one run
# make soak   the long runs: thousands of seeds, fuzzing
# make ci     what has to pass before a push

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
SPINDLE := $(TARGET)/release/spindle
# The clients that the live tests talk with.
CLIENTS := fio libnbd-bin openssl qemu-utils
LENGTH ?= 20

.PHONY: demo test unit determinism guest clients bench shares preempt clockwise soak fuzz ci format lint doc deny clean build

demo: build
	$(SPINDLE) demo --seconds $(LENGTH) --out out

build:
	$(CARGO) build --release --locked -p spindle

test: clients unit determinism guest

unit: clients
	$(CARGO) test --workspace --locked --no-fail-fast

# One seed, one result: in debug and in release.
determinism: build
	$(CARGO) build --locked -p spindle
	for scenario in examples/*.toml; do \
	  cmp <($(TARGET)/debug/spindle sim run --json $$scenario) <($(SPINDLE) sim run --json $$scenario) \
	    || { echo "$$scenario: debug and release differ"; exit 1; }; \
	done
	cmp <($(TARGET)/debug/spindle sim reproduce --json --out out/same) <($(SPINDLE) sim reproduce --json --out out/same) \
	  || { echo "experiments: debug and release differ"; exit 1; }
	@echo "debug and release give the same JSON"

# ext4 in a Linux guest, on an exported volume.
guest: build
	SPINDLE=$(abspath $(SPINDLE)) bash tests/guest/run.sh

clients:
	@missing=(); for p in $(CLIENTS); do dpkg -s $$p >/dev/null 2>&1 || missing+=($$p); done; \
	if (($${#missing[@]})); then \
	  echo "installing $${missing[*]}"; root=; [ "$$(id -u)" = 0 ] || root=sudo; \
	  $$root apt-get update -q >/dev/null; \
	  DEBIAN_FRONTEND=noninteractive $$root apt-get install -y -q --no-install-recommends "$${missing[@]}" >/dev/null; \
	fi

bench:
	$(CARGO) bench --locked -p spindle-engine --bench engine
	$(CARGO) bench --locked -p spindle-engine --bench admission
	$(CARGO) bench --locked -p spindle-sim --bench sim
	$(CARGO) bench --locked -p spindle-control --bench api
	$(CARGO) bench --locked -p spindle-volume --bench pool

# Shares and insulation with fio, live: about nine minutes.
shares: build clients
	$(SPINDLE) bench shares --seconds $(LENGTH)
	$(SPINDLE) bench vdisk
	$(SPINDLE) bench insulation

# Who cannot wait beside who reads much, live: about eight minutes.
preempt: build
	$(SPINDLE) bench preempt

# Best effort beside streams, live and simulated: about ten minutes.
clockwise: build
	$(SPINDLE) bench clockwise

soak: fuzz
	$(CARGO) run --release --locked -p spindle-sim --example soak -- 1000 20000
	$(CARGO) run --release --locked -p spindle-sim --example deadlines -- delta-l 0 1000000
	$(CARGO) run --release --locked -p spindle-sim --example deadlines -- delta-star 0 1000000
	SPINDLE_CASES=50000 $(CARGO) test --release --locked -p spindle-engine --test promises
	SPINDLE_CASES=20000 $(CARGO) test --release --locked -p spindle-engine --test changes
	SPINDLE_CASES=100000 $(CARGO) test --release --locked -p spindle-engine --test admission --test timetable
	SPINDLE_CASES=1000 $(CARGO) test --release --locked -p spindle-volume --test crash --test flips
	SPINDLE_CASES=5000 $(CARGO) test --release --locked -p spindle-volume --test flow
	SPINDLE_CASES=200000 $(CARGO) test --release --locked -p spindle-control --test fuzz
	SPINDLE_KILLS=200 $(CARGO) test --release --locked -p spindle --test control -- --nocapture killed
	SPINDLE_CASES=5000000 $(CARGO) test --release --locked -p spindle-trace --test mutations
	SPINDLE_CASES=20 $(CARGO) test --release --locked -p spindle-profiler --test dynamics -- --nocapture

# Malformed handshakes, requests and configs, from fixed seeds on.
fuzz:
	$(CARGO) run --release --locked -p spindle-frontend --example fuzz_session -- 1 2000000
	$(CARGO) run --release --locked -p spindle-config --example fuzz_config -- 1 3000000

ci: format lint doc test

format:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# Licences and sources of what comes from outside; needs cargo-deny.
deny:
	$(CARGO) deny check bans licenses sources

clean:
	$(CARGO) clean
	rm -rf out
