//! `topologyManagerPolicyOptions`.

use std::collections::BTreeMap;

use hostlet_base::go_quoted;

use crate::options::{BoolOptionError, bool_option};

/// The most NUMA nodes for which every combination can be considered. Upstream has no such limit, and needs minutes or all memory beyond.
pub const MAX_NUMA_NODES: usize = 16;
/// Upstream's limit without the option.
const DEFAULT_MAX_NUMA_NODES: usize = 8;

const PREFER_CLOSEST: &str = "prefer-closest-numa-nodes";
const MAX_ALLOWABLE: &str = "max-allowable-numa-nodes";

/// Why the options are invalid, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyOptionError {
    /// There is no such option.
    #[error("unknown Topology Manager Policy option: {}", go_quoted(.0))]
    Unknown(String),
    /// A value is neither true nor false.
    #[error(transparent)]
    NotABool(#[from] BoolOptionError),
    /// A value is not a number.
    #[error("unable to convert policy option to integer {}: strconv.Atoi: parsing {}: invalid syntax", go_quoted(MAX_ALLOWABLE), go_quoted(.0))]
    NotANumber(String),
    /// A number is below the limit that holds without the option.
    #[error(
        "the minimum value of {} should not be less than {DEFAULT_MAX_NUMA_NODES}",
        go_quoted(MAX_ALLOWABLE)
    )]
    TooSmall,
}

/// Options of all policies but `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyOptions {
    /// Among as many nodes, those with the smallest distances are preferred.
    pub prefer_closest: bool,
    /// On how many NUMA nodes hostlet starts.
    pub max_nodes: usize,
}

impl Default for TopologyOptions {
    fn default() -> Self {
        Self { prefer_closest: false, max_nodes: DEFAULT_MAX_NUMA_NODES }
    }
}

impl TopologyOptions {
    /// Reads the options.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Self, TopologyOptionError> {
        let mut parsed = Self::default();
        for (name, value) in options {
            match name.as_str() {
                PREFER_CLOSEST => parsed.prefer_closest = bool_option(name, value)?,
                MAX_ALLOWABLE => {
                    let number = || TopologyOptionError::NotANumber(value.clone());
                    let max: i64 = value.parse().map_err(|_| number())?;
                    let max = usize::try_from(max).map_err(|_| TopologyOptionError::TooSmall)?;
                    if max < DEFAULT_MAX_NUMA_NODES {
                        return Err(TopologyOptionError::TooSmall);
                    }
                    parsed.max_nodes = max;
                }
                _ => return Err(TopologyOptionError::Unknown(name.clone())),
            }
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, value: &str) -> Result<TopologyOptions, String> {
        let options = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        TopologyOptions::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_checked_in_upstreams_words() {
        let closest = TopologyOptions { prefer_closest: true, ..TopologyOptions::default() };
        assert_eq!(parsed("prefer-closest-numa-nodes", "T"), Ok(closest));
        assert_eq!(parsed("max-allowable-numa-nodes", "12").map(|options| options.max_nodes), Ok(12));
        for (name, value, error) in [
            ("x", "true", "unknown Topology Manager Policy option: \"x\""),
            (
                "prefer-closest-numa-nodes",
                "yes",
                "bad value for option \"prefer-closest-numa-nodes\": strconv.ParseBool: parsing \"yes\": invalid syntax",
            ),
            (
                "max-allowable-numa-nodes",
                "7",
                "the minimum value of \"max-allowable-numa-nodes\" should not be less than 8",
            ),
            (
                "max-allowable-numa-nodes",
                "many",
                "unable to convert policy option to integer \"max-allowable-numa-nodes\": strconv.Atoi: parsing \"many\": invalid syntax",
            ),
        ] {
            assert_eq!(parsed(name, value), Err(error.to_owned()), "{name}={value}");
        }
    }
}
