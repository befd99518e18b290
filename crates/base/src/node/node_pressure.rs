//! What is known of the node's pressures, and what was seen of their signals. Measures nothing.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::pressure::{Pressure, Pressures};
use super::signal::Signal;

/// What is known of a pressure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PressureState {
    /// Nobody has looked since the start of the daemon.
    #[default]
    NotYet,
    /// It cannot be observed any more, and why.
    Unknown(String),
    /// It was looked for, and is not there.
    Absent,
    /// It is there, or was within the transition period.
    Present,
}

impl fmt::Display for PressureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet => f.write_str("not looked at yet"),
            Self::Unknown(why) => write!(f, "unknown ({why})"),
            Self::Absent => f.write_str("absent"),
            Self::Present => f.write_str("present"),
        }
    }
}

/// The states of all pressures. One that is not listed is [`PressureState::NotYet`].
pub type PressureStates = BTreeMap<Pressure, PressureState>;

/// What was seen of a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalLook {
    /// When it was looked at.
    pub at: Timestamp,
    /// What is left, as a quantity.
    pub available: String,
    /// The whole, as a quantity.
    pub capacity: String,
    /// The hard threshold, as a quantity; `None` without one.
    pub threshold: Option<String>,
    /// The soft threshold, as a quantity; `None` without one.
    pub soft_threshold: Option<String>,
}

/// The node's pressures, and the last look at each signal. Receivers are notified of changed states only: each look changes the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePressure {
    /// What is known of each pressure; one that is missing was not looked at.
    pub states: PressureStates,
    /// The last look at each signal that could be read.
    pub looks: BTreeMap<Signal, SignalLook>,
}

impl NodePressure {
    /// The active pressures.
    pub fn active(&self) -> Pressures {
        let is_active = |state: &PressureState| *state == PressureState::Present;
        self.states.iter().filter(|(_, state)| is_active(state)).map(|(pressure, _)| *pressure).collect()
    }
}

#[cfg(any(test, feature = "fakes"))]
impl<const N: usize> From<[Pressure; N]> for NodePressure {
    /// All pressures are observed, and these are present.
    fn from(present: [Pressure; N]) -> Self {
        let state = |pressure: Pressure| match present.contains(&pressure) {
            true => PressureState::Present,
            false => PressureState::Absent,
        };
        Self {
            states: Pressure::ALL.map(|pressure| (pressure, state(pressure))).into(),
            looks: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_seen_is_active() {
        let mut seen = NodePressure::from([Pressure::Disk, Pressure::Pid]);
        seen.states.insert(Pressure::Pid, PressureState::Unknown("cannot read it".to_owned()));
        assert_eq!(seen.active(), [Pressure::Disk].into());
        assert_eq!(NodePressure::default().active(), Pressures::new());
    }
}
