//! The host: memory, names, own process limits, kernel facts. Does not know what a pod is.
