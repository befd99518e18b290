//! Reads the kernel's text files about use: of cgroups (v1 and v2), of network devices, and of disks. Pure; skips what it does not
//! understand.

use std::collections::BTreeMap;

use super::usage::{
    BlockDevice, DeviceIo, DiskActivity, NetworkDevice, OtherBytes, PressureAverages, PressureStall,
};

/// The number in a file that has nothing else; `max` is the largest one.
pub fn number(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The lines `key value` of a file, as of `memory.stat`.
pub fn flat(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(' ')?;
        Some((key, value.trim().parse().ok()?))
    })
}

/// Pressure stall information (Documentation/accounting/psi.rst); `None` if the file has no such line.
pub fn pressure(text: &str) -> Option<PressureStall> {
    let mut found = None;
    for line in text.lines() {
        let (kind, fields) = line.split_once(' ').unwrap_or((line, ""));
        let mut averages = PressureAverages::default();
        for (key, value) in fields.split(' ').filter_map(|field| field.split_once('=')) {
            match key {
                "avg10" => averages.avg10 = share(value),
                "avg60" => averages.avg60 = share(value),
                "avg300" => averages.avg300 = share(value),
                "total" => averages.total = value.trim().parse().unwrap_or_default(),
                _ => {}
            }
        }
        match kind {
            "some" => found.get_or_insert_with(PressureStall::default).some = averages,
            "full" => found.get_or_insert_with(PressureStall::default).full = averages,
            _ => {}
        }
    }
    found
}

/// A percentage. What is no finite number has no place in JSON.
fn share(text: &str) -> f64 {
    text.parse().ok().filter(|share: &f64| share.is_finite()).unwrap_or_default()
}

fn device(text: &str) -> Option<BlockDevice> {
    let (major, minor) = text.split_once(':')?;
    Some(BlockDevice { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// `io.stat` of cgroup v2: `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`.
pub fn io_stat(text: &str) -> Vec<DeviceIo> {
    let line = |line: &str| {
        let (name, fields) = line.split_once(' ')?;
        let mut io = DeviceIo::of(device(name)?);
        for (key, value) in fields.split(' ').filter_map(|field| field.split_once('=')) {
            let Ok(value) = value.parse() else { continue };
            match key {
                "rbytes" => io.read_bytes = value,
                "wbytes" => io.written_bytes = value,
                "rios" => io.reads = value,
                "wios" => io.writes = value,
                _ => {}
            }
        }
        Some(io)
    };
    text.lines().filter_map(line).collect()
}

/// Where the value of a kind of operation belongs.
type Field = for<'a> fn(&'a mut DeviceIo, &str) -> Option<&'a mut u64>;

/// A file of bytes and one of operations of cgroup v1's `blkio`, both `8:0 Read 1`.
pub fn blkio(bytes: &str, operations: &str) -> Vec<DeviceIo> {
    let mut all: BTreeMap<BlockDevice, DeviceIo> = BTreeMap::new();
    let mut add = |text: &str, field: Field| {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(kind), Some(value)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let (Some(device), Ok(value)) = (device(name), value.parse()) else { continue };
            if let Some(field) = field(all.entry(device).or_insert(DeviceIo::of(device)), kind) {
                *field = value;
            }
        }
    };
    add(bytes, |io, kind| match kind {
        "Read" => Some(&mut io.read_bytes),
        "Write" => Some(&mut io.written_bytes),
        kind => {
            let others = io.others.get_or_insert(OtherBytes::default());
            match kind {
                "Sync" => Some(&mut others.sync),
                "Async" => Some(&mut others.r#async),
                "Discard" => Some(&mut others.discard),
                "Total" => Some(&mut others.total),
                _ => None,
            }
        }
    });
    add(operations, |io, kind| match kind {
        "Read" => Some(&mut io.reads),
        "Write" => Some(&mut io.writes),
        _ => None,
    });
    all.into_values().collect()
}

/// Whether a file of cgroup v1's `blkio` is about any device: without one it has a total at most.
pub(super) fn has_devices(text: &str) -> bool {
    text.lines().any(|line| line.split_once(' ').is_some_and(|(name, _)| device(name).is_some()))
}

/// Network devices that are not counted, by the start of their names: the other ends of pods' devices, and those that never leave
/// the host (upstream's choice).
const IGNORED: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// `/proc/<pid>/net/dev` (proc_pid_net(5)), in its order.
pub fn network_devices(text: &str) -> Vec<NetworkDevice> {
    let line = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let name = name.trim();
        let lower = name.to_ascii_lowercase();
        if IGNORED.iter().any(|prefix| lower.starts_with(prefix)) {
            return None;
        }
        let counters: Vec<u64> = counters.split_whitespace().map_while(|text| text.parse().ok()).collect();
        let [
            rx_bytes,
            rx_packets,
            rx_errors,
            rx_dropped,
            _,
            _,
            _,
            _,
            tx_bytes,
            tx_packets,
            tx_errors,
            tx_dropped,
            ..,
        ] = counters[..]
        else {
            return None;
        };
        Some(NetworkDevice {
            name: name.to_owned(),
            rx_bytes,
            rx_packets,
            rx_errors,
            rx_dropped,
            tx_bytes,
            tx_packets,
            tx_errors,
            tx_dropped,
        })
    };
    // Two lines of headings.
    text.lines().skip(2).filter_map(line).collect()
}

/// The block devices in `/proc/diskstats` with their names and what they did (Documentation/admin-guide/iostats.rst).
pub fn disks(text: &str) -> impl Iterator<Item = (BlockDevice, &str, DiskActivity)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let device = BlockDevice { major: words.next()?.parse().ok()?, minor: words.next()?.parse().ok()? };
        let name = words.next()?;
        let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or_default();
        // In the order of the columns.
        let activity = DiskActivity {
            reads: next(),
            reads_merged: next(),
            sectors_read: next(),
            reading: next(),
            writes: next(),
            writes_merged: next(),
            sectors_written: next(),
            writing: next(),
            in_progress: next(),
            busy: next(),
            weighted: next(),
        };
        Some((device, name, activity))
    })
}

/// The processes of the host in `/proc/loadavg`, threads included: `0.1 0.2 0.3 2/345 6789`.
pub fn running_tasks(text: &str) -> Option<u64> {
    text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// The soft limit of open files in `/proc/<pid>/limits`; -1 without limit.
pub fn open_files_limit(text: &str) -> Option<i64> {
    let fields = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match fields.split_whitespace().next()? {
        "unlimited" => Some(-1),
        soft => soft.parse().ok(),
    }
}

/// Swap of the host that is in use, in `/proc/meminfo`, bytes.
pub fn swap_in_use(text: &str) -> u64 {
    let kib = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default()
    };
    kib("SwapTotal").saturating_sub(kib("SwapFree")).saturating_mul(1024)
}
