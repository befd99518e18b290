//! When pods are evicted under pressure: the texts of thresholds, periods and reclaims (upstream's `ParseThresholdConfig`).

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::node::{Signal, Threshold};
use hostlet_base::settings::{EvictionSettings, EvictionThreshold, StallLimits};
use hostlet_base::{GoDuration, Quantity};

use super::flags::ProcessFlags;
use super::gates;
use super::hostlet::HostletConfiguration;
use super::node::{NodeSettingError, threshold};
use super::reservations;
use super::values::time;
use super::wire::KubeletConfiguration;

type Texts = BTreeMap<String, String>;

/// Extracts the settings from a complete and valid configuration.
pub(super) fn eviction(
    kubelet: &KubeletConfiguration,
    hostlet: &HostletConfiguration,
    flags: &ProcessFlags,
) -> EvictionSettings {
    let limit = |text: &Option<String>| text.as_deref().and_then(|text| stall_limit(text).ok()?);
    let gate = |gate: &str| gates::enabled(gate, kubelet.feature_gates.as_ref());
    let limits_pods = reservations::limits_pods(kubelet);
    EvictionSettings {
        // As upstream, whoever keeps thresholds out of allocatable has none for it either.
        thresholds: thresholds(kubelet, limits_pods && !flags.experimental_allocatable_ignore_eviction),
        pressure_transition: time(kubelet.eviction_pressure_transition_period),
        max_pod_grace_seconds: kubelet.eviction_max_pod_grace_period.unwrap_or_default().into(),
        kernel_notifies: kubelet.kernel_memcg_notification.unwrap_or_default(),
        stalls: StallLimits {
            some: limit(&hostlet.eviction_stall_some),
            full: limit(&hostlet.eviction_stall_full),
        },
        knows_huge_pages: gate(gates::HUGE_PAGE_EVICTION),
        may_split_disks: gate(gates::SEPARATE_DISKS),
    }
}

fn thresholds(kubelet: &KubeletConfiguration, of_allocatable: bool) -> Vec<EvictionThreshold> {
    let reclaims = kubelet.eviction_minimum_reclaim.as_ref();
    let with_grace = |signal: Signal, value: Threshold, grace: Duration| {
        let min_reclaim = reclaims.and_then(|reclaims| min_reclaim(reclaims.get(signal.name())?).ok());
        EvictionThreshold { signal, value, grace, min_reclaim }
    };
    let hard = valid(kubelet.eviction_hard.as_ref());
    let mut all: Vec<_> = hard.map(|(signal, value)| with_grace(signal, value, Duration::ZERO)).collect();
    let periods = kubelet.eviction_soft_grace_period.as_ref();
    let period = |signal: Signal| periods?.get(signal.name())?.parse::<GoDuration>().ok()?.to_std();
    let soft = valid(kubelet.eviction_soft.as_ref());
    all.extend(soft.map(|(signal, value)| with_grace(signal, value, period(signal).unwrap_or_default())));
    // What pods may use together is limited, so the same has to be left of that.
    let is_of_memory =
        |threshold: &&EvictionThreshold| threshold.signal == Signal::MemoryAvailable && threshold.is_hard();
    let of_memory = all.iter().filter(is_of_memory).copied();
    let of_pods = of_memory
        .map(|threshold| EvictionThreshold { signal: Signal::AllocatableMemoryAvailable, ..threshold });
    let of_pods: Vec<_> = of_pods.filter(|_| of_allocatable).collect();
    all.extend(of_pods);
    all
}

/// The thresholds that are not disabled, in the order of [`Signal`].
fn valid(texts: Option<&Texts>) -> impl Iterator<Item = (Signal, Threshold)> {
    let one = move |signal: Signal| Some((signal, threshold(texts?.get(signal.name())?).ok()??));
    Signal::ALL.into_iter().filter_map(one)
}

/// Parses how much has to be reclaimed at least: `1Gi` or `5%`. Unlike a threshold it may be zero, and above 100%.
pub(super) fn min_reclaim(text: &str) -> Result<Threshold, NodeSettingError> {
    if let Some(percent) = text.strip_suffix('%') {
        let number: f32 = percent.parse().map_err(|_| NodeSettingError::Percent(text.to_owned()))?;
        let is_positive = number > 0.0 && number.is_finite();
        return is_positive
            .then_some(Threshold::Part(number / 100.0))
            .ok_or_else(|| NodeSettingError::NotPositive(text.to_owned()));
    }
    let amount =
        Quantity::parse(text).map_err(|error| NodeSettingError::Amount { text: text.to_owned(), error })?;
    if amount.is_negative() {
        return Err(NodeSettingError::Negative(text.to_owned()));
    }
    Ok(Threshold::Amount(amount))
}

/// Parses the share of time that tasks may wait: `20%`, whole percents; `None` for an empty text, which is as good as none.
pub(super) fn stall_limit(text: &str) -> Result<Option<u8>, NodeSettingError> {
    if text.is_empty() {
        return Ok(None);
    }
    let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<u8>().ok());
    let percent = percent.ok_or_else(|| NodeSettingError::Percent(text.to_owned()))?;
    match percent {
        1..=99 => Ok(Some(percent)),
        0 | 100.. => Err(NodeSettingError::PercentRange(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(set: Value, flags: &ProcessFlags) -> Vec<String> {
        let kubelet: KubeletConfiguration = serde_json::from_value(set).unwrap();
        let text = |value: Threshold| match value {
            Threshold::Amount(amount) => amount.to_string(),
            Threshold::Part(part) => format!("{:.0}%", part * 100.0),
        };
        let line = |threshold: EvictionThreshold| {
            let EvictionThreshold { signal, value, grace, min_reclaim } = threshold;
            let reclaim = min_reclaim.map(|value| format!(" +{}", text(value))).unwrap_or_default();
            format!("{}<{} {grace:?}{reclaim}", signal.name(), text(value))
        };
        eviction(&kubelet, &HostletConfiguration::default(), flags).thresholds.into_iter().map(line).collect()
    }

    /// The expectations are those of upstream's `TestParseThresholdConfig`.
    #[test]
    fn hard_thresholds_come_first_and_each_has_its_period_and_reclaim() {
        let set = json!({
            "evictionHard": {"memory.available": "150Mi", "imagefs.available": "150Mi", "nodefs.available": "100%"},
            "evictionSoft": {"memory.available": "30%", "pid.available": "1k"},
            "evictionSoftGracePeriod": {"memory.available": "30s", "pid.available": "1m"},
            "evictionMinimumReclaim": {"memory.available": "0", "imagefs.available": "5%"},
        });
        let mut expected = vec![
            "memory.available<150Mi 0ns +0",
            "imagefs.available<150Mi 0ns +5%",
            "memory.available<30% 30s +0",
            "pid.available<1k 60s",
        ];
        assert_eq!(parsed(set.clone(), &ProcessFlags::default()), expected);
        let mut limited = set;
        limited["enforceNodeAllocatable"] = json!(["pods"]);
        let ignoring =
            ProcessFlags { experimental_allocatable_ignore_eviction: true, ..ProcessFlags::default() };
        assert_eq!(parsed(limited.clone(), &ignoring), expected);
        expected.push("allocatableMemory.available<150Mi 0ns +0");
        assert_eq!(parsed(limited, &ProcessFlags::default()), expected);
        assert!(parsed(json!({}), &ProcessFlags::default()).is_empty());
    }

    #[test]
    fn shares_of_time_are_whole_percents() {
        assert_eq!((stall_limit(""), stall_limit("20%")), (Ok(None), Ok(Some(20))));
        for bad in ["20", "0%", "100%", "1.5%", "-1%", "300%", "%"] {
            assert!(stall_limit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_reclaim_may_be_zero_but_no_percentage_is() {
        assert_eq!(min_reclaim("0"), Ok(Threshold::Amount(Quantity::bytes(0))));
        assert_eq!(min_reclaim("150%"), Ok(Threshold::Part(1.5)));
        for bad in ["-1Gi", "0%", "-5%", "inf%", "NaN%", "%", "much"] {
            assert!(min_reclaim(bad).is_err(), "{bad}");
        }
    }
}
