//! Observes the host and the runtime periodically and publishes what it finds through watch channels. Each observer is a
//! separate task, so that a disk, DNS server or runtime that hangs delays nothing else.

mod address;
mod addresses;
mod host;
mod runtime;

pub use addresses::AddressObserver;
pub use host::HostObserver;
pub use runtime::observe_runtime;
