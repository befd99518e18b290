//! What a restart of the daemon must not forget of the kernel's log: how far it was read, and what holds until the host reboots.

use hostlet_store::{Store, Table};
use serde::{Deserialize, Serialize};

use super::conditions::KernelFindings;

/// The key of the only row.
const KEY: &str = "position";

/// The row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SavedLog {
    /// The boot to which position and findings belong.
    pub(super) boot_id: String,
    /// Problems in records before this number were reported.
    pub(super) reported_until: u64,
    /// What holds since.
    pub(super) findings: KernelFindings,
    /// Whether the Node has conditions that hostlet set, and which it therefore may remove.
    pub(super) has_conditions: bool,
}

impl SavedLog {
    /// The row; `None` on a host that has none yet.
    pub(super) fn read(store: &Store) -> Option<Self> {
        store.get(Table::KernelLog, KEY)
    }

    pub(super) fn write(&self, store: &Store) {
        store.put(Table::KernelLog, KEY, self);
    }
}
