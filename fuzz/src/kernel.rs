//! The kernel's files about use.

use std::collections::BTreeSet;
use std::str::from_utf8;

use hostlet_observe::stats::parse;

/// A file of any of these kinds: what is read of it can be reported.
pub fn kernel_file(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    parse::number(text);
    parse::running_tasks(text);
    parse::open_files_limit(text);
    parse::swap_in_use(text);
    assert!(parse::flat(text).all(|(key, _)| !key.contains([' ', '\n'])), "a key of several words");
    if let Some(pressure) = parse::pressure(text) {
        for part in [pressure.some, pressure.full] {
            assert!(
                [part.avg10, part.avg60, part.avg300].iter().all(|share| share.is_finite()),
                "no number for JSON"
            );
        }
    }
    parse::io_stat(text);
    let devices = parse::blkio(text, text);
    let distinct: BTreeSet<_> = devices.iter().map(|io| io.device).collect();
    assert_eq!(distinct.len(), devices.len(), "a device twice");
    assert!(devices.iter().all(|io| io.read_bytes == io.reads && io.written_bytes == io.writes));
    for device in parse::network_devices(text) {
        assert!(!device.name.contains([':', '\n']) && !device.name.starts_with("veth"), "{device:?}");
    }
    assert!(
        parse::disks(text).all(|(_, name, _)| !name.contains(char::is_whitespace)),
        "a name of several words"
    );
}
