//! Settings of the room, as the configuration has them.

/// Settings of the task.
#[derive(Clone, Debug)]
pub struct DraSettings {
    /// The node's name.
    pub node: String,
    /// Whether devices are published. If not, slices of an earlier run are removed.
    pub publishes: bool,
}
