//! Why a call to a device plugin failed, in the words in which the stock kubelet reports it.

use std::path::Path;

use hostlet_base::one_line;
use hostlet_plugins::{CallFailure, Peer, code_name};
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
        CallFailure::new(status, Peer { name: "the device plugin", socket }).into()
    }

    /// The error of a call that took too long.
    pub(crate) fn timed_out() -> Self {
        CallFailure::timed_out().into()
    }
}

impl From<CallFailure> for CallError {
    fn from(CallFailure { code, message }: CallFailure) -> Self {
        Self { code, message: one_line(&message, MAX_TEXT) }
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
