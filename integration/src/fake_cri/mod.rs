//! The in-memory runtime behind a CRI socket, and a host for the real daemon to run on it. Never decides: what a call does,
//! and what goes wrong with it, is up to the [`FakeRuntime`].

mod host;
mod image;
mod runtime;
mod server;
mod status;

pub use host::FakeHost;
pub use hostlet::cri::fake::FakeRuntime;
pub use server::FakeCri;

#[cfg(test)]
mod tests;
