//! Settings of the Node object, and the parsing of their texts.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hostlet_base::node::{Signal, Threshold, Thresholds};
use hostlet_base::settings::Reserved;
use hostlet_base::{NODE_LABELS, Quantity, QuantityError, cpu_list, names};
use k8s_openapi::api::core::v1::Taint;

use super::flags::ProcessFlags;
use super::values::time;
use super::wire::KubeletConfiguration;

/// Settings of the Node object. Names in parentheses are fields of KubeletConfiguration, or flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Whether to create the Node if there is none (`registerNode`).
    pub register: bool,
    /// Taints it is created with (`registerWithTaints`).
    pub taints: Vec<Taint>,
    /// Labels it is created with in addition to the standard ones (`--node-labels`).
    pub labels: BTreeMap<String, String>,
    /// Its ID at the cloud provider (`providerID`).
    pub provider_id: Option<String>,
    /// Whether a cloud controller manager sets addresses and topology (`--cloud-provider=external`).
    pub external_cloud: bool,
    /// Whether the attach-detach controller attaches its volumes (`enableControllerAttachDetach`).
    pub controller_attach_detach: bool,
    /// How often its status is computed (`nodeStatusUpdateFrequency`).
    pub status_update_frequency: Duration,
    /// How often an unchanged status is sent (`nodeStatusReportFrequency`).
    pub status_report_frequency: Duration,
    /// Duration of its lease (`nodeLeaseDurationSeconds`).
    pub lease_duration: Duration,
    /// How many images its status lists; `None` for all (`nodeStatusMaxImages`).
    pub max_images: Option<usize>,
    /// Whether it reports ephemeral storage (`localStorageCapacityIsolation`).
    pub local_storage_isolation: bool,
    /// Resources that are not allocatable to pods.
    pub reserved: Reserved,
}

impl Node {
    /// Extracts the settings from a complete and valid configuration.
    pub(super) fn new(kubelet: &KubeletConfiguration, flags: &ProcessFlags) -> Self {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            register: kubelet.register_node.unwrap_or_default(),
            taints: kubelet.register_with_taints.clone().unwrap_or_default(),
            labels: flags.node_labels.iter().filter_map(|text| label(text).ok()).collect(),
            provider_id: set(&kubelet.provider_id),
            external_cloud: flags.cloud_provider == EXTERNAL,
            controller_attach_detach: kubelet.enable_controller_attach_detach.unwrap_or_default(),
            status_update_frequency: time(kubelet.node_status_update_frequency),
            status_report_frequency: time(kubelet.node_status_report_frequency),
            lease_duration: Duration::from_secs(
                kubelet.node_lease_duration_seconds.and_then(|s| s.try_into().ok()).unwrap_or_default(),
            ),
            // -1 means no limit.
            max_images: usize::try_from(kubelet.node_status_max_images.unwrap_or_default()).ok(),
            local_storage_isolation: kubelet.local_storage_capacity_isolation.unwrap_or_default(),
            reserved: reserved(kubelet, flags.experimental_allocatable_ignore_eviction),
        }
    }
}

/// The thresholds that are not disabled. Names and texts are valid.
fn thresholds<'c>(configured: impl Iterator<Item = (&'c String, &'c String)>) -> Thresholds {
    configured.filter_map(|(name, text)| Some((Signal::named(name)?, threshold(text).ok()??))).collect()
}

fn reserved(kubelet: &KubeletConfiguration, ignore_eviction: bool) -> Reserved {
    let mut resources: BTreeMap<String, Vec<Quantity>> = BTreeMap::new();
    let reservations = kubelet.kube_reserved.iter().chain(&kubelet.system_reserved).flatten();
    for (resource, text) in reservations {
        if let Ok(amount) = Quantity::parse(text) {
            resources.entry(resource.clone()).or_default().push(amount);
        }
    }
    let set = kubelet.reserved_system_cpus.as_deref().filter(|set| !set.is_empty());
    Reserved {
        resources,
        system_cpus: set.and_then(|set| cpu_list(set).ok()),
        eviction_hard: thresholds(kubelet.eviction_hard.iter().flatten().filter(|_| !ignore_eviction)),
    }
}

/// Why a text is not a node label or a threshold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NodeSettingError {
    #[error("takes one address, or one of each family")]
    Families,
    #[error("two addresses cannot include 0.0.0.0 or ::, which stand for one that is chosen")]
    UnspecifiedOfTwo,
    #[error("{key:?} is not a label key: {wrong}")]
    LabelKey { key: String, wrong: String },
    #[error("{value:?} is not a label value: {wrong}")]
    LabelValue { value: String, wrong: String },
    #[error(
        "a node must not set the label {0:?} on itself: of the labels in kubernetes.io and k8s.io, \
         it may set only those in kubelet.kubernetes.io/ and node.kubernetes.io/, and {names}",
        names = NODE_LABELS.join(", ")
    )]
    ForbiddenLabel(String),
    #[error("{0:?} should be a number before the percent sign")]
    Percent(String),
    #[error("{0:?} must be between 0% and 100%")]
    PercentRange(String),
    #[error("{text:?}: {error}")]
    Amount { text: String, error: QuantityError },
    #[error("{0:?} must be above zero")]
    NotPositive(String),
    #[error("{0:?} must not be negative")]
    Negative(String),
}

/// The only non-empty value of `--cloud-provider`.
pub(super) const EXTERNAL: &str = "external";

/// The addresses in `--node-ip`, and the parts of it that are none.
pub(super) fn ips(text: &str) -> (Result<Vec<IpAddr>, NodeSettingError>, Vec<String>) {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let (mut ips, mut invalid) = (Vec::new(), Vec::new());
    for part in parts {
        match part.parse::<IpAddr>() {
            Ok(ip) => ips.push(ip),
            Err(_) => invalid.push(part.to_owned()),
        }
    }
    let checked = match ips.as_slice() {
        [first, second] if first.is_ipv4() == second.is_ipv4() => Err(NodeSettingError::Families),
        [_, _, _, ..] => Err(NodeSettingError::Families),
        [_, _] if ips.iter().any(IpAddr::is_unspecified) => Err(NodeSettingError::UnspecifiedOfTwo),
        _ => Ok(ips),
    };
    (checked, invalid)
}

/// Parses a label `key=value`; a key alone has an empty value.
pub(super) fn label(text: &str) -> Result<(String, String), NodeSettingError> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let (key, value) = (key.trim(), value.trim());
    if let Some(wrong) = names::qualified_name(key).into_iter().next() {
        return Err(NodeSettingError::LabelKey { key: key.to_owned(), wrong });
    }
    if let Some(wrong) = names::label_value(value).into_iter().next() {
        return Err(NodeSettingError::LabelValue { value: value.to_owned(), wrong });
    }
    if !may_set(key) {
        return Err(NodeSettingError::ForbiddenLabel(key.to_owned()));
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Whether a node may set a label with this key on itself. The API server rejects others, so that a node cannot attract pods
/// (<https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction>).
fn may_set(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return true };
    let within = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    let is_kubernetes = ["kubernetes.io", "k8s.io"].into_iter().any(within);
    let is_open = ["kubelet.kubernetes.io", "node.kubernetes.io"].into_iter().any(within);
    !is_kubernetes || is_open || NODE_LABELS.contains(&key)
}

/// Parses a threshold `100Mi` or `10%`; `None` for one that is disabled.
pub(super) fn threshold(text: &str) -> Result<Option<Threshold>, NodeSettingError> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f32 = percent.parse().map_err(|_| NodeSettingError::Percent(text.to_owned()))?;
        return match percent {
            // Upstream's way to disable a threshold.
            0.0 | 100.0 => Ok(None),
            0.0..100.0 => Ok(Some(Threshold::Part(percent / 100.0))),
            _ => Err(NodeSettingError::PercentRange(text.to_owned())),
        };
    }
    let amount =
        Quantity::parse(text).map_err(|error| NodeSettingError::Amount { text: text.to_owned(), error })?;
    if amount.is_negative() || amount == Quantity::bytes(0) {
        return Err(NodeSettingError::NotPositive(text.to_owned()));
    }
    Ok(Some(Threshold::Amount(amount)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_a_node_may_give_itself() {
        for good in [
            "a",
            "a=b",
            "a=",
            "example.com/pool=blue",
            "kubernetes.io/arch=amd64",
            "node.kubernetes.io/x=y",
            "a.kubelet.kubernetes.io/x=y",
            "topology.kubernetes.io/zone=z1",
            "notkubernetes.io/x=y",
        ] {
            assert!(label(good).is_ok(), "{good}: {:?}", label(good));
        }
        for bad in [
            "=b",
            "a b=c",
            "a=b c",
            "kubernetes.io/x=y",
            "node-role.kubernetes.io/control-plane=",
            "node-restriction.kubernetes.io/x=y",
            "k8s.io/x=y",
            "x.k8s.io/x=y",
            "notnode.kubernetes.io/x=y",
        ] {
            assert!(label(bad).is_err(), "{bad}");
        }
        let error = label("node-role.kubernetes.io/x=").unwrap_err().to_string();
        assert!(
            error.starts_with("a node must not set the label \"node-role.kubernetes.io/x\" on itself"),
            "{error}"
        );
    }

    #[test]
    fn addresses_are_one_or_one_of_each_family() {
        let ips = |text| super::ips(text).0.map(|ips| ips.len());
        for (text, count) in [("", 0), (",", 0), ("10.0.0.1", 1), ("10.0.0.1, fd00::1", 2), ("::", 1)] {
            assert_eq!(ips(text), Ok(count), "{text}");
        }
        for bad in ["10.0.0.1,10.0.0.2", "10.0.0.1,fd00::1,fd00::2", "0.0.0.0,fd00::1"] {
            assert!(ips(bad).is_err(), "{bad}");
        }
        let (valid, invalid) = super::ips("10.0.0.1/24,fd00::1");
        assert_eq!((valid.map(|ips| ips.len()), invalid), (Ok(1), vec!["10.0.0.1/24".to_owned()]));
    }

    #[test]
    fn thresholds_are_amounts_or_parts() {
        let amount = Threshold::Amount(Quantity::parse("100Mi").unwrap());
        assert_eq!(threshold("100Mi"), Ok(Some(amount)));
        assert_eq!(threshold("10%"), Ok(Some(Threshold::Part(0.1))));
        assert_eq!(threshold("0%"), Ok(None));
        assert_eq!(threshold("100%"), Ok(None));
        for bad in ["", "%", "-1%", "101%", "NaN%", "0", "-1Mi", "much"] {
            assert!(threshold(bad).is_err(), "{bad}");
        }
    }
}
