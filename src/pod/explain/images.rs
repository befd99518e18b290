//! Images that cannot be had, by the waiting reasons that clients match on.

use super::case::Case;
use super::explanation::Explanation;
use super::life::{with_pull, words};
use crate::pod::Activity;

/// Explains a container that waits for its image; none if it waits for something else.
pub(super) fn image(
    case: &Case<'_>,
    container: &str,
    image: &str,
    reason: &str,
    message: &str,
) -> Option<Explanation> {
    let load = "bring it as an archive (ctr -n k8s.io images import FILE)";
    let (sentence, remedy) = match reason {
        "InvalidImageName" => (
            format!(
                "The image name {image:?} of container {container} makes no sense: {}",
                last_part(message)
            ),
            "correct spec.containers[].image in the manifest".to_owned(),
        ),
        "ErrImageNeverPull" => (
            format!(
                "The image {image} of container {container} is not on this node, and imagePullPolicy Never forbids to pull it"
            ),
            format!("{load}, or set imagePullPolicy to IfNotPresent"),
        ),
        "ImageInspectError" => (
            format!("The container runtime cannot say whether it has the image {image}: {}", words(message)),
            "look into the container runtime's log (journalctl -u containerd)".to_owned(),
        ),
        "SignatureValidationFailed" => (
            format!(
                "The image {image} of container {container} was refused for its signature: {}",
                words(message)
            ),
            "use an image whose signature is valid, or change the container runtime's policy".to_owned(),
        ),
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" => {
            let said = last_words(message);
            let (what, remedy) = pull_failure(said);
            let sentence =
                format!("The image {image} of container {container} cannot be pulled, {what}: {said}");
            (sentence, format!("{remedy}; or {load}"))
        }
        _ => return None,
    };
    let explanation = Explanation::wrong(sentence).do_this(remedy);
    let is_pulling =
        matches!(case.activity(), Activity::PullingImage { container: pulled, .. } if pulled == container);
    Some(if is_pulling {
        with_pull(
            case,
            explanation.at(format!("pulling the image {image} once more")).since(case.active_since()),
        )
    } else {
        explanation.at(format!("image ({reason})")).next(case.retry_of(container))
    })
}

/// What is wrong with a name, without the name.
fn last_part(message: &str) -> &str {
    message.rsplit_once(": ").map_or(message, |(_, last)| last)
}

/// What the registry or the runtime said, without what hostlet put before it.
fn last_words(message: &str) -> &str {
    const REASONS: [&str; 3] = ["ErrImagePull: ", "RegistryUnavailable: ", "SignatureValidationFailed: "];
    let start = REASONS.iter().filter_map(|reason| Some(message.find(reason)? + reason.len())).min();
    words(message.get(start.unwrap_or(0)..).unwrap_or(message))
}

/// What a failed pull means and what to do, from the words of containerd and of registries.
fn pull_failure(said: &str) -> (&'static str, &'static str) {
    let lower = said.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&[
        "no such host",
        "connection refused",
        "i/o timeout",
        "network is unreachable",
        "deadline",
        "no route",
    ]) {
        (
            "because its registry does not answer",
            "check the registry's name in spec.containers[].image, and this host's DNS, network and proxy settings",
        )
    } else if says(&["unauthorized", "authorization failed", "403", "401", "denied"]) {
        (
            "because its registry asks for credentials or there is no such repository",
            "check the name in spec.containers[].image; for a private registry give the container runtime credentials",
        )
    } else if says(&["x509", "certificate", "http response to https"]) {
        (
            "because its registry cannot be trusted",
            "give the container runtime the registry's certificate (/etc/containerd/certs.d)",
        )
    } else if says(&["not found", "manifest unknown", "name unknown"]) {
        ("because its registry does not have it", "check name and tag in spec.containers[].image")
    } else if says(&["qps exceeded"]) {
        ("because this node pulls too many at once", "wait, or raise registryPullQPS in the configuration")
    } else if says(&["no space left"]) {
        ("because a disk of this host is full", "make room where the container runtime keeps images")
    } else {
        (
            "says the container runtime",
            "check name and tag in spec.containers[].image, and whether its registry can be reached",
        )
    }
}
