//! Makes reservations the limits of the cgroups in which the host's daemons run (`enforceNodeAllocatable`), once at each start, as
//! upstream. Never creates a cgroup.

use std::sync::Arc;

use hostlet_base::node::{CgroupLimit, CgroupLimits, NodeEvent, NodeEvents};
use hostlet_base::resources::{CPU, MEMORY, PID, in_units};
use hostlet_base::settings::{Daemons, EnforcedReservation};
use hostlet_base::{ResourceList, error_chain};
use hostlet_host::cgroup::{CgroupError, Cgroups, DaemonResources};

/// The reservations to enforce.
pub struct ReservedCgroups {
    /// The host's cgroups.
    pub cgroups: Arc<Cgroups>,
    /// Those of the configuration.
    pub reservations: Vec<EnforcedReservation>,
    /// Whether reserved memory is protected, too (the feature gate `MemoryQoS`).
    pub protects_memory: bool,
    /// Receives the results.
    pub events: NodeEvents,
    /// Where they are published.
    pub limits: CgroupLimits,
}

/// A reservation that cannot be enforced.
#[derive(Debug, thiserror::Error)]
#[error(
    "enforceNodeAllocatable: the reservation {word:?} cannot be enforced on the cgroup {cgroup}; fix that, or remove {word:?}"
)]
pub struct NotEnforced {
    word: &'static str,
    cgroup: String,
    source: Box<CgroupError>,
}

impl ReservedCgroups {
    /// Enforces all of them; stops at the first that fails, without which a node must not run pods, as upstream. Blocking.
    pub fn enforce(&self) -> Result<(), NotEnforced> {
        self.reservations.iter().try_for_each(|reservation| self.enforce_one(reservation))
    }

    fn enforce_one(&self, reservation: &EnforcedReservation) -> Result<(), NotEnforced> {
        let resources = limits(reservation, self.protects_memory);
        let result = self.cgroups.limit_daemons(&reservation.cgroup, &resources);
        let problem = result.as_ref().err().map(|error| error_chain(error));
        let event = match &problem {
            None => enforced_event(reservation),
            Some(error) => not_enforced_event(reservation, error),
        };
        (self.events)(event);
        let amounts = enforced_amounts(reservation);
        let limit = CgroupLimit {
            of: reservation.word().to_owned(),
            cgroup: reservation.cgroup.clone(),
            amounts: amounts.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect(),
            problem,
        };
        limit.publish(&self.limits);
        result.map_err(|source| NotEnforced {
            word: reservation.word(),
            cgroup: reservation.cgroup.clone(),
            source: Box::new(source),
        })
    }
}

/// The reserved amounts for which there is a limit.
fn enforced_amounts(reservation: &EnforcedReservation) -> ResourceList {
    let is_enforced = |name: &str| match name {
        CPU => true,
        MEMORY | PID => !reservation.is_compressible,
        _ => false,
    };
    reservation.resources.clone().only(is_enforced)
}

fn limits(reservation: &EnforcedReservation, protects_memory: bool) -> DaemonResources {
    let amounts = enforced_amounts(reservation);
    let amount = |name: &str| amounts.get(name).map(|amount| in_units(name, amount));
    DaemonResources {
        milli_cpu: amount(CPU),
        memory: amount(MEMORY),
        is_memory_protected: protects_memory,
        pids: amount(PID),
        // None can be reserved.
        has_no_huge_pages: !reservation.is_compressible,
    }
}

fn enforced_event(reservation: &EnforcedReservation) -> NodeEvent {
    let whose = match reservation.daemons {
        Daemons::System => "system",
        Daemons::Kube => "kube",
    };
    let message = format!("Updated limits on {whose} reserved cgroup {}", reservation.cgroup);
    NodeEvent::normal("NodeAllocatableEnforced", message)
}

fn not_enforced_event(reservation: &EnforcedReservation, error: &str) -> NodeEvent {
    let whose = match reservation.daemons {
        Daemons::System => "System",
        Daemons::Kube => "Kube",
    };
    let part = if reservation.is_compressible { " Compressible" } else { "" };
    let cgroup = &reservation.cgroup;
    let message = format!("Failed to enforce {whose} Reserved{part} Cgroup Limits on {cgroup:?}: {error}");
    NodeEvent::warning("FailedNodeAllocatableEnforcement", message)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hostlet_base::testing::resource_list;
    use hostlet_host::cgroup::CgroupVersion;
    use hostlet_observe::stats::testing::FakeHost;
    use parking_lot::Mutex;

    use super::*;

    fn reservation(daemons: Daemons, is_compressible: bool, cgroup: &str) -> EnforcedReservation {
        let amounts = [("cpu", "1"), ("memory", "1Gi"), ("pid", "1000"), ("ephemeral-storage", "1Gi")];
        EnforcedReservation {
            daemons,
            is_compressible,
            cgroup: cgroup.to_owned(),
            resources: resource_list(amounts),
        }
    }

    #[test]
    fn each_reservation_is_enforced_and_reported_until_one_fails() {
        let host = FakeHost::new(CgroupVersion::V2);
        for path in ["/system", "/kube"] {
            host.add_cgroup(path);
            host.set(path, "cgroup.controllers", "cpu memory pids");
        }
        let reported = Arc::new(Mutex::new(Vec::new()));
        let events = reported.clone();
        let reserved = |reservations: Vec<EnforcedReservation>| ReservedCgroups {
            cgroups: host.cgroups.clone(),
            reservations,
            protects_memory: true,
            events: {
                let events = events.clone();
                Arc::new(move |event: NodeEvent| {
                    events.lock().push(format!("{}: {}", event.reason, event.message))
                })
            },
            limits: CgroupLimits::default(),
        };
        let system = reservation(Daemons::System, false, "/system");
        let kube = reservation(Daemons::Kube, true, "kube");
        let both = reserved(vec![system, kube]);
        both.enforce().unwrap();
        let read = |path: &str, file: &str| {
            fs::read_to_string(host.path().join("cgroup").join(path).join(file)).unwrap().trim().to_owned()
        };
        let files = ["cpu.weight", "memory.max", "memory.min", "pids.max"];
        assert_eq!(files.map(|file| read("system", file)), ["39", "1073741824", "1073741824", "1000"]);
        assert_eq!(files.map(|file| read("kube", file)), ["39", "67108864", "0", "max"], "its CPU alone");
        assert_eq!(
            reported.lock().split_off(0),
            [
                "NodeAllocatableEnforced: Updated limits on system reserved cgroup /system",
                "NodeAllocatableEnforced: Updated limits on kube reserved cgroup kube",
            ]
        );
        let shown: Vec<_> = both.limits.borrow().iter().map(|l| (l.of.clone(), l.amounts.len())).collect();
        assert_eq!(shown, [("system-reserved".to_owned(), 3), ("kube-reserved-compressible".to_owned(), 1)]);

        let absent = reserved(vec![
            reservation(Daemons::Kube, true, "/absent"),
            reservation(Daemons::System, false, "/system"),
        ]);
        let error = error_chain(&absent.enforce().unwrap_err());
        assert!(
            error.contains("\"kube-reserved-compressible\"") && error.contains("does not exist"),
            "{error}"
        );
        let [event] = reported.lock().split_off(0).try_into().unwrap();
        let start = "FailedNodeAllocatableEnforcement: Failed to enforce Kube Reserved Compressible Cgroup Limits on \"/absent\": ";
        assert!(event.starts_with(start), "{event}");
        assert!(absent.limits.borrow()[0].problem.is_some());
    }
}
