//! The names of log directories, files and links. Pure. They are an interface: log collectors parse pods and containers from
//! them, and so does a stock kubelet that replaces hostlet.

use hostlet_base::{ContainerId, PodRef};

/// Maximum length of a file name on Linux, in bytes.
const MAX_NAME: usize = 255;
/// Suffix of a link's name.
const LINK_SUFFIX: &str = ".log";
/// Minimum length of an abbreviated container ID, as in runtimes.
const MIN_ID: usize = 6;

/// A container's log in its pod's log directory, as CRI's `log_path`: `<container>/<attempt>.log`.
pub fn container_log_path(container: &str, attempt: u32) -> String {
    format!("{container}/{}", log_name(attempt))
}

/// The name of a pod's log directory: `<namespace>_<name>_<uid>`.
pub fn pod_dir_name(pod: &PodRef) -> String {
    format!("{}_{}_{}", pod.namespace, pod.name, pod.uid)
}

/// The pod of a directory; `None` if the name is not a kubelet's.
pub(super) fn parse_pod_dir_name(name: &str) -> Option<PodRef> {
    let is_dns = |text: &str, dots: bool| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || dots && b == b'.')
    };
    // Namespaces and names have no underscores, but a UID from a manifest may.
    let mut parts = name.splitn(3, '_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    (is_dns(namespace, false) && is_dns(pod, true) && !uid.is_empty() && !uid.contains('/'))
        .then(|| PodRef::new(namespace, pod, uid))
}

/// `<attempt>.log`.
pub(super) fn log_name(attempt: u32) -> String {
    format!("{attempt}.log")
}

/// The attempt of a log file, current (`3.log`) or rotated (`3.log.20250102-030405.gz`).
pub(super) fn attempt_of(file_name: &str) -> Option<u32> {
    let (attempt, rest) = file_name.split_once(".log")?;
    (attempt.bytes().all(|b| b.is_ascii_digit()) && (rest.is_empty() || rest.starts_with('.')))
        .then(|| attempt.parse().ok())?
}

/// `<pod>_<namespace>_<container>-<container ID>.log`, truncated before the suffix if too long for a file name.
pub(super) fn link_name(pod: &PodRef, container: &str, id: &ContainerId) -> String {
    let mut name = format!("{}_{}_{container}-{id}", pod.name, pod.namespace);
    name.truncate(name.floor_char_boundary(MAX_NAME - LINK_SUFFIX.len()));
    name.push_str(LINK_SUFFIX);
    name
}

/// The container ID in a link's name, possibly truncated; `None` if there is none.
pub(super) fn container_id_of_link(file_name: &str) -> Option<&str> {
    let (_, id) = file_name.strip_suffix(LINK_SUFFIX)?.rsplit_once('-')?;
    (id.len() >= MIN_ID).then_some(id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_a_stock_kubelet() {
        let pod = PodRef::new("golden", "full", "91bfbf8e-bc69-4d82-8bd0-a527f7510d09");
        let id = ContainerId::from("7ed1544486e1");
        assert_eq!(pod_dir_name(&pod), "golden_full_91bfbf8e-bc69-4d82-8bd0-a527f7510d09");
        assert_eq!(container_log_path("side", 0), "side/0.log");
        assert_eq!(link_name(&pod, "side", &id), "full_golden_side-7ed1544486e1.log");
    }

    #[test]
    fn attempts_are_read_from_log_names_only() {
        for (name, attempt) in [
            ("0.log", Some(0)),
            ("12.log", Some(12)),
            ("3.log.20250102-030405", Some(3)),
            ("3.log.20250102-030405.gz", Some(3)),
            ("3.logs", None),
            (".log", None),
            ("+1.log", None),
            ("-1.log", None),
            ("a.log", None),
            ("1.txt", None),
            ("99999999999999999999.log", None),
        ] {
            assert_eq!(attempt_of(name), attempt, "{name}");
        }
    }

    #[test]
    fn foreign_directories_have_no_pod() {
        for name in [
            "",
            "lost+found",
            "a_b",
            "a_b_",
            "_b_c",
            "a__c",
            "Ns_b_c",
            "a.b_c_d",
            "11-22-33",
            "backup of_x_y",
        ] {
            assert_eq!(parse_pod_dir_name(name), None, "{name}");
        }
    }

    #[test]
    fn short_or_missing_ids_are_rejected() {
        for name in ["a.log", "pod_ns_c-12345.log", "pod_ns_c-1234567", "-.log"] {
            assert_eq!(container_id_of_link(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_pod_directory_names_its_pod(
            namespace in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?",
            name in "[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?",
            uid in "[a-zA-Z0-9._-]{1,40}",
        ) {
            let pod = PodRef::new(&namespace, &name, &uid);
            prop_assert_eq!(parse_pod_dir_name(&pod_dir_name(&pod)), Some(pod));
        }

        #[test]
        fn a_log_name_has_its_attempt(attempt: u32, rotated in "(\\.[0-9]{8}-[0-9]{6}(\\.gz)?)?") {
            prop_assert_eq!(attempt_of(&format!("{}{rotated}", log_name(attempt))), Some(attempt));
        }

        /// A link's name is a valid file name for any pod, and has its container ID, in full if there is room.
        #[test]
        fn a_link_name_fits_and_has_its_container(
            namespace in "[a-z]{1,63}", name in "[a-z.]{1,253}", container in "[a-z-]{1,63}", id in "[0-9a-f]{64}",
        ) {
            let pod = PodRef::new(&namespace, &name, "uid");
            let link = link_name(&pod, &container, &ContainerId::from(&*id));
            prop_assert!(link.len() <= MAX_NAME);
            let whole = name.len() + namespace.len() + container.len() + id.len() + 3 + LINK_SUFFIX.len();
            if whole <= MAX_NAME {
                prop_assert_eq!(container_id_of_link(&link), Some(&*id));
            } else {
                prop_assert_eq!(link.len(), MAX_NAME);
            }
        }

        #[test]
        fn no_name_makes_a_parser_panic(name: String) {
            let _ = (parse_pod_dir_name(&name), attempt_of(&name), container_id_of_link(&name));
        }
    }
}
