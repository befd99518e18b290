//! `cpuManagerPolicyOptions`.

use std::collections::BTreeMap;

use hostlet_base::go_quoted;

use crate::checksum::dump_map;
use crate::options::{BoolOptionError, bool_option};

const FULL_PCPUS_ONLY: &str = "full-pcpus-only";
const DISTRIBUTE_ACROSS_NUMA: &str = "distribute-cpus-across-numa";
const ALIGN_BY_SOCKET: &str = "align-by-socket";
const DISTRIBUTE_ACROSS_CORES: &str = "distribute-cpus-across-cores";
const STRICT_RESERVATION: &str = "strict-cpu-reservation";
const PREFER_ALIGN_BY_CACHE: &str = "prefer-align-cpus-by-uncorecache";

/// Which options may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionGates {
    /// Feature gate `CPUManagerPolicyAlphaOptions`.
    pub alpha: bool,
    /// Feature gate `CPUManagerPolicyBetaOptions`.
    pub beta: bool,
}

/// Why the options are invalid, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuOptionError {
    /// There is no such option.
    #[error("new static policy error: unknown CPU Manager Policy option: {}", go_quoted(.0))]
    Unknown(String),
    /// The feature gate of the option is off.
    #[error(
        "new static policy error: CPU Manager Policy {stage}-level Options not enabled, but option {} provided",
        go_quoted(.option)
    )]
    GateOff {
        /// The stage of the option.
        stage: &'static str,
        /// Its name.
        option: String,
    },
    /// A value is neither true nor false.
    #[error("new static policy error: {0}")]
    NotABool(BoolOptionError),
    /// The policy `none` has no options.
    #[error("new none policy error: None policy: received unsupported options={0}")]
    WithoutPolicy(String),
    /// Two options contradict each other.
    #[error("new static policy error: static policy options {0} and {1} can not be used at the same time")]
    Contradictory(&'static str, &'static str),
}

/// Options of the static policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuOptions {
    /// No two containers share a core.
    pub full_pcpus_only: bool,
    /// CPUs of a container that does not fit on a NUMA node are taken from nodes evenly.
    pub distribute_across_numa: bool,
    /// Nodes of one socket count as close.
    pub align_by_socket: bool,
    /// CPUs of a container are on different cores, if there are enough.
    pub distribute_across_cores: bool,
    /// Reserved CPUs are not used by containers without CPUs of their own.
    pub strict_reservation: bool,
    /// CPUs of a container share a last-level cache, if one has enough.
    pub prefer_align_by_cache: bool,
}

impl CpuOptions {
    /// Reads the options.
    pub fn parse(options: &BTreeMap<String, String>, gates: OptionGates) -> Result<Self, CpuOptionError> {
        let mut parsed = Self::default();
        for (name, value) in options {
            let (option, stage, is_enabled) = match name.as_str() {
                FULL_PCPUS_ONLY => (&mut parsed.full_pcpus_only, "Stable", true),
                STRICT_RESERVATION => (&mut parsed.strict_reservation, "Stable", true),
                PREFER_ALIGN_BY_CACHE => (&mut parsed.prefer_align_by_cache, "Stable", true),
                DISTRIBUTE_ACROSS_NUMA => (&mut parsed.distribute_across_numa, "Beta", gates.beta),
                ALIGN_BY_SOCKET => (&mut parsed.align_by_socket, "Alpha", gates.alpha),
                DISTRIBUTE_ACROSS_CORES => (&mut parsed.distribute_across_cores, "Alpha", gates.alpha),
                _ => return Err(CpuOptionError::Unknown(name.clone())),
            };
            if !is_enabled {
                return Err(CpuOptionError::GateOff { stage, option: name.clone() });
            }
            *option = bool_option(name, value).map_err(CpuOptionError::NotABool)?;
        }
        parsed.check()
    }

    /// Checks the options of the policy `none`.
    pub fn check_none(options: &BTreeMap<String, String>) -> Result<(), CpuOptionError> {
        if options.is_empty() {
            Ok(())
        } else {
            Err(CpuOptionError::WithoutPolicy(dump_map(options.clone())))
        }
    }

    fn check(self) -> Result<Self, CpuOptionError> {
        let contradictions = [
            (self.full_pcpus_only && self.distribute_across_cores, FULL_PCPUS_ONLY, DISTRIBUTE_ACROSS_CORES),
            (
                self.distribute_across_numa && self.distribute_across_cores,
                DISTRIBUTE_ACROSS_NUMA,
                DISTRIBUTE_ACROSS_CORES,
            ),
            (
                self.prefer_align_by_cache && self.distribute_across_cores,
                PREFER_ALIGN_BY_CACHE,
                DISTRIBUTE_ACROSS_CORES,
            ),
            (
                self.prefer_align_by_cache && self.distribute_across_numa,
                PREFER_ALIGN_BY_CACHE,
                DISTRIBUTE_ACROSS_NUMA,
            ),
        ];
        match contradictions.into_iter().find(|(both, ..)| *both) {
            Some((_, one, other)) => Err(CpuOptionError::Contradictory(one, other)),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[(&str, &str)], gates: OptionGates) -> Result<CpuOptions, String> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        CpuOptions::parse(&options, gates).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_checked_in_upstreams_words() {
        const DEFAULTS: OptionGates = OptionGates { alpha: false, beta: true };
        const ALL: OptionGates = OptionGates { alpha: true, beta: true };
        let full = CpuOptions { full_pcpus_only: true, ..CpuOptions::default() };
        assert_eq!(parsed(&[(FULL_PCPUS_ONLY, "true"), (DISTRIBUTE_ACROSS_NUMA, "0")], DEFAULTS), Ok(full));
        for (options, gates, error) in [
            (&[("x", "true")][..], ALL, "unknown CPU Manager Policy option: \"x\""),
            (
                &[(ALIGN_BY_SOCKET, "true")],
                DEFAULTS,
                "CPU Manager Policy Alpha-level Options not enabled, but option \"align-by-socket\" provided",
            ),
            (
                &[(DISTRIBUTE_ACROSS_NUMA, "true")],
                OptionGates { alpha: true, beta: false },
                "CPU Manager Policy Beta-level Options not enabled, but option \"distribute-cpus-across-numa\" provided",
            ),
            (
                &[(STRICT_RESERVATION, "on")],
                ALL,
                "bad value for option \"strict-cpu-reservation\": strconv.ParseBool: parsing \"on\": invalid syntax",
            ),
            (
                &[(PREFER_ALIGN_BY_CACHE, "true"), (DISTRIBUTE_ACROSS_NUMA, "true")],
                ALL,
                "static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa can not be used at the same time",
            ),
        ] {
            assert_eq!(parsed(options, gates), Err(format!("new static policy error: {error}")));
        }
        let options =
            BTreeMap::from([("b", "2"), ("a", "1")].map(|(name, value)| (name.to_owned(), value.to_owned())));
        let error = CpuOptions::check_none(&options).unwrap_err().to_string();
        assert_eq!(error, "new none policy error: None policy: received unsupported options=map[a:1 b:2]");
        assert_eq!(CpuOptions::check_none(&BTreeMap::new()), Ok(()));
        for others in [FULL_PCPUS_ONLY, DISTRIBUTE_ACROSS_NUMA, PREFER_ALIGN_BY_CACHE] {
            let error = parsed(&[(others, "true"), (DISTRIBUTE_ACROSS_CORES, "true")], ALL).unwrap_err();
            assert!(error.contains(&format!(": static policy options {others} and ")), "{error}");
        }
    }
}
