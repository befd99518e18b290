//! How a session ended, as the runtime reports it on the error stream (protocol v4.channel.k8s.io). Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;

use hostlet_base::{go_quoted, json};

/// How a session with a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command succeeded, or the process that a client had attached to has exited.
    Succeeded,
    /// The command exited with this code, which is not zero.
    Exited(u8),
    /// The command could not be run. The text is the runtime's.
    Failed(String),
    /// The client has left; the process may still run.
    Left,
}

impl Ended {
    /// Reads the error stream. The texts of its errors are client-go's (`errorDecoderV4`).
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let broken = |why: String| Self::Failed(format!("error stream protocol error: {why}"));
        let status: Status = match json::from_slice(text) {
            Ok(status) => status,
            Err(error) => {
                return broken(format!("{error} in {}", go_quoted(&String::from_utf8_lossy(text))));
            }
        };
        match (status.status.as_deref(), status.reason.as_deref()) {
            (Some("Success"), _) => Self::Succeeded,
            (Some("Failure"), Some("NonZeroExitCode")) => {
                let Some(details) = status.details else { return broken("details must be set".to_owned()) };
                let causes = details.causes.unwrap_or_default();
                let Some(cause) =
                    causes.into_iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"))
                else {
                    return broken("no ExitCode cause given".to_owned());
                };
                let code = cause.message.unwrap_or_default();
                match code.parse() {
                    Ok(code) => Self::Exited(code),
                    Err(_) => broken(format!("invalid exit code value {}", go_quoted(&code))),
                }
            }
            (Some("Failure"), _) => Self::Failed(status.message.unwrap_or_default()),
            (Some(_) | None, _) => broken("unknown error".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_stream_is_read_as_by_client_go() {
        let exited = |causes: &str| {
            Ended::parse(
                format!(
                    r#"{{"status":"Failure","reason":"NonZeroExitCode","details":{{"causes":[{causes}]}}}}"#
                )
                .as_bytes(),
            )
        };
        let broken = |why: &str| Ended::Failed(format!("error stream protocol error: {why}"));
        assert_eq!(Ended::parse(br#"{"metadata":{},"status":"Success"}"#), Ended::Succeeded);
        assert_eq!(
            exited(r#"{"reason":"Other","message":"1"},{"reason":"ExitCode","message":"42"}"#),
            Ended::Exited(42)
        );
        assert_eq!(exited(""), broken("no ExitCode cause given"));
        assert_eq!(
            exited(r#"{"reason":"ExitCode","message":"256"}"#),
            broken("invalid exit code value \"256\"")
        );
        assert_eq!(
            Ended::parse(br#"{"status":"Failure","reason":"NonZeroExitCode"}"#),
            broken("details must be set")
        );
        let internal =
            br#"{"status":"Failure","reason":"InternalError","message":"no such file","code":500}"#;
        assert_eq!(Ended::parse(internal), Ended::Failed("no such file".to_owned()));
        assert_eq!(Ended::parse(b"{}"), broken("unknown error"));
        assert!(matches!(Ended::parse(b"oops"), Ended::Failed(why) if why.ends_with(" in \"oops\"")));
    }
}
