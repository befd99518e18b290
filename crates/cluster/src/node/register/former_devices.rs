//! Whether a former kubelet may have advertised devices on the Node. It is known from hostlet's first start on this host until the
//! Node was registered once: what is there later, somebody else put there for hostlet's pods.

use hostlet_store::{Store, Table};

/// The key of the only row.
const KEY: &str = "devices";

/// The record. The default is of a host without a former kubelet.
#[derive(Clone, Default)]
pub struct FormerDevices(Store);

impl FormerDevices {
    /// The record in the store.
    pub fn new(store: Store) -> Self {
        Self(store)
    }

    /// Records that this is hostlet's first start on this host.
    pub fn expect(&self) {
        self.0.put(Table::FormerDevices, KEY, &true);
    }

    /// Whether there may be some.
    pub(super) fn may_exist(&self) -> bool {
        self.0.get(Table::FormerDevices, KEY).unwrap_or(false)
    }

    /// Records that the Node was registered.
    pub(super) fn forget(&self) {
        self.0.remove(Table::FormerDevices, KEY);
    }
}
