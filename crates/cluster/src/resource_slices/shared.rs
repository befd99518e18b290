//! The state that the handler, the streams and the reconciler share: a locked map of drivers, and who must look at it. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::driver::Driver;

/// Whether slices are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Publishing {
    /// Not configured, or there is no cluster.
    #[default]
    Off,
    /// Configured, but the API server cannot be reached or does not serve ResourceSlices.
    Unavailable,
    /// In progress.
    On,
}

impl Publishing {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::Unavailable => "Unavailable",
            Self::On => "On",
        }
    }
}

/// The drivers by name.
pub(super) type Drivers = BTreeMap<String, Driver>;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) drivers: Drivers,
    pub(super) publishing: Publishing,
    /// Whether somebody deletes the slices of drivers that are deregistered: in a cluster, also without publishing.
    pub(super) has_reconciler: bool,
}

/// The shared state. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    state: Arc<Mutex<State>>,
    /// The serving instance of a driver may have changed.
    pub(super) registered: Arc<Notify>,
    /// A driver may be due.
    pub(super) due: Arc<Notify>,
}

impl Shared {
    /// Reads or changes the state. Every use leaves it consistent.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock())
    }

    /// Reads or changes a driver, if it is known.
    pub(super) fn driver<T>(&self, name: &str, work: impl FnOnce(&mut Driver) -> T) -> Option<T> {
        self.with(|state| state.drivers.get_mut(name).map(work))
    }
}
