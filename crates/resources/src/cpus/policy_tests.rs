//! What the static policy needs of a machine.

use super::*;
use crate::testing::{cpu_set, machine};

/// Two sockets with a node each, of two cores with two threads.
fn policy(options: CpuOptions, milli: i64, cpus: &str) -> Result<StaticCpus, String> {
    let reservation = CpuReservation { milli, cpus: cpu_set(cpus) };
    let machine = Arc::new(machine(2, 1, 2, 2));
    StaticCpus::new(machine, options, &reservation, TopologyPolicy::SingleNumaNode, false)
        .map_err(|error| error.to_string())
}

#[test]
fn reserved_cpus_are_of_the_first_cores() {
    for (milli, expected) in [(100, "0"), (1000, "0"), (1001, "0-1"), (4100, "0-4"), (8000, "0-7")] {
        let reserved = policy(CpuOptions::default(), milli, "").unwrap().reserved;
        assert_eq!(reserved.to_string(), expected, "{milli}");
    }
    let explicit = policy(CpuOptions::default(), 2000, "1,6").unwrap();
    assert_eq!(
        (explicit.reserved.to_string(), explicit.reserved_cores.to_string()),
        ("1,6".into(), "0-1,6-7".into())
    );
}

#[test]
fn what_is_impossible_is_an_error_in_upstreams_words() {
    let by_socket = CpuOptions { align_by_socket: true, ..CpuOptions::default() };
    for (options, milli, cpus, error) in [
        (
            CpuOptions::default(),
            0,
            "",
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
        ),
        (
            CpuOptions::default(),
            9000,
            "",
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of  did not equal 9)",
        ),
        (
            CpuOptions::default(),
            1000,
            "0-1",
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of 0-1 did not equal 1)",
        ),
        (
            CpuOptions::default(),
            1000,
            "8",
            "new static policy error: [cpumanager] unable to build the reserved physical CPUs from the reserved set: unknown CPU ID: 8",
        ),
        (
            by_socket,
            1000,
            "",
            "new static policy error: Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option",
        ),
    ] {
        assert_eq!(policy(options, milli, cpus).map(|policy| policy.reserved).unwrap_err(), error);
    }
    let small_sockets = Arc::new(Machine {
        cpus: (0..2)
            .map(|cpu| (cpu, crate::machine::CpuPlace { node: 0, socket: cpu, core: cpu, cache: cpu }))
            .collect(),
        ..Machine::default()
    });
    let reservation = CpuReservation { milli: 1, cpus: CpuSet::new() };
    let result = StaticCpus::new(small_sockets, by_socket, &reservation, TopologyPolicy::None, false);
    assert_eq!(result.map(|policy| policy.reserved), Err(CpuPolicyError::SmallSockets));
}
