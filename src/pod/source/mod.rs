//! Sources of pods: the directory or file of manifests this host is to run.

mod decode;
mod identity;
mod strict;

pub use decode::{DecodeError, decode_pod};
