//! The table of rules: which messages of the kernel are problems, and what the Node says of them. Data; the names are those of
//! node-problem-detector's kernel monitor where it has them.

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::conditions::KernelCondition;

/// A kind of problem that the kernel logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The reason of its events, and its label in the metrics.
    pub(super) reason: &'static str,
    /// The condition that holds from then on, until the host reboots.
    pub(super) condition: Option<KernelCondition>,
    /// A regular expression of ASCII, found anywhere in a message.
    pattern: &'static str,
}

const fn event(reason: &'static str, pattern: &'static str) -> Rule {
    Rule { reason, condition: None, pattern }
}

const fn lasting(condition: KernelCondition, reason: &'static str, pattern: &'static str) -> Rule {
    Rule { reason, condition: Some(condition), pattern }
}

/// All rules. The first one that matches a message counts.
const RULES: [Rule; 17] = [
    // A container at its limit. A kill because of the host is `SystemOOM`, as upstream, and no rule.
    event("OOMKilling", r"Memory cgroup out of memory: Kill(ed)? process \d+ \("),
    // The processes that start and stop containers: while one hangs, so may every pod.
    lasting(
        KernelCondition::KernelDeadlock,
        "ContainerRuntimeHung",
        r"task (containerd(-shim[^:]*)?|runc[^ ]*|crun|crio|conmon|dockerd?):\w+ blocked for more than \w+ seconds\.",
    ),
    event("TaskHung", r"task [ -~]+:\w+ blocked for more than \w+ seconds\."),
    event("CPULockup", r"watchdog: (BUG: soft lockup - |Watchdog detected hard LOCKUP on )"),
    event(
        "KernelOops",
        r"BUG: unable to handle |BUG: kernel NULL pointer dereference|Unable to handle kernel |kernel BUG at |divide error: 0000 \[#\d+\]|general protection fault, |Internal error: Oops",
    ),
    event(
        "UnregisterNetDevice",
        r"unregister_netdevice: waiting for [^ ]+ to become free\. Usage count = -?\d+",
    ),
    lasting(
        KernelCondition::ReadonlyFilesystem,
        "FilesystemIsReadOnly",
        r"Remounting filesystem read-only|BTRFS [a-z]+ \([^)]*\): forced readonly|Filesystem has been set read-only",
    ),
    lasting(KernelCondition::XfsShutdown, "XfsHasShutdown", r"XFS \([^)]*\): .*Shutting down filesystem"),
    event(
        "XfsError",
        r"XFS \([^)]*\): (Metadata corruption|Metadata CRC error|metadata I/O error|Internal error|Corruption )",
    ),
    event("Ext4Error", r"EXT4-fs error |Aborting journal on device "),
    event("Ext4Warning", r"EXT4-fs warning "),
    event("BtrfsError", r"BTRFS (critical|error) \("),
    event(
        "DiskReset",
        r"ata\d+(\.\d+)?: (hard|soft) resetting link|nvme nvme\d+: (I/O .*timeout, reset controller|controller is down; will reset|Device not ready; aborting reset|Disabling device after reset failure)|attempting (target|host) reset!|(sd|scsi) [\d:]+: Power-on or device reset occurred|mmcblk\d+: recovery failed",
    ),
    event(
        "DiskOffline",
        r"sd [\d:]+: ((\[\w+\] )?.*Offlining disk!|Device offlined - not ready after error recovery|rejecting I/O to offline device)",
    ),
    // Of disks. Of an empty drive for removable media it is no problem.
    event(
        "IOError",
        r"(I/O|critical medium) error(,| on) dev(ice)? (sd|vd|xvd|nvme|mmcblk|dm-|md|nbd|rbd|pmem|dasd)|mmcblk\d+: error -\d+",
    ),
    event("MemoryReadError", r"CE memory read error "),
    event(
        "MemoryFailure",
        r"\[Hardware Error\]: event severity: fatal|Memory failure: 0x[0-9a-f]+: |UE memory ",
    ),
];

/// Memory for the matcher, in bytes. It is rarely needed, and only slower with less.
const MATCHER_CACHE: usize = 128 << 10;

/// The rules, ready to match.
#[derive(Debug)]
pub(super) struct Rules(Option<RegexSet>);

impl Rules {
    pub(super) fn new() -> Self {
        let patterns = RULES.iter().map(|rule| rule.pattern);
        // An error is one in the table, which a test would find.
        Self(RegexSetBuilder::new(patterns).unicode(false).dfa_size_limit(MATCHER_CACHE).build().ok())
    }

    /// The rule for a message.
    pub(super) fn find(&self, message: &str) -> Option<Rule> {
        let first = self.0.as_ref()?.matches(message.as_bytes()).iter().next()?;
        RULES.get(first).copied()
    }

    /// All reasons, each once.
    pub(super) fn reasons() -> impl Iterator<Item = &'static str> {
        RULES.iter().map(|rule| rule.reason)
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
