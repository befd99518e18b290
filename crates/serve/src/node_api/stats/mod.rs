//! What pods and the node use: `/stats/summary`, `/metrics/resource` and `/metrics/cadvisor`.

mod cadvisor;
mod cadvisor_families;
mod cadvisor_units;
mod exposition;
mod machine;
mod resource;
mod routes;
mod sandbox_images;
mod summary;
mod summary_types;
#[cfg(test)]
mod tests;
mod volumes;

pub(super) use routes::routes;
pub use routes::{Stats, StatsDeps};
