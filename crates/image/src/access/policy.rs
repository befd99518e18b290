//! Which present images need a check (Kubernetes docs, "Images", "Ensure Image Pull Credential Verification"). Pure.

use hostlet_base::settings::ImageVerification;
use hostlet_base::without_tag;

/// Whether a pod needs access to `image`, as written in its spec, though it is present. `was_pulled` says whether this node has
/// pulled it, rather than found it.
pub(super) fn needs_check(policy: &ImageVerification, image: &str, was_pulled: bool) -> bool {
    match policy {
        ImageVerification::Disabled | ImageVerification::Never => false,
        ImageVerification::ExceptPreloaded => was_pulled,
        ImageVerification::ExceptAllowlisted(patterns) => {
            let name = without_tag(image).unwrap_or(image);
            !patterns.iter().any(|pattern| covers(pattern, name))
        }
        ImageVerification::Always => true,
    }
}

/// A pattern is a name without tag and digest, or a prefix followed by `/*`.
fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}
