//! The rules, against records of real kernels.

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
    ("UnregisterNetDevice", "unregister_netdevice: waiting for veth3c457fbc to become free. Usage count = 2"),
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
    ("BtrfsError", "BTRFS error (device sdb1): bdev /dev/sdb1 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0"),
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
    ("", "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0"),
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
fn no_message_that_matches_lacks_its_hint() {
    for (_, message) in LOGGED {
        for (rule, pattern) in Rules::new().0 {
            let is_hinted = rule.hints.iter().any(|hint| message.contains(hint));
            assert!(is_hinted || !pattern.is_match(message), "{}: {message}", rule.reason);
        }
    }
    assert_eq!(Rules::new().0.len(), RULES.len(), "a pattern is no regular expression");
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
