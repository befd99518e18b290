//! What is kept from pods and how that is enforced: reservations, `enforceNodeAllocatable` and `qosReserved`, their rules and their
//! settings. Knows no machine.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::settings::{Daemons, EnforcedReservation};
use hostlet_base::{Quantity, ResourceList, cpu_list};

use super::breach::Breach;
use super::gates;
use super::wire::KubeletConfiguration;

const ENFORCE: &str = "enforceNodeAllocatable";
const QOS_RESERVED: &str = "qosReserved";

/// Resources that may be reserved.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// A value of `enforceNodeAllocatable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enforced {
    Nothing,
    Pods,
    Daemons { whose: Daemons, is_compressible: bool },
}

impl Enforced {
    const ALL: [(&str, Self); 6] = [
        ("pods", Self::Pods),
        ("system-reserved", Self::Daemons { whose: Daemons::System, is_compressible: false }),
        ("system-reserved-compressible", Self::Daemons { whose: Daemons::System, is_compressible: true }),
        ("kube-reserved", Self::Daemons { whose: Daemons::Kube, is_compressible: false }),
        ("kube-reserved-compressible", Self::Daemons { whose: Daemons::Kube, is_compressible: true }),
        ("none", Self::Nothing),
    ];

    fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(name, enforced)| (name == word).then_some(enforced))
    }
}

/// The fields of one reservation.
struct Fields<'k> {
    cgroup: (&'static str, &'k str),
    amounts: (&'static str, Option<&'k BTreeMap<String, String>>),
}

fn fields(kc: &KubeletConfiguration, whose: Daemons) -> Fields<'_> {
    match whose {
        Daemons::System => Fields {
            cgroup: ("systemReservedCgroup", kc.system_reserved_cgroup.as_deref().unwrap_or_default()),
            amounts: ("systemReserved", kc.system_reserved.as_ref()),
        },
        Daemons::Kube => Fields {
            cgroup: ("kubeReservedCgroup", kc.kube_reserved_cgroup.as_deref().unwrap_or_default()),
            amounts: ("kubeReserved", kc.kube_reserved.as_ref()),
        },
    }
}

/// The values that are set.
fn enforced(kc: &KubeletConfiguration) -> impl Iterator<Item = Enforced> {
    kc.enforce_node_allocatable.iter().flatten().filter_map(|word| Enforced::named(word))
}

/// Whether all pods together are limited to what is not reserved.
pub(super) fn limits_pods(kc: &KubeletConfiguration) -> bool {
    enforced(kc).any(|enforced| enforced == Enforced::Pods)
}

/// The reservations of a valid configuration that are enforced, in upstream's order.
pub(super) fn enforced_reservations(kc: &KubeletConfiguration) -> Vec<EnforcedReservation> {
    let all: Vec<Enforced> = enforced(kc).collect();
    let listed = Enforced::ALL.into_iter().filter(|(_, enforced)| all.contains(enforced));
    let reservation = |(_, enforced)| match enforced {
        Enforced::Nothing | Enforced::Pods => None,
        Enforced::Daemons { whose, is_compressible } => {
            let Fields { cgroup: (_, cgroup), amounts: (_, amounts) } = fields(kc, whose);
            let amounts = amounts.into_iter().flatten();
            let amounts =
                amounts.filter_map(|(name, text)| Some((name.clone(), Quantity::parse(text).ok()?)));
            let resources: ResourceList = amounts.collect();
            Some(EnforcedReservation {
                daemons: whose,
                is_compressible,
                cgroup: cgroup.to_owned(),
                resources,
            })
        }
    };
    listed.filter_map(reservation).collect()
}

/// The percentage of the memory requests of better classes that worse ones cannot use; `None` without the feature gate `QOSReserved`.
pub(super) fn reserved_memory_percent(kc: &KubeletConfiguration) -> Option<u8> {
    let text = kc.qos_reserved.as_ref()?.get("memory")?;
    percent(text).filter(|_| has_gate(kc))
}

fn has_gate(kc: &KubeletConfiguration) -> bool {
    gates::enabled(gates::QOS_RESERVED, kc.feature_gates.as_ref())
}

/// A part from 0 to 100, as `50%`.
fn percent(text: &str) -> Option<u8> {
    text.strip_suffix('%')?.parse().ok().filter(|percent| *percent <= 100)
}

/// What is set and has no effect.
pub(super) fn idle(kc: &KubeletConfiguration) -> Option<Breach> {
    let is_set = kc.qos_reserved.as_ref().is_some_and(|reserved| !reserved.is_empty());
    (is_set && !has_gate(kc)).then(|| {
        let message =
            "this has no effect without the feature gate QOSReserved; switch that on, or remove this";
        (QOS_RESERVED.to_owned(), message.to_owned())
    })
}

/// The violations of rules.
pub(super) fn breaches(kc: &KubeletConfiguration) -> Vec<Breach> {
    let mut all = words(kc);
    all.extend(amounts(kc));
    all.extend(classes(kc));
    let breach = |path: &str, message: String| (path.to_owned(), message);
    if let Some(cpus) = kc.reserved_system_cpus.as_deref().filter(|cpus| !cpus.is_empty()) {
        const PATH: &str = "reservedSystemCPUs";
        all.extend(cpu_list(cpus).err().map(|wrong| breach(PATH, wrong.to_string())));
        let has_cgroup = |whose| !fields(kc, whose).cgroup.1.is_empty();
        if has_cgroup(Daemons::System) || has_cgroup(Daemons::Kube) {
            let message = "cannot be combined with systemReservedCgroup or kubeReservedCgroup";
            all.push(breach(PATH, message.to_owned()));
        }
    }
    all
}

/// The rules of `enforceNodeAllocatable`.
fn words(kc: &KubeletConfiguration) -> Vec<Breach> {
    let mut messages = Vec::new();
    let mut seen = BTreeSet::new();
    let set = kc.enforce_node_allocatable.as_deref().unwrap_or_default();
    for word in set {
        if !seen.insert(word.as_str()) {
            messages.push(format!("{word:?} is listed twice"));
            continue;
        }
        match Enforced::named(word) {
            None => {
                let names = Enforced::ALL.map(|(name, _)| name).join(", ");
                messages.push(format!("{word:?} must be one of {names}"));
                continue;
            }
            Some(Enforced::Nothing) => {
                if set.len() > 1 {
                    messages.push(format!("{word:?} cannot be combined with others"));
                }
                continue;
            }
            Some(Enforced::Pods) => {}
            Some(Enforced::Daemons { whose, .. }) => messages.extend(of_daemons(word, fields(kc, whose))),
        }
        if kc.cgroups_per_qos == Some(false) {
            messages.push(format!("{word:?} needs cgroupsPerQOS: true; set enforceNodeAllocatable: [none]"));
        }
    }
    for kind in ["system-reserved", "kube-reserved"] {
        let compressible = format!("{kind}-compressible");
        if seen.contains(kind) && seen.contains(compressible.as_str()) {
            messages.push(format!("{kind:?} and {compressible:?} exclude each other"));
        }
    }
    messages.into_iter().map(|message| (ENFORCE.to_owned(), message)).collect()
}

/// What a reservation lacks to be enforced. Upstream finds missing amounts when it starts, with the same result.
fn of_daemons(word: &str, fields: Fields<'_>) -> Option<String> {
    let (cgroup_field, cgroup) = fields.cgroup;
    let (amounts_field, amounts) = fields.amounts;
    match cgroup {
        "" => Some(format!("{word:?} needs {cgroup_field}")),
        _ if cgroup.split('/').all(str::is_empty) => {
            Some(format!("{word:?} needs a {cgroup_field} other than the root, in which pods are, too"))
        }
        _ if amounts.is_none_or(BTreeMap::is_empty) => {
            Some(format!("{word:?} needs {amounts_field}: without amounts there is nothing to enforce"))
        }
        _ => None,
    }
}

/// Reservations: known resources with valid, non-negative amounts.
fn amounts(kc: &KubeletConfiguration) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for whose in [Daemons::Kube, Daemons::System] {
        let (field, amounts) = fields(kc, whose).amounts;
        for (resource, text) in amounts.into_iter().flatten() {
            let mut add = |message| breaches.push((format!("{field}.{resource}"), message));
            if !RESERVABLE.contains(&resource.as_str()) {
                add(format!("must be one of {}", RESERVABLE.join(", ")));
            }
            match Quantity::parse(text) {
                Ok(amount) if amount.is_negative() => add(format!("{text:?} must not be negative")),
                Ok(_) => {}
                Err(error) => add(format!("{text:?}: {error}")),
            }
        }
    }
    breaches
}

/// The rules of `qosReserved`, which upstream checks without its feature gate, too.
fn classes(kc: &KubeletConfiguration) -> Vec<Breach> {
    let breach = |(resource, text): (&String, &String)| {
        let message = match (resource.as_str(), percent(text)) {
            ("memory", Some(_)) => return None,
            ("memory", None) => format!("{text:?} must be a percentage from 0% to 100%"),
            _ => "must be memory".to_owned(),
        };
        Some((format!("{QOS_RESERVED}.{resource}"), message))
    };
    kc.qos_reserved.iter().flatten().filter_map(breach).collect()
}

#[cfg(test)]
#[path = "reservations_tests.rs"]
mod tests;
