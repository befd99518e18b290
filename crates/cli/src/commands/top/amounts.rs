//! Amounts as text, as `kubectl top` prints them. Pure.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Billionths of a core per thousandth.
const MILLI: u64 = 1_000_000;

/// Thousandths of a core, rounded up: `12m`.
pub(super) fn cores(nano: u64) -> String {
    format!("{}m", nano.div_ceil(MILLI))
}

/// `512Ki`, `34Mi`, from ten gibibytes on `12.3Gi`.
pub(super) fn memory(bytes: u64) -> String {
    match bytes {
        ..MIB => format!("{}Ki", bytes / KIB),
        b if b < 10 * GIB => format!("{}Mi", b / MIB),
        b => format!("{:.1}Gi", b as f64 / GIB as f64),
    }
}

/// `12.3%`; `None` of nothing.
pub(super) fn share(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| format!("{:.1}%", part as f64 * 100.0 / whole as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_those_of_kubectl() {
        assert_eq!((&*cores(0), &*cores(1), &*cores(1_500_000_000)), ("0m", "1m", "1500m"));
        assert_eq!((&*memory(900 * KIB), &*memory(34 * MIB + 5)), ("900Ki", "34Mi"));
        assert_eq!((&*memory(10 * GIB - 1), &*memory(12 * GIB + 300 * MIB)), ("10239Mi", "12.3Gi"));
        assert_eq!((share(1, 8).as_deref(), share(1, 0)), (Some("12.5%"), None));
    }
}
