//! Test fixtures: files of a fake machine, and processes.

use super::Shim;

/// `/proc/meminfo` of a fake machine with 2 MiB of swap.
pub(super) const MEMINFO: &str = "MemTotal:        3975224 kB\nMemFree: 1 kB\nBuffers: 1 kB\nCached: 1 kB\nSwapCached: 0 kB\n\
    Active: 1 kB\nInactive: 1 kB\nSwapTotal: 2048 kB\nSwapFree: 0 kB\nDirty: 0 kB\nWriteback: 0 kB\nMapped: 1 kB\n\
    Slab: 1 kB\nCommitted_AS: 1 kB\nVmallocTotal: 1 kB\nVmallocUsed: 0 kB\nVmallocChunk: 0 kB\n";

/// A shim of this process.
pub(crate) fn shim(pid: i32, started: u64) -> Shim {
    Shim::made_up(pid, started)
}
