//! Validation of Kubernetes names: DNS labels and subdomains, qualified keys, environment variables, sysctls, paths. Returns the API
//! server's messages (`apimachinery/pkg/util/validation`). No I/O.

use std::net::IpAddr;

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
     must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
     end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
     or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
     used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const HTTP_HEADER_RULE: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
     regex used for validation is '[-A-Za-z0-9]+')";

/// Maximum length of a DNS label, in bytes.
pub const LABEL_MAX: usize = 63;
/// Maximum length of a DNS subdomain, in bytes.
pub const SUBDOMAIN_MAX: usize = 253;

fn is_lower_alnum(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether `text` is not empty, its first and last bytes satisfy `ends`, and all of its bytes satisfy `inner`.
fn framed(text: &str, ends: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => ends(*first) && ends(*last) && bytes.iter().all(|b| inner(*b)),
        _ => false,
    }
}

fn longer_than(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} bytes"))
}

fn rule(is_valid: bool, message: &str) -> Option<String> {
    (!is_valid).then(|| message.to_owned())
}

fn is_label(text: &str) -> bool {
    framed(text, is_lower_alnum, |b| is_lower_alnum(b) || b == b'-')
}

/// Validates a DNS-1123 label (container, volume and namespace names, hostnames).
pub fn dns_label(text: &str) -> Vec<String> {
    longer_than(text, LABEL_MAX).into_iter().chain(rule(is_label(text), LABEL_RULE)).collect()
}

/// Validates a DNS-1123 subdomain (pod and node names).
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let is_valid = text.split('.').all(is_label);
    longer_than(text, SUBDOMAIN_MAX).into_iter().chain(rule(is_valid, SUBDOMAIN_RULE)).collect()
}

/// Validates the key of a label, an annotation or a resource: `name` or `domain/name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if name.contains('/') {
        return vec![format!(
            "a qualified name {QUALIFIED_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )];
    }
    let mut messages = Vec::new();
    match prefix {
        Some("") => messages.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            messages.extend(dns_subdomain(prefix).into_iter().map(|m| format!("prefix part {m}")))
        }
        None => {}
    }
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    }
    messages.extend(longer_than(name, LABEL_MAX).map(|m| format!("name part {m}")));
    messages.extend(rule(is_label_text(name), QUALIFIED_RULE));
    messages
}

fn is_label_text(text: &str) -> bool {
    framed(text, |b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Validates the value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let is_valid = text.is_empty() || is_label_text(text);
    longer_than(text, LABEL_MAX).into_iter().chain(rule(is_valid, LABEL_VALUE_RULE)).collect()
}

/// Validates the name of a port (an IANA service name).
pub fn port_name(text: &str) -> Vec<String> {
    let mut messages: Vec<String> = longer_than(text, 15).into_iter().collect();
    if !text.bytes().all(|b| is_lower_alnum(b) || b == b'-') || text.is_empty() {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

/// The name of an HTTP header (`IsHTTPHeaderName` upstream).
pub fn http_header_name(text: &str) -> Vec<String> {
    let is_valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    rule(is_valid, HTTP_HEADER_RULE).into_iter().collect()
}

/// Validates the name of an environment variable: printable ASCII without `=`, as the API server since 1.34.
pub fn env_name(text: &str) -> Vec<String> {
    let is_valid = !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    rule(
        is_valid,
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )
    .into_iter()
    .collect()
}

/// Whether the text is a sysctl name, with dots or slashes between its parts.
pub fn is_sysctl(text: &str) -> bool {
    let inner = |b: u8| is_lower_alnum(b) || b == b'-' || b == b'_';
    text.len() <= SUBDOMAIN_MAX && text.split(['.', '/']).all(|part| framed(part, is_lower_alnum, inner))
}

/// Whether the text can be a pod's UID, which names directories and cgroups: letters, digits and `-`.
pub fn is_uid(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    text.len() <= LABEL_MAX && framed(text, |b| b.is_ascii_alphanumeric(), inner)
}

/// Whether the text is an IPv4 or IPv6 address.
pub fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Whether a path has a `..` component.
pub fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_and_subdomains() {
        for good in ["a", "a-b", "0", "1a", &"a".repeat(63)] {
            assert!(dns_label(good).is_empty(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", &"a".repeat(64)] {
            assert!(!dns_label(bad).is_empty(), "{bad}");
        }
        for good in ["a.b", "web-node1", "a.b-c.d"] {
            assert!(dns_subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a.-b", "../x", &"a".repeat(254)] {
            assert!(!dns_subdomain(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn keys_and_values() {
        for good in ["a", "A_b.c-d", "example.com/Name", "kubernetes.io/config.hash"] {
            assert!(qualified_name(good).is_empty(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "Ex.com/a", "-a", &"a".repeat(64)] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
        assert!(label_value("").is_empty() && label_value("v1.2_x").is_empty());
        assert!(!label_value("a b").is_empty() && !label_value("-").is_empty());
    }

    #[test]
    fn ports_variables_and_sysctls() {
        assert!(port_name("http").is_empty() && port_name("h2-c").is_empty());
        for bad in ["", "80", "-a", "a--b", "A", "sixteen-letters1"] {
            assert!(!port_name(bad).is_empty(), "{bad}");
        }
        assert!(env_name("A_b.c-1 x").is_empty());
        assert!(!env_name("").is_empty() && !env_name("a=b").is_empty() && !env_name("a\nb").is_empty());
        assert!(is_sysctl("net.ipv4.ip_local_port_range") && is_sysctl("net/ipv4/conf/eth0.100/x"));
        assert!(!is_sysctl("") && !is_sysctl("a..b") && !is_sysctl("../a") && !is_sysctl("A.b"));
        assert!(is_uid("24f1920c4ea44fc695811b6fe74e43e3") && !is_uid("../x") && !is_uid(""));
    }

    proptest! {
        #[test]
        fn what_is_a_label_is_also_a_subdomain_and_a_key(text in "[a-zA-Z0-9.-]{0,70}") {
            if dns_label(&text).is_empty() {
                prop_assert!(dns_subdomain(&text).is_empty());
                prop_assert!(qualified_name(&text).is_empty());
                prop_assert!(label_value(&text).is_empty());
            }
        }

        #[test]
        fn no_accepted_name_can_escape_its_directory(text in "[a-z./-]{0,12}") {
            if dns_subdomain(&text).is_empty() || is_uid(&text) {
                prop_assert!(!text.contains('/') && text != "." && text != "..");
            }
        }

        #[test]
        fn any_text_is_handled(text in any::<String>()) {
            dns_label(&text); dns_subdomain(&text); qualified_name(&text); label_value(&text);
            port_name(&text); env_name(&text); is_sysctl(&text); is_uid(&text); is_ip(&text);
        }
    }
}
