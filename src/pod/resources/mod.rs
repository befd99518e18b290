//! Resource arithmetic of pods: QoS class, CPU shares and quota, sums over containers, OOM scores. Pure.

mod amounts;
mod qos;

pub use amounts::{Amounts, milli_cpu_to_quota, milli_cpu_to_shares, pod_limits, pod_requests};
pub use qos::{oom_score_adj, qos_class};
