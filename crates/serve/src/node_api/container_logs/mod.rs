//! `GET /containerLogs/{namespace}/{pod}/{container}`: what `kubectl logs` prints.

mod answer;
mod query;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

pub use answer::ContainerLogDeps;
pub(super) use answer::routes;
