//! Texts as kernels write them, and broken ones.

use super::parse::*;
use super::usage::{BlockDevice, DeviceIo, DiskActivity, OtherBytes, PressureStall};

const DISK: BlockDevice = BlockDevice { major: 8, minor: 0 };

#[test]
fn numbers() {
    assert_eq!(number("42\n"), Some(42));
    assert_eq!(number("max\n"), Some(u64::MAX));
    for bad in ["", "-1\n", "1 2\n", "99999999999999999999\n"] {
        assert_eq!(number(bad), None, "{bad:?}");
    }
}

#[test]
fn lines_of_key_and_value() {
    let text = "anon 1\nfile 22\nbroken\nnegative -3\n last 4\n";
    assert_eq!(flat(text).collect::<Vec<_>>(), [("anon", 1), ("file", 22)]);
}

#[test]
fn pressure_with_and_without_full_lines() {
    // Kernels before 5.13 have no line `full` for the CPU.
    let some = pressure("some avg10=0.50 avg60=1.25 avg300=99.00 total=12\n").unwrap();
    assert_eq!((some.some.avg10, some.some.avg60, some.some.avg300, some.some.total), (0.5, 1.25, 99.0, 12));
    assert_eq!(some.full, PressureStall::default().full);
    assert_eq!(pressure(""), None);
    assert_eq!(pressure("some avg10=NaN avg60=inf total=-1\n"), Some(PressureStall::default()));
}

#[test]
fn devices_of_v2() {
    let io = DeviceIo { read_bytes: 1, written_bytes: 2, reads: 3, writes: 4, ..DeviceIo::of(DISK) };
    let text = "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n254:1 \n7:0\nx:0 rbytes=1\n";
    let none = DeviceIo { device: BlockDevice { major: 254, minor: 1 }, ..DeviceIo::of(DISK) };
    assert_eq!(io_stat(text), [io, none]);
}

#[test]
fn devices_of_v1() {
    let bytes = "8:0 Read 1\n8:0 Write 2\n8:0 Sync 4\n8:0 Async 5\n8:0 Discard 6\n8:0 Total 3\n8:16 Write 7\nTotal 10\n";
    let operations = "8:0 Read 3\n8:0 Write 4\nbroken\n8:0 Read\n";
    let io = DeviceIo { read_bytes: 1, written_bytes: 2, reads: 3, writes: 4, ..DeviceIo::of(DISK) };
    let other = DeviceIo { written_bytes: 7, ..DeviceIo::of(BlockDevice { major: 8, minor: 16 }) };
    let others = Some(OtherBytes { sync: 4, r#async: 5, discard: 6, total: 3 });
    assert_eq!(blkio(bytes, operations), [DeviceIo { others, ..io }, other]);
    assert!(has_devices(bytes) && !has_devices("Total 0\n") && !has_devices(""));
}

#[test]
fn network_devices_without_those_that_stay_on_the_host() {
    let text = "Inter-|\n face |\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n\
        eth0:10 20 1 2 0 0 0 0 30 40 3 4 0 0 0 0\n  docker0: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n\
        vethA: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\nbroken: 1 2\nnothing\n";
    let found = network_devices(text);
    assert_eq!(found.len(), 1, "{found:?}");
    let eth0 = &found[0];
    assert_eq!(
        (eth0.name.as_str(), eth0.rx_bytes, eth0.rx_packets, eth0.rx_errors, eth0.rx_dropped),
        ("eth0", 10, 20, 1, 2)
    );
    assert_eq!((eth0.tx_bytes, eth0.tx_packets, eth0.tx_errors, eth0.tx_dropped), (30, 40, 3, 4));
}

#[test]
fn facts_of_the_host() {
    let text = "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13\n   8       1 sda1 1\n 259 0\n";
    let found: Vec<_> = disks(text).collect();
    let activity = DiskActivity {
        reads: 1,
        reads_merged: 2,
        sectors_read: 3,
        reading: 4,
        writes: 5,
        writes_merged: 6,
        sectors_written: 7,
        writing: 8,
        in_progress: 9,
        busy: 10,
        weighted: 11,
    };
    let partition = DiskActivity { reads: 1, ..DiskActivity::default() };
    assert_eq!(found, [(DISK, "sda", activity), (BlockDevice { major: 8, minor: 1 }, "sda1", partition)]);
    assert_eq!(running_tasks("0.00 0.01 0.05 3/226 9999\n"), Some(226));
    assert_eq!(running_tasks("0.00 0.01\n"), None);
    let limits =
        |soft: &str| format!("Limit  Soft\nMax open files            {soft}       524288     files\n");
    assert_eq!(open_files_limit(&limits("1024")), Some(1024));
    assert_eq!(open_files_limit(&limits("unlimited")), Some(-1));
    assert_eq!(open_files_limit("Max processes 1 2\n"), None);
    assert_eq!(swap_in_use("SwapTotal:     2048 kB\nSwapFree:     1024 kB\n"), 1 << 20);
    assert_eq!(swap_in_use("SwapCached: 1 kB\n"), 0);
}
