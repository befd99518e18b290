//! The worker that owns one pod's life: its state machine, the plan of a step, and the performing of it.

mod asked;
mod begun;
mod env_needs;
mod memory;
mod plan;
mod report;
mod start;
mod state;
mod stop;
mod sync;
mod syncer;
mod task;
mod volumes;

pub use asked::AskedStarts;
pub use env_needs::EnvNeeds;
pub use memory::{Memory, WaitingReason};
pub use plan::{BackingOff, Kill, Leftovers, Plan, RestartPolicy, SandboxPlan, Start, plan};
pub use state::{
    Content, KillRequest, Life, Outcome, PodUpdate, Retry, Stage, StatusOverride, Step, Subject, UpdateKind,
    Work,
};
pub use syncer::Services;
pub use task::{Job, PodSyncer, Report, panic_text, run};
