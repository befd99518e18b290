//! What storms of faults on real parts share: their pods, what was observed of them, and their expected state. Knows no faults.

mod history;
mod pods;
mod settled;

pub use history::History;
pub use pods::{Kind, Mark, Present, StormPod};
pub use settled::{is_as_desired, wrong_on_host, wrong_processes};
