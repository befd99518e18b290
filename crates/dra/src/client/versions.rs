//! Which version of a service a driver and hostlet both know, by what the driver says when it registers. Pure.

use hostlet_proto::{dra_health, dra_plugin};

/// Versions of `DRAPlugin`, which prepares claims; the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PluginVersion {
    V1,
    V1Beta1,
}

impl PluginVersion {
    /// All of them, as drivers name them.
    pub(crate) const NAMES: [&str; 2] = ["v1.DRAPlugin", "v1beta1.DRAPlugin"];

    /// The newest version that a driver serves; `None` if it does not prepare claims.
    pub(crate) fn of(versions: &[String]) -> Option<Self> {
        let has = |name: &str| versions.iter().any(|version| version == name);
        let known = Self::NAMES.into_iter().zip([Self::V1, Self::V1Beta1]);
        known.into_iter().find(|(name, _)| has(name)).map(|(_, version)| version)
    }

    pub(super) fn prepare_method(self) -> &'static str {
        match self {
            Self::V1 => dra_plugin::PREPARE_V1,
            Self::V1Beta1 => dra_plugin::PREPARE_V1BETA1,
        }
    }

    pub(super) fn unprepare_method(self) -> &'static str {
        match self {
            Self::V1 => dra_plugin::UNPREPARE_V1,
            Self::V1Beta1 => dra_plugin::UNPREPARE_V1BETA1,
        }
    }
}

/// Versions of `DRAResourceHealth`, which is optional; the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthVersion {
    V1,
    V1Alpha1,
}

impl HealthVersion {
    /// The newest version that a driver serves; `None` if it does not report the health of devices.
    pub(crate) fn of(versions: &[String]) -> Option<Self> {
        let has = |name: &str| versions.iter().any(|version| version == name);
        let known = [("v1.DRAResourceHealth", Self::V1), ("v1alpha1.DRAResourceHealth", Self::V1Alpha1)];
        known.into_iter().find(|(name, _)| has(name)).map(|(_, version)| version)
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::V1 => dra_health::NODE_WATCH_RESOURCES_V1,
            Self::V1Alpha1 => dra_health::NODE_WATCH_RESOURCES_V1ALPHA1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_used() {
        let list =
            |versions: &[&str]| versions.iter().map(|version| (*version).to_owned()).collect::<Vec<_>>();
        let both = list(&["v1beta1.DRAPlugin", "v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]);
        assert_eq!(PluginVersion::of(&both), Some(PluginVersion::V1));
        assert_eq!(HealthVersion::of(&both), Some(HealthVersion::V1Alpha1));
        assert_eq!(PluginVersion::of(&list(&["v1beta1.DRAPlugin"])), Some(PluginVersion::V1Beta1));
        assert_eq!(PluginVersion::of(&list(&["1.0.0", "v1alpha4.Node"])), None);
        assert_eq!(HealthVersion::of(&list(&["v1.DRAPlugin"])), None);
    }
}
