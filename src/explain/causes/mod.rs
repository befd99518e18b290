//! What the words of a message mean: rules, of which the first that fits tells the cause and what to do. The words are those of
//! containerd 1.6 to 2.2, runc 1.1 to 1.3, CNI plugins, the kernel and hostlet itself. Pure.

mod config;
mod container;
mod host;
mod log_end;
mod manifest;
mod own_words;
mod pull;
mod rule;
mod runtime;
mod sandbox;
mod volume;

pub(super) use log_end::of_log_end;
pub(super) use manifest::manifest_remedy;
pub(super) use own_words::own_words;
pub(super) use rule::{Group, Rule, find};

/// Why a container cannot be made or started.
pub(super) const OF_CONTAINER: Group = &[runtime::RULES, container::RULES, host::RULES];
/// Why a container cannot be configured.
pub(super) const OF_CONFIG: Group = &[config::RULES, runtime::RULES, host::RULES];
/// Why a pod's sandbox cannot be made or taken down.
pub(super) const OF_SANDBOX: Group = &[runtime::RULES, sandbox::RULES, container::RULES, host::RULES];
/// Why an image cannot be pulled.
pub(super) const OF_PULL: Group = &[pull::RULES, runtime::RULES, host::RULES];
/// Why a step fails that is told by its event alone.
pub(super) const OF_STEP: Group =
    &[volume::RULES, runtime::RULES, sandbox::RULES, container::RULES, host::RULES, host::STEPS];
