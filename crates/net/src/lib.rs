//! TLS and HTTP as Kubernetes' components speak them. Knows neither the API server nor the runtime.

pub mod http;
pub mod tls;

#[cfg(test)]
hostlet_host::work_in_place!();
