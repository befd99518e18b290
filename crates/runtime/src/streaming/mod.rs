//! Sessions with a process in a container or with the ports of a pod, at the URLs where the runtime serves them: the upgrade of a
//! connection, and a client for commands and attachments. Knows no client of the kubelet, and not whose the containers are.

mod ending;
mod error;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
mod remote_command;
#[cfg(test)]
mod tests;
mod upgrade;
mod url;

pub use ending::Ended;
pub use error::{StreamUrlError, StreamingError};
pub use remote_command::{Input, Output, TerminalSize, remote_command};
pub use upgrade::{Answer, PROTOCOL_VERSION, SPDY, StreamIo, upgrade};
pub use url::StreamUrl;
