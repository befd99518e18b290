//! The in-memory runtime behind a CRI socket, so that the real daemon can run on it. Never decides: what a call does, and
//! what goes wrong with it, is up to the [`FakeRuntime`].

mod image;
mod runtime;
mod server;
mod status;

pub use hostlet::cri::fake::FakeRuntime;
pub use server::FakeCri;

#[cfg(test)]
mod tests;
