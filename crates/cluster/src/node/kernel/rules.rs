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
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Messages as kernels log them, by the reason that they have.
    const LOGGED: [(&str, &str); 44] = [
        (
            "OOMKilling",
            "Memory cgroup out of memory: Killed process 77 (sh) total-vm:1036kB, anon-rss:160kB, file-rss:52kB, shmem-rss:0kB, UID:0 pgtables:40kB oom_score_adj:985",
        ),
        ("OOMKilling", "Memory cgroup out of memory: Kill process 77 (sh) score 1972 or sacrifice child"),
        (
            "",
            "Out of memory: Killed process 4242 (stress) total-vm:8392912kB, anon-rss:8000000kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:16kB oom_score_adj:0",
        ),
        (
            "",
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c,task=sh,pid=77,uid=0",
        ),
        ("TaskHung", "INFO: task jbd2/sda1-8:412 blocked for more than 120 seconds."),
        ("TaskHung", "INFO: task kworker/u8:3:23117 blocked for more than 241 seconds."),
        ("TaskHung", "INFO: task tokio runtime w:99 blocked for more than 122 seconds."),
        ("ContainerRuntimeHung", "INFO: task containerd-shim:2031 blocked for more than 120 seconds."),
        ("ContainerRuntimeHung", "INFO: task runc:[2:INIT]:2031 blocked for more than 120 seconds."),
        ("ContainerRuntimeHung", "INFO: task dockerd:744 blocked for more than 120 seconds."),
        ("", "INFO: task sync:744 blocked on a mutex likely owned by task sync:745."),
        ("CPULockup", "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [stress:2131]"),
        ("CPULockup", "watchdog: Watchdog detected hard LOCKUP on cpu 3"),
        ("KernelOops", "BUG: kernel NULL pointer dereference, address: 0000000000000008"),
        ("KernelOops", "BUG: unable to handle kernel NULL pointer dereference at 0000000000000008"),
        ("KernelOops", "BUG: unable to handle page fault for address: ffffb1d9c0a5d000"),
        ("KernelOops", "Unable to handle kernel paging request at virtual address ffff800012345678"),
        ("KernelOops", "kernel BUG at fs/ext4/inode.c:2804!"),
        ("KernelOops", "divide error: 0000 [#1] SMP NOPTI"),
        (
            "UnregisterNetDevice",
            "unregister_netdevice: waiting for veth3c457fbc to become free. Usage count = 2",
        ),
        ("FilesystemIsReadOnly", "EXT4-fs (sda1): Remounting filesystem read-only"),
        ("FilesystemIsReadOnly", "BTRFS info (device sdb1: state E): forced readonly"),
        ("FilesystemIsReadOnly", "FAT-fs (sda1): Filesystem has been set read-only"),
        ("", "EXT4-fs (sda1): re-mounted 8d6e2a0c-3c6b-4a5f-a4e5-6f3f6b7a8c9d ro."),
        (
            "XfsHasShutdown",
            "XFS (dm-0): Corruption of in-memory data (0x8) detected at xfs_defer_finish_noroll+0x3b8/0x5a0 [xfs] (fs/xfs/libxfs/xfs_defer.c:573).  Shutting down filesystem.",
        ),
        ("XfsHasShutdown", "XFS (sdb1): Log I/O Error Detected. Shutting down filesystem"),
        (
            "XfsError",
            "XFS (sdb1): Metadata corruption detected at xfs_agf_read_verify+0xb4/0xf0 [xfs], xfs_agf block 0x1",
        ),
        (
            "XfsError",
            "XFS (sdb1): metadata I/O error in \"xfs_da_read_buf+0xd9/0x130 [xfs]\" at daddr 0x18 len 8 error 5",
        ),
        ("", "XFS (sdb1): Mounting V5 Filesystem 2c9e4f0e-7d2b-4a0f-b5ab-0e0f4b7c9d11"),
        (
            "Ext4Error",
            "EXT4-fs error (device sda1): ext4_lookup:1785: inode #131074: comm ls: deleted inode referenced: 131081",
        ),
        ("Ext4Error", "Aborting journal on device sda1-8."),
        (
            "Ext4Warning",
            "EXT4-fs warning (device sda1): ext4_dirblock_csum_verify:405: inode #2: comm ls: No space for directory leaf checksum. Please run e2fsck -D.",
        ),
        (
            "BtrfsError",
            "BTRFS error (device sdb1): bdev /dev/sdb1 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0",
        ),
        ("DiskReset", "ata1: hard resetting link"),
        ("DiskReset", "nvme nvme0: I/O tag 5 (1005) opcode 0x2 (I/O Cmd) QID 3 timeout, reset controller"),
        ("DiskReset", "nvme nvme0: controller is down; will reset: CSTS=0x3, PCI_STATUS=0x10"),
        ("DiskReset", "scsi target0:0:1: attempting target reset! scmd(0x000000005e1f4a0b)"),
        ("DiskOffline", "sd 2:0:0:0: Device offlined - not ready after error recovery"),
        ("IOError", "Buffer I/O error on dev sda1, logical block 0, async page read"),
        (
            "IOError",
            "blk_update_request: I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0",
        ),
        (
            "",
            "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
        ),
        (
            "MemoryReadError",
            "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1 offset:0x0 grain:32 syndrome:0x0)",
        ),
        ("MemoryFailure", "Memory failure: 0x1a2b3c: recovery action for dirty LRU page: Recovered"),
        ("", "cni0: port 96(veth3c457fbc) entered disabled state"),
    ];

    #[test]
    fn messages_of_kernels_have_their_reasons() {
        let rules = Rules::new();
        for (reason, message) in LOGGED {
            let found = rules.find(message).map_or("", |rule| rule.reason);
            assert_eq!(found, reason, "{message}");
        }
        let tested: BTreeSet<&str> = LOGGED.iter().map(|(reason, _)| *reason).collect();
        assert!(Rules::reasons().all(|reason| tested.contains(reason)), "a rule without a message");
    }

    #[test]
    fn conditions_hold_for_what_lasts() {
        let rules = Rules::new();
        let condition = |message: &str| rules.find(message).and_then(|rule| rule.condition);
        assert_eq!(condition(LOGGED[4].1), None);
        assert_eq!(condition(LOGGED[7].1), Some(KernelCondition::KernelDeadlock));
        assert_eq!(condition(LOGGED[20].1), Some(KernelCondition::ReadonlyFilesystem));
        assert_eq!(condition(LOGGED[24].1), Some(KernelCondition::XfsShutdown));
    }

    #[test]
    fn reasons_are_names_of_events_and_different() {
        let mut reasons: Vec<&str> = Rules::reasons().collect();
        assert!(reasons.iter().all(|reason| reason.chars().all(|c| c.is_ascii_alphanumeric())));
        reasons.sort_unstable();
        reasons.dedup();
        assert_eq!(reasons.len(), RULES.len());
    }
}
