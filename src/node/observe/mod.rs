//! Looks at the host and at the runtime now and then, and shows what it saw in watches. Tasks of their own: a disk, a name
//! server or a runtime that hangs delays nobody.

mod address;
mod addresses;
mod host;
mod runtime;

pub use addresses::AddressObserver;
pub use host::HostObserver;
pub use runtime::observe_runtime;
