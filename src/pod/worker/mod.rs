//! The worker that owns one pod's life: its state machine, the plan of a step, and the performing of it.

mod plan;
mod state;

pub use plan::{BackingOff, Kill, Plan, RestartPolicy, SandboxPlan, Start, plan};
pub use state::{
    Content, KillRequest, Life, Outcome, PodUpdate, Retry, Stage, StatusOverride, Step, Subject, UpdateKind,
    Work,
};
