//! The in-memory runtime behind a CRI socket, and a host for the real daemon to run on it. Decides nothing: the
//! [`FakeRuntime`] determines the effects and faults of calls.

mod host;
mod image;
mod runtime;
mod server;
mod status;

pub use host::FakeHost;
pub use hostlet_runtime::cri::fake::FakeRuntime;
pub use server::FakeCri;

#[cfg(test)]
mod tests;
