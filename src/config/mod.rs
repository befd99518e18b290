//! KubeletConfiguration v1beta1 file, drop-in directory and flags, merged into one validated struct. Does not know who uses it.

mod document;
mod duration;
mod scalar;

pub use duration::{DurationError, GoDuration};
