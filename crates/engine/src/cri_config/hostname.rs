//! A pod's hostname and domain (Kubernetes docs, "DNS for Services and Pods"). Pure.

use hostlet_pod::view::PodView;

use super::ConfigError;

/// Maximum length of a hostname: the kernel's 64 bytes including the terminating NUL.
const MAX_HOSTNAME: usize = 63;
/// Maximum length of an FQDN as the kernel's nodename.
const MAX_FQDN: usize = 64;
const MAX_SUBDOMAIN: usize = 253;

/// Hostname and domain of a pod; the domain is empty without a subdomain.
pub(super) fn hostname_and_domain(
    pod: PodView<'_>,
    cluster_domain: &str,
) -> Result<(String, String), ConfigError> {
    if let Some(hostname) = &pod.spec.hostname_override {
        check("HostnameOverride", hostname, "subdomain", is_subdomain)?;
        return Ok((truncate(pod, hostname)?, String::new()));
    }
    let hostname = match pod.spec.hostname.as_deref() {
        None | Some("") => pod.name,
        Some(hostname) => {
            check("Hostname", hostname, "label", is_label)?;
            hostname
        }
    };
    let domain = match pod.spec.subdomain.as_deref() {
        None | Some("") => String::new(),
        Some(subdomain) => {
            check("Subdomain", subdomain, "label", is_label)?;
            format!("{subdomain}.{}.svc.{cluster_domain}", pod.namespace)
        }
    };
    Ok((truncate(pod, hostname)?, domain))
}

/// The kernel's hostname: the FQDN with `setHostnameAsFQDN`.
pub(super) fn kernel_hostname(pod: PodView<'_>, cluster_domain: &str) -> Result<String, ConfigError> {
    let (hostname, domain) = hostname_and_domain(pod, cluster_domain)?;
    if domain.is_empty() || !pod.spec.set_hostname_as_fqdn.unwrap_or(false) {
        return Ok(hostname);
    }
    let fqdn = format!("{hostname}.{domain}");
    if fqdn.len() > MAX_FQDN {
        return Err(ConfigError::FqdnTooLong { fqdn, max: MAX_FQDN });
    }
    Ok(fqdn)
}

fn truncate(pod: PodView<'_>, hostname: &str) -> Result<String, ConfigError> {
    if hostname.len() <= MAX_HOSTNAME {
        return Ok(hostname.to_owned());
    }
    // The name of an invalid pod may have multi-byte characters, which must not be split.
    let end = (0..=MAX_HOSTNAME).rev().find(|end| hostname.is_char_boundary(*end)).unwrap_or(0);
    let truncated = hostname[..end].trim_end_matches(['-', '.']);
    if truncated.is_empty() {
        return Err(ConfigError::EmptyHostname { pod: pod.name.to_owned(), hostname: hostname.to_owned() });
    }
    Ok(truncated.to_owned())
}

fn check(
    field: &'static str,
    value: &str,
    kind: &'static str,
    is_valid: impl Fn(&str) -> bool,
) -> Result<(), ConfigError> {
    if is_valid(value) {
        Ok(())
    } else {
        Err(ConfigError::InvalidHostname { field, value: value.to_owned(), kind })
    }
}

/// A lower-case RFC 1123 label.
fn is_label(text: &str) -> bool {
    text.len() <= MAX_HOSTNAME && is_label_of_any_length(text)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && text.split('.').all(is_label_of_any_length)
}

fn is_label_of_any_length(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, PodSpec};

    use super::*;

    fn pod(name: &str, change: impl Fn(&mut PodSpec)) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.into());
        pod.metadata.namespace = Some("ns".into());
        change(pod.spec.get_or_insert_default());
        pod
    }

    fn names(pod: &Pod) -> Result<(String, String), ConfigError> {
        hostname_and_domain(pod.into(), "cluster.local")
    }

    #[test]
    fn name_hostname_subdomain_and_override() {
        assert_eq!(names(&pod("web", |_| ())).unwrap(), ("web".into(), String::new()));
        let custom = pod("web", |spec| {
            spec.hostname = Some("h".into());
            spec.subdomain = Some("sub".into());
        });
        assert_eq!(names(&custom).unwrap(), ("h".into(), "sub.ns.svc.cluster.local".into()));
        let overridden = pod("web", |spec| {
            spec.hostname_override = Some("a.b".into());
            spec.subdomain = Some("sub".into());
        });
        assert_eq!(names(&overridden).unwrap(), ("a.b".into(), String::new()));
    }

    #[test]
    fn long_names_are_truncated_and_trimmed() {
        let long = format!("{}-.{}", "a".repeat(61), "b".repeat(10));
        assert_eq!(names(&pod(&long, |_| ())).unwrap().0, "a".repeat(61));
        let wide = "é".repeat(40);
        assert_eq!(names(&pod(&wide, |_| ())).unwrap().0, "é".repeat(31));
        let nothing = ".".repeat(70);
        assert!(matches!(names(&pod(&nothing, |_| ())), Err(ConfigError::EmptyHostname { .. })));
    }

    #[test]
    fn invalid_names_are_rejected() {
        for bad in ["Upper", "-a", "a-", "a_b", "a.b"] {
            let error = names(&pod("web", |spec| spec.hostname = Some(bad.into()))).unwrap_err();
            assert_eq!(error.to_string(), format!("pod Hostname {bad:?} is not a valid DNS label"));
            assert!(names(&pod("web", |spec| spec.subdomain = Some(bad.into()))).is_err());
        }
        for bad in ["", "a..b", "a.-b"] {
            assert!(names(&pod("web", |spec| spec.hostname_override = Some(bad.into()))).is_err());
        }
    }

    #[test]
    fn the_fqdn_is_used_on_request_if_it_fits() {
        let fqdn = |subdomain: &str| {
            let pod = pod("web", |spec| {
                spec.subdomain = Some(subdomain.into());
                spec.set_hostname_as_fqdn = Some(true);
            });
            kernel_hostname((&pod).into(), "cluster.local")
        };
        assert_eq!(fqdn("sub").unwrap(), "web.sub.ns.svc.cluster.local");
        let error = fqdn(&"s".repeat(63)).unwrap_err().to_string();
        assert!(
            error.ends_with("is too long (64 characters is the max, 88 characters requested)"),
            "{error}"
        );
        let plain = pod("web", |spec| spec.set_hostname_as_fqdn = Some(true));
        assert_eq!(kernel_hostname((&plain).into(), "cluster.local").unwrap(), "web");
    }
}
