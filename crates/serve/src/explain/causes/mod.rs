//! Rules that map an error message to a cause and a remedy; the first match wins. The messages are those of containerd 1.6 to
//! 2.2, runc 1.1 to 1.3, CNI plugins, the kernel and hostlet itself. Pure.

mod claims;
mod config;
mod container;
mod host;
mod innermost_message;
mod log_end;
mod manifest;
mod pull;
mod runtime;
mod sandbox;
mod volume;

use std::sync::LazyLock;

pub(super) use innermost_message::innermost_message;
pub(super) use log_end::of_log_end;
pub(super) use manifest::manifest_remedy;

use hostlet_base::causes::{Group, Rule, find};

/// Rules for a container that cannot be created or started.
pub(super) const OF_CONTAINER: Group = &[runtime::RULES, container::RULES, host::RULES];
/// Rules for a container that cannot be configured.
pub(super) const OF_CONFIG: Group = &[config::RULES, runtime::RULES, host::RULES];
/// Rules for a sandbox that cannot be created or removed.
pub(super) const OF_SANDBOX: Group = &[runtime::RULES, sandbox::RULES, container::RULES, host::RULES];
/// Rules for an image that cannot be pulled.
pub(super) const OF_PULL: Group = &[pull::RULES, runtime::RULES, host::RULES];
/// Rules for a failed step that is reported only by an event.
pub(super) static OF_STEP: LazyLock<Vec<&'static [Rule]>> = LazyLock::new(|| {
    let others = [
        claims::RULES,
        volume::RULES,
        runtime::RULES,
        sandbox::RULES,
        container::RULES,
        host::RULES,
        host::STEPS,
    ];
    hostlet_volume::cause_rules().chain(others).collect()
});

const START_RUNTIME: &str = "start the container runtime (systemctl start containerd), and check containerRuntimeEndpoint in the \
     configuration; hostlet retries automatically";

/// What to do about a runtime with this problem.
pub(super) fn runtime_remedy(problem: &str) -> &'static str {
    find(&OF_STEP, problem).map_or(START_RUNTIME, |rule| rule.remedy)
}
