# What contributors type; `just --list` shows it. Each recipe only calls what is there without just, too.

# Formatting, lints, scripts and the laws of the repository
check:
    bash -euo pipefail -c '. integration/lib/common.sh; . integration/lib/style.sh; check_scripts'
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
    cargo test --quiet --locked --package hostlet-tidy

# Unit, property and fuzz tests: no root, no containerd. With cargo-nextest where it is installed
test *ARGS:
    if cargo nextest --version >/dev/null 2>&1; then \
        cargo nextest run --workspace --locked --lib --bins --test program --test tidy --test fuzz {{ARGS}}; \
    else \
        cargo test --workspace --locked --no-fail-fast --lib --bins --test program --test tidy --test fuzz {{ARGS}}; \
    fi

# The simulation, as many steps as given
sim STEPS='1000000':
    HOSTLET_SIMULATION_STEPS={{STEPS}} cargo test --locked --package hostlet-engine lifecycle::simulation

# A node left alone for a year, or as many days as given: minutes of one core
year DAYS='365':
    HOSTLET_SIMULATION_DAYS={{DAYS}} cargo test --release --locked --package hostlet-engine lifecycle::simulation::year -- --nocapture

# The managers of CPUs, memory and topology against a stock kubelet's, on as many random machines as given
managers CASES='10000':
    HOSTLET_TEST_MANAGERS_CASES={{CASES}} cargo test --locked --test managers --package hostlet-managers-oracle -- --nocapture

# Everything, on a real containerd and in a real cluster: what continuous integration runs
e2e:
    sudo ./integration/test.sh

# Faults on a real containerd and in a cluster, in slices whose seeds are printed: two hours or more
storm FAULTS='2000':
    sudo ./integration/storm.sh {{FAULTS}}

# hostlet as a systemd service in virtual machines; names of scenarios, --quick or --list as arguments
vm *ARGS:
    sudo ./integration/vm.sh {{ARGS}}

# Kubernetes' own tests of nodes; --focus REGEX or --report DIRECTORY as arguments
conformance *ARGS:
    sudo ./integration/conformance.sh {{ARGS}}

# Kubernetes' own tests of a kubelet; --focus REGEX or --report DIRECTORY as arguments
kubelet-tests *ARGS:
    sudo ./integration/kubelet_tests.sh {{ARGS}}

# Time, memory and CPU beside bare calls and the stock kubelet; names of scenarios as arguments
bench *ARGS:
    sudo ./integration/bench.sh {{ARGS}}
