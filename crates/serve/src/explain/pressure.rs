//! What the node is short of, in sentences. Pure.

use hostlet_base::Quantity;
use hostlet_base::node::{NodePressure, Pressure, Signal, SignalLook};

/// A sentence for each active pressure: which signals are below which threshold.
pub(crate) fn pressure_sentences(pressure: &NodePressure) -> Vec<String> {
    let sentence = |active: Pressure| {
        let looks = Signal::of(active).filter_map(|signal| Some((signal, pressure.looks.get(&signal)?)));
        let crossed: Vec<String> = looks.filter_map(|(signal, look)| crossed(signal, look)).collect();
        let condition = active.condition();
        match crossed.is_empty() {
            false => format!("The node is under {condition}: {}.", crossed.join("; ")),
            true => format!(
                "The node was under {condition} until recently, and says so until evictionPressureTransitionPeriod is over."
            ),
        }
    };
    pressure.active().into_iter().map(sentence).collect()
}

/// `memory.available is 50Mi of 2Gi, less than 100Mi`; `None` if it is not below a threshold.
fn crossed(signal: Signal, look: &SignalLook) -> Option<String> {
    let available = Quantity::parse(&look.available).ok()?;
    let thresholds = [(&look.threshold, ""), (&look.soft_threshold, " (soft)")];
    let below = thresholds.into_iter().find_map(|(threshold, kind)| {
        let threshold = threshold.as_ref()?;
        (available < Quantity::parse(threshold).ok()?).then(|| format!("{threshold}{kind}"))
    })?;
    let SignalLook { available, capacity, .. } = look;
    Some(format!("{} is {available} of {capacity}, less than {below}", signal.name()))
}

#[cfg(test)]
mod tests {
    use hostlet_base::testing::at;

    use super::*;

    #[test]
    fn what_is_short_is_named_with_its_threshold() {
        let look = |available: &str, threshold: Option<&str>, soft: Option<&str>| SignalLook {
            at: at(0),
            available: available.to_owned(),
            capacity: "2Gi".to_owned(),
            threshold: threshold.map(str::to_owned),
            soft_threshold: soft.map(str::to_owned),
        };
        let mut pressure = NodePressure::from([Pressure::Memory, Pressure::Disk, Pressure::Pid]);
        pressure.looks = [
            (Signal::MemoryAvailable, look("50Mi", Some("100Mi"), None)),
            (Signal::AllocatableMemoryAvailable, look("500Mi", Some("100Mi"), None)),
            (Signal::NodefsAvailable, look("90Mi", Some("1Mi"), Some("1Gi"))),
            (Signal::ImagefsAvailable, look("0", Some("10Mi"), Some("1Gi"))),
            (Signal::PidAvailable, look("1k", Some("100"), None)),
        ]
        .into();
        assert_eq!(
            pressure_sentences(&pressure),
            [
                "The node is under MemoryPressure: memory.available is 50Mi of 2Gi, less than 100Mi.",
                "The node is under DiskPressure: nodefs.available is 90Mi of 2Gi, less than 1Gi (soft); imagefs.available is 0 of \
                 2Gi, less than 10Mi.",
                "The node was under PIDPressure until recently, and says so until evictionPressureTransitionPeriod is over.",
            ]
        );
        assert!(pressure_sentences(&NodePressure::from([])).is_empty());
    }
}
