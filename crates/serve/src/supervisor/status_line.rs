//! The line that `systemctl status` shows. Pure.

use jiff::Timestamp;

/// The state of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfigState {
    /// The daemon runs with the configuration that it last read.
    #[default]
    Applied,
    /// Some changes need a restart.
    NeedsRestart,
    /// The configuration was invalid at the last reload; the previous one applies.
    Invalid,
}

/// What the line shows.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusFacts {
    /// Pods on this node.
    pub(super) pods: usize,
    /// Those in the phase Running.
    pub(super) running: usize,
    /// Whether the runtime has ever answered.
    pub(super) is_runtime_known: bool,
    /// Since when the runtime has not answered a list; `None` while it does.
    pub(super) runtime_away_since: Option<Timestamp>,
    /// Whether the manifests were read.
    pub(super) are_manifests_read: bool,
    /// Whether the pods of the API server are known; true on a standalone node.
    pub(super) is_api_read: bool,
    /// The configuration.
    pub(super) config: ConfigState,
    /// Main loops that do not answer.
    pub(super) overdue: Vec<&'static str>,
}

/// The line, without its end.
pub(super) fn status_line(facts: &StatusFacts) -> String {
    let mut parts = Vec::new();
    if !facts.overdue.is_empty() {
        parts.push(format!("not responding: {}", facts.overdue.join(", ")));
    }
    match (facts.is_runtime_known, facts.runtime_away_since) {
        (false, since) => {
            parts.push(format!("waiting for the container runtime{}", since.map(time).unwrap_or_default()));
        }
        (true, Some(since)) => {
            parts.push(counts(facts));
            parts.push(format!("the container runtime does not respond{}", time(since)));
        }
        (true, None) => parts.push(counts(facts)),
    }
    if !facts.are_manifests_read {
        parts.push("the manifests were not read yet".to_owned());
    }
    if !facts.is_api_read {
        parts.push("waiting for the API server".to_owned());
    }
    match facts.config {
        ConfigState::Applied => {}
        ConfigState::NeedsRestart => parts.push("a changed setting needs a restart".to_owned()),
        ConfigState::Invalid => {
            parts.push("the configuration file is invalid, the previous configuration applies".to_owned());
        }
    }
    parts.join("; ")
}

fn counts(facts: &StatusFacts) -> String {
    let pods = if facts.pods == 1 { "pod" } else { "pods" };
    format!("{} {pods}, {} running", facts.pods, facts.running)
}

fn time(since: Timestamp) -> String {
    format!(" since {}", since.strftime("%Y-%m-%d %H:%M:%S UTC"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> StatusFacts {
        StatusFacts {
            pods: 3,
            running: 2,
            is_runtime_known: true,
            are_manifests_read: true,
            is_api_read: true,
            ..StatusFacts::default()
        }
    }

    #[test]
    fn a_line_names_what_is_wrong() {
        let since = Some("2026-11-24T07:12:04.5Z".parse().unwrap());
        let cases = [
            (well(), "3 pods, 2 running"),
            (StatusFacts { pods: 1, running: 1, ..well() }, "1 pod, 1 running"),
            (
                StatusFacts { runtime_away_since: since, ..well() },
                "3 pods, 2 running; the container runtime does not respond since 2026-11-24 07:12:04 UTC",
            ),
            (
                StatusFacts { runtime_away_since: since, is_runtime_known: false, ..well() },
                "waiting for the container runtime since 2026-11-24 07:12:04 UTC",
            ),
            (
                StatusFacts { is_api_read: false, are_manifests_read: false, ..well() },
                "3 pods, 2 running; the manifests were not read yet; waiting for the API server",
            ),
            (
                StatusFacts { config: ConfigState::NeedsRestart, ..well() },
                "3 pods, 2 running; a changed setting needs a restart",
            ),
            (
                StatusFacts { config: ConfigState::Invalid, ..well() },
                "3 pods, 2 running; the configuration file is invalid, the previous configuration applies",
            ),
            (
                StatusFacts { overdue: vec!["pods", "pleg"], ..well() },
                "not responding: pods, pleg; 3 pods, 2 running",
            ),
        ];
        for (facts, line) in cases {
            assert_eq!(status_line(&facts), line);
        }
    }
}
