//! The worker that owns one pod's life: its state machine, the plan of a step, and the performing of it.

mod state;

pub use state::{
    Content, KillRequest, Life, Outcome, PodUpdate, Retry, Stage, StatusOverride, Step, Subject, UpdateKind,
    Work,
};
