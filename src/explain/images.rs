//! Explains missing images by the waiting reason.

use super::case::ExplainInput;
use super::causes::{OF_PULL, find, innermost_message};
use super::endings::because;
use super::explanation::Explanation;
use super::pod::with_pull;
use crate::status::Activity;

/// The remedy for a failed pull with an unknown cause.
const UNKNOWN: &str =
    "check name and tag in spec.containers[].image, and whether its registry can be reached from this host";

/// Explains a container that waits for its image; `None` if it waits for something else.
pub(super) fn image(
    case: &ExplainInput<'_>,
    container: &str,
    image: &str,
    reason: &str,
    message: &str,
) -> Option<Explanation> {
    let load = load_remedy(case);
    let (sentence, remedy) = match reason {
        "InvalidImageName" => (
            format!("The image name {image:?} of container {container} is invalid: {}", last_part(message)),
            "correct spec.containers[].image in the manifest: [registry[:port]/]repository[:tag], in lower case \
             and without \
             spaces, e.g. docker.io/library/nginx:1.27"
                .to_owned(),
        ),
        "ErrImageNeverPull" => (
            format!(
                "The image {image} of container {container} is not on this node, and imagePullPolicy Never \
                 forbids pulling it"
            ),
            format!("{load}, or set imagePullPolicy to IfNotPresent"),
        ),
        "ImageInspectError" => {
            let cause = find(OF_PULL, message);
            (
                format!("The container runtime cannot inspect the image {image}{}", because(cause, message)),
                "check the container runtime's log (journalctl -u containerd)".to_owned(),
            )
        }
        "SignatureValidationFailed" => (
            format!(
                "The image {image} of container {container} was rejected because of its signature: {}",
                innermost_message(message)
            ),
            "use an image whose signature is valid, or change the container runtime's policy".to_owned(),
        ),
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" => {
            let error = last_words(message);
            let cause = find(OF_PULL, error);
            let sentence =
                format!("The image {image} of container {container} cannot be pulled{}", because(cause, error));
            (sentence, format!("{}; or {load}", cause.map_or(UNKNOWN, |cause| cause.remedy)))
        }
        _ => return None,
    };
    let mut explanation = Explanation::wrong(sentence).do_this(remedy);
    if reason != "InvalidImageName" {
        let sentence_of = |(file, problem): &(String, String)| format!("The image archive {file} {problem}.");
        explanation.also.extend(case.archives.iter().map(sentence_of));
    }
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

/// The error of an invalid name, without the name.
fn last_part(message: &str) -> &str {
    message.rsplit_once(": ").map_or(message, |(_, last)| last)
}

/// The error of the registry or runtime, without hostlet's prefix.
fn last_words(message: &str) -> &str {
    const REASONS: [&str; 3] = ["ErrImagePull: ", "RegistryUnavailable: ", "SignatureValidationFailed: "];
    let start = REASONS.iter().filter_map(|reason| Some(message.find(reason)? + reason.len())).min();
    message.get(start.unwrap_or(0)..).unwrap_or(message)
}

/// How to provide an image without a registry.
fn load_remedy(case: &ExplainInput<'_>) -> String {
    match case.preload_dir {
        Some(dir) => {
            format!("put an archive with the image (docker save, skopeo copy) into {}", dir.display())
        }
        None => "bring the image as an archive: set imagePreloadDir in the configuration and put it there"
            .to_owned(),
    }
}
