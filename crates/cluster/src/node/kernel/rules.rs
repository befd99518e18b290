//! The table of rules: which messages of the kernel are problems, and what the Node says of them. Data; the names are those of
//! node-problem-detector's kernel monitor where it has them.

use regex_lite::Regex;

use super::conditions::KernelCondition;

/// A kind of problem that the kernel logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The reason of its events, and its label in the metrics.
    pub(super) reason: &'static str,
    /// The condition that holds from then on, until the host reboots.
    pub(super) condition: Option<KernelCondition>,
    /// One of these is in every message that the pattern matches. Nearly no message has one, and looking for them is a hundred
    /// times cheaper than matching.
    hints: &'static [&'static str],
    /// A regular expression of ASCII, found anywhere in a message.
    pattern: &'static str,
}

const fn event(reason: &'static str, hints: &'static [&'static str], pattern: &'static str) -> Rule {
    Rule { reason, condition: None, hints, pattern }
}

const fn lasting(
    condition: KernelCondition,
    reason: &'static str,
    hints: &'static [&'static str],
    pattern: &'static str,
) -> Rule {
    Rule { reason, condition: Some(condition), hints, pattern }
}

/// All rules. The first one that matches a message counts.
const RULES: [Rule; 17] = [
    // A container at its limit. A kill because of the host is `SystemOOM`, as upstream, and no rule.
    event(
        "OOMKilling",
        &["Memory cgroup out of memory: "],
        r"Memory cgroup out of memory: Kill(ed)? process \d+ \(",
    ),
    // The processes that start and stop containers: while one hangs, so may every pod.
    lasting(
        KernelCondition::KernelDeadlock,
        "ContainerRuntimeHung",
        &[" blocked for more than "],
        r"task (containerd(-shim[^:]*)?|runc[^ ]*|crun|crio|conmon|dockerd?):\w+ blocked for more than \w+ seconds\.",
    ),
    event("TaskHung", &[" blocked for more than "], r"task [ -~]+:\w+ blocked for more than \w+ seconds\."),
    event("CPULockup", &["watchdog: "], r"watchdog: (BUG: soft lockup - |Watchdog detected hard LOCKUP on )"),
    event(
        "KernelOops",
        &[
            "BUG: ",
            "Unable to handle kernel ",
            "kernel BUG at ",
            "divide error: ",
            "general protection fault, ",
            "Oops",
        ],
        r"BUG: unable to handle |BUG: kernel NULL pointer dereference|Unable to handle kernel |kernel BUG at |divide error: 0000 \[#\d+\]|general protection fault, |Internal error: Oops",
    ),
    event(
        "UnregisterNetDevice",
        &["unregister_netdevice: "],
        r"unregister_netdevice: waiting for [^ ]+ to become free\. Usage count = -?\d+",
    ),
    lasting(
        KernelCondition::ReadonlyFilesystem,
        "FilesystemIsReadOnly",
        &["read-only", "readonly"],
        r"Remounting filesystem read-only|BTRFS [a-z]+ \([^)]*\): forced readonly|Filesystem has been set read-only",
    ),
    lasting(
        KernelCondition::XfsShutdown,
        "XfsHasShutdown",
        &["XFS ("],
        r"XFS \([^)]*\): .*Shutting down filesystem",
    ),
    event(
        "XfsError",
        &["XFS ("],
        r"XFS \([^)]*\): (Metadata corruption|Metadata CRC error|metadata I/O error|Internal error|Corruption )",
    ),
    event(
        "Ext4Error",
        &["EXT4-fs error ", "Aborting journal "],
        r"EXT4-fs error |Aborting journal on device ",
    ),
    event("Ext4Warning", &["EXT4-fs warning "], r"EXT4-fs warning "),
    event("BtrfsError", &["BTRFS "], r"BTRFS (critical|error) \("),
    event(
        "DiskReset",
        &["reset", "recovery failed"],
        r"ata\d+(\.\d+)?: (hard|soft) resetting link|nvme nvme\d+: (I/O .*timeout, reset controller|controller is down; will reset|Device not ready; aborting reset|Disabling device after reset failure)|attempting (target|host) reset!|(sd|scsi) [\d:]+: Power-on or device reset occurred|mmcblk\d+: recovery failed",
    ),
    event(
        "DiskOffline",
        &["Offlining ", "offline"],
        r"sd [\d:]+: ((\[\w+\] )?.*Offlining disk!|Device offlined - not ready after error recovery|rejecting I/O to offline device)",
    ),
    // Of disks. Of an empty drive for removable media it is no problem.
    event(
        "IOError",
        &["error"],
        r"(I/O|critical medium) error(,| on) dev(ice)? (sd|vd|xvd|nvme|mmcblk|dm-|md|nbd|rbd|pmem|dasd)|mmcblk\d+: error -\d+",
    ),
    event("MemoryReadError", &["CE memory read error "], r"CE memory read error "),
    event(
        "MemoryFailure",
        &["Hardware Error", "Memory failure: ", "UE memory "],
        r"\[Hardware Error\]: event severity: fatal|Memory failure: 0x[0-9a-f]+: |UE memory ",
    ),
];

/// The rules, ready to match.
#[derive(Debug)]
pub(super) struct Rules(Vec<(Rule, Regex)>);

impl Rules {
    pub(super) fn new() -> Self {
        // An error is one in the table, which a test would find.
        Self(RULES.iter().filter_map(|rule| Some((*rule, Regex::new(rule.pattern).ok()?))).collect())
    }

    /// The rule for a message.
    pub(super) fn find(&self, message: &str) -> Option<Rule> {
        let is_hinted = |rule: &Rule| rule.hints.iter().any(|hint| message.contains(hint));
        let mut rules = self.0.iter().filter(|(rule, _)| is_hinted(rule));
        rules.find(|(_, pattern)| pattern.is_match(message)).map(|(rule, _)| *rule)
    }

    /// All reasons, each once.
    pub(super) fn reasons() -> impl Iterator<Item = &'static str> {
        RULES.iter().map(|rule| rule.reason)
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
