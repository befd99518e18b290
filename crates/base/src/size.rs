//! Human-readable sizes.

/// Three digits and a decimal unit, like `crictl`.
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    // A value that rounds to a thousand uses the next unit.
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let decimals = match size {
        _ if unit == 0 => 0,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{size:.decimals$}");
    let text = if decimals == 0 { &text } else { text.trim_end_matches('0').trim_end_matches('.') };
    format!("{text}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, text) in [
            (0, "0B"),
            (999, "999B"),
            (1000, "1kB"),
            (1234, "1.23kB"),
            (43_210, "43.2kB"),
            (999_400, "999kB"),
            (999_600, "1MB"),
            (100_000_000, "100MB"),
            (1_500_000_000, "1.5GB"),
        ] {
            assert_eq!(human_size(bytes), text, "{bytes}");
        }
    }
}
