//! Checksums of a stock kubelet's checkpoint files: FNV-1a of the values in the notation of Go's spew, with types.

/// The checksum of a dump (`fnv.New32a`).
pub(crate) fn checksum(dump: &str) -> u64 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    u64::from(dump.bytes().fold(0x811c_9dc5, step))
}

/// The checksum of a text (`checksum.New` of a string).
pub(crate) fn text_checksum(text: &str) -> u64 {
    checksum(&format!("(string){text}"))
}

/// The dump of a map: its entries in order, keys and values without types.
pub(crate) fn dump_map(entries: impl IntoIterator<Item = (String, String)>) -> String {
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    format!("map[{}]", entries.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        // From the reference implementation's tests.
        assert_eq!(checksum(""), 0x811c_9dc5);
        assert_eq!(checksum("foobar"), 0xbf9c_f968);
        assert_eq!(text_checksum("x"), checksum("(string)x"));
    }
}
