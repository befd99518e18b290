//! The worker of one pod: plans a step and performs it. Knows no other pod and does not decide about the lifecycle.

mod actuated;
mod cleanup;
mod container;
mod context;
mod crash_loop;
mod deadline;
mod ending;
mod env_files;
mod env_needs;
mod events;
mod final_ends;
mod handler;
mod hooks;
mod image_needs;
mod image_volumes;
mod in_flight;
mod metrics;
mod plan;
mod pod_pulls;
mod pre_stops;
mod pull_account;
mod pull_secrets;
mod reporter;
mod requested_starts;
mod resize;
mod restarts;
mod same_cause;
mod sandbox;
mod start_record;
mod state;
mod stop_order;
mod stopping;
mod sync;
mod syncer;
mod task;
mod work;

use env_needs::EnvNeeds;

pub use context::{EnvAccess, HostAccess, RuntimeAccess, WorkerContext};
pub use deadline::PAST_DEADLINE;
pub use metrics::WorkerMetrics;
pub use reporter::ReportSinks;
pub use restarts::RestartRequests;
pub use state::WorkerState;
pub use task::{Job, PodSyncer, Report, panic_text, run};
pub use work::{Content, Outcome, Retry, Work};
