//! What the kernel says of this host: problems that it logs become events of the Node, metrics and, if asked for, conditions.

mod conditions;
mod limit;
mod metrics;
mod observer;
#[cfg(test)]
mod observer_tests;
mod oom;
mod problems;
mod rules;
mod saved;

pub use conditions::{KernelCondition, KernelConditions, KernelFinding};
pub use observer::{KernelObserver, KernelObserverDeps};
pub use oom::{OomKill, OomReports};
pub use problems::{KernelProblem, KernelProblems};
