//! What the stock kubelet does for a whole node and hostlet does not yet, in the sentence of the log and of `hostlet explain`.

/// Said once at each start, because the defaults of the settings promise otherwise, and their warnings appear only if they are set.
pub const NO_RELIEF: &str =
    "hostlet does not yet remove unused images: watch the disk of the container runtime by other means";
