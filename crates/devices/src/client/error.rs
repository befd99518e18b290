//! Why a call to a device plugin failed, in the words in which the stock kubelet reports it.

use std::borrow::Cow;
use std::path::Path;

use hostlet_base::one_line;
use hostlet_plugins::root_cause;
use tonic::{Code, Status};

/// Maximum bytes of a plugin's own error text.
const MAX_TEXT: usize = 1000;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {} desc = {message}", code_name(*code))]
pub(crate) struct CallError {
    pub(crate) code: Code,
    /// One line.
    pub(crate) message: String,
}

impl CallError {
    /// The error of a call to the plugin on this socket.
    pub(crate) fn new(status: &Status, socket: &Path) -> Self {
        // Only local errors have a source.
        let is_local = std::error::Error::source(status).is_some();
        match status.code() {
            // The transport has a clock of its own for the same deadline.
            Code::Cancelled if is_local => Self::timed_out(),
            // A connection that is lost during a call has no better code.
            Code::Unknown | Code::Internal | Code::Unavailable if is_local => {
                let cause = root_cause(status, MAX_TEXT);
                let message = format!("connection to the device plugin at {}: {cause}", socket.display());
                Self { code: Code::Unavailable, message: one_line(&message, MAX_TEXT) }
            }
            code => Self { code, message: one_line(status.message(), MAX_TEXT) },
        }
    }

    /// The error of a call that took too long.
    pub(crate) fn timed_out() -> Self {
        Self { code: Code::DeadlineExceeded, message: "context deadline exceeded".to_owned() }
    }
}

/// The name of a code in gRPC for Go.
fn code_name(code: Code) -> Cow<'static, str> {
    match code {
        Code::Ok => "OK".into(),
        Code::Cancelled => "Canceled".into(),
        other => format!("{other:?}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_those_of_the_stock_kubelet() {
        let error = CallError::new(&Status::resource_exhausted("no\nroom"), Path::new("/p.sock"));
        assert_eq!(error.to_string(), "rpc error: code = ResourceExhausted desc = no\\nroom");
        assert_eq!(
            CallError::timed_out().to_string(),
            "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        );
        assert_eq!(code_name(Code::Cancelled), "Canceled");
    }
}
