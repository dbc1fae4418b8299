# What continuous integration calls, one line each. `just` alone lists them.
default:
    @just --list

# Formats every crate.
fmt:
    cargo fmt --all

# Compiles everything and denies every warning.
check:
    cargo fmt --all -- --check && cargo clippy --workspace --all-features --all-targets -- -D warnings

# Every test that needs no service.
test:
    cargo test

# Every test, the database suites against the servers that `.ci/databases` finds or starts.
test-all:
    .ci/databases cargo test --workspace --all-features

# A million simulated runs; `just sim SEED=7` replays one.
sim *ARGS:
    env RUNS=1000000 {{ARGS}} cargo test --release --test simulation -- --nocapture

# Real faults on real sockets, the server killed a hundred times among them.
faults:
    env ROUNDS=8 RESTARTS=100 .ci/faults

# An hour of cut connections: memory, threads and files stay level.
soak *ARGS:
    cargo build --release
    tests/faults/soak.py --perilune target/release/perilune {{ARGS}}

# The documentation, warnings denied.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps

# Licences, bans and sources.
deny:
    cargo deny --all-features check bans licenses sources

# Known vulnerabilities; needs the advisory database from the network.
audit:
    cargo deny --all-features check advisories

# The benchmarks; figures are ratios within one run.
bench *ARGS:
    cargo bench --workspace --all-features {{ARGS}}

# All that continuous integration does.
all:
    .ci/run
