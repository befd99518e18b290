//! Which drivers may report their devices to the kubelet, by the versions that they state. Pure.

/// Whether a driver with this version may report its devices to the kubelet: the service that does it, or the semantic version
/// of the registration that the helper of 1.30 sends. Whether a driver has that service shows only when it is called.
pub(super) fn reports_devices(version: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
    let is_first = parts.next() == Some("1");
    let rest: Vec<&str> = parts.collect();
    version == "v1alpha3.Node"
        || (is_first && (1..=2).contains(&rest.len()) && rest.iter().all(|part| is_number(part)))
}
