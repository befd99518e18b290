//! What one cgroup uses, read from its files.

mod files;
mod measure;
mod open_files;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

pub(super) use files::{Accounting, Reader};
