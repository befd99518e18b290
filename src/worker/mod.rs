//! The worker that owns one pod's life: its state machine, the plan of a step, and the performing of it.

mod crash_loop;
mod env_needs;
mod in_flight;
mod memory;
mod plan;
mod report;
mod requested_starts;
mod start;
mod stop;
mod sync;
mod syncer;
mod task;
mod volumes;
mod work;

pub use crash_loop::CrashLoops;
pub use env_needs::EnvNeeds;
pub use memory::Memory;
pub use plan::{BackingOff, Kill, Leftovers, Plan, SandboxPlan, Start, plan};
pub use requested_starts::RequestedStarts;
pub use syncer::WorkerContext;
pub use task::{Job, PodSyncer, Report, panic_text, run};
pub use work::{Content, Outcome, Retry, Work};
