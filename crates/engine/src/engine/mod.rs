//! The engine: every part that works on pods, wired in one place, for the daemon as for the simulation. [`Engine::build`] makes the
//! parts, [`EngineHandles`] is what others see of them, and the tasks are run by whoever built it. Decides nothing about pods itself,
//! and spawns nothing.

mod build;
mod deps;
mod driver_stats;
mod first_pods;
mod handles;
mod pod_images;
mod pods;
mod reclaimers;
mod running;
mod settings;
mod task;

pub use build::Engine;
pub use deps::{
    CsiDeps, EngineDeps, EventSinks, GrantInputs, HostDeps, ImagePreload, Interception, NodeInputs,
    ObjectInputs, PodSources, RuntimeDeps,
};
pub use handles::{EngineHandles, ProbeHandles, ProblemHandles};
pub use running::{ContainerdAccess, RunningHost};
pub use settings::{EngineSettings, UserIds};
pub use task::{EngineTask, TaskStage};
