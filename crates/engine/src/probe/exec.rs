//! `exec` probes: a command in the container, by the runtime. Its output is truncated, and only a failure's output is used.

use std::collections::HashMap;
use std::time::Duration;

use hostlet_base::{ContainerId, go_duration, go_quoted};
use hostlet_runtime::cri::{CriError, ExecOutput, RuntimeService};
use k8s_openapi::api::core::v1::Container;

use super::answer::{Answer, Attempt, AttemptError};
use crate::cri_config::expand;

/// Maximum length of the output, in bytes; the rest is dropped.
const MAX_OUTPUT: usize = 10 << 10;

/// Probes a container.
pub(super) async fn probe(
    runtime: &dyn RuntimeService,
    id: &ContainerId,
    command: Vec<String>,
    limit: Duration,
) -> Attempt {
    let text = command.join(" ");
    match runtime.exec_sync(id, command, limit).await {
        Ok(output) if output.exit_code == 0 => Ok(Answer::Success),
        Ok(output) => Ok(Answer::Failure(shown(output))),
        Err(CriError::TimedOut { .. }) => Ok(Answer::Failure(format!(
            "command timed out: {} timed out after {}",
            go_quoted(&text),
            go_duration(limit)
        ))),
        Err(error) => Err(AttemptError::NotSent(go_error(&error))),
    }
}

/// The command of a probe: it may refer to variables with a value in the container's spec; the others are empty.
pub(super) fn command(words: &[String], container: &Container) -> Vec<String> {
    let variables = container.env.iter().flatten();
    let values: HashMap<&str, &str> = variables
        .map(|variable| (variable.name.as_str(), variable.value.as_deref().unwrap_or_default()))
        .collect();
    words.iter().map(|word| expand(word, |name| values.get(name).copied())).collect()
}

/// Standard output, then standard error.
fn shown(output: ExecOutput) -> String {
    let mut all = output.stdout;
    all.extend_from_slice(&output.stderr);
    all.truncate(MAX_OUTPUT);
    String::from_utf8_lossy(&all).into_owned()
}

/// The error as a Go client of the runtime shows it.
fn go_error(error: &CriError) -> String {
    let code = match error {
        CriError::NotFound { .. } => "NotFound",
        CriError::Unimplemented { .. } => "Unimplemented",
        CriError::Unreachable { .. } => "Unavailable",
        CriError::TooLarge { .. } => "ResourceExhausted",
        CriError::TimedOut { .. } => "DeadlineExceeded",
        CriError::Failed { .. } | CriError::Malformed { .. } => "Unknown",
    };
    format!("rpc error: code = {code} desc = {error}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource};

    use super::*;

    #[test]
    fn a_command_refers_to_variables_of_the_spec() {
        let literal = |name: &str, value: &str| EnvVar {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            value_from: None,
        };
        let other = EnvVar { name: "B".to_owned(), value: None, value_from: Some(EnvVarSource::default()) };
        let env = Some(vec![literal("A", "1"), other]);
        let container = Container { env, ..Container::default() };
        let words = ["x$(A)", "[$(B)]", "$(C)"].map(str::to_owned);
        assert_eq!(command(&words, &container), ["x1", "[]", "$(C)"]);
    }

    #[test]
    fn output_is_standard_output_then_standard_error_and_is_cut() {
        let output = |stdout: &[u8], stderr: &[u8]| ExecOutput {
            stdout: stdout.to_vec(),
            stderr: stderr.to_vec(),
            ..ExecOutput::default()
        };
        assert_eq!(shown(output(b"a\n", b"b")), "a\nb");
        assert_eq!(shown(output(&[b'x'; 9000], &[b'y'; 9000])).len(), MAX_OUTPUT);
        assert_eq!(shown(output(b"\xff", b"")), "\u{fffd}");
    }
}
