//! Explains missing images by the waiting reason.

use hostlet_base::causes::find;
use hostlet_base::reasons;
use hostlet_observe::status::{Activity, ImageOwner};

use super::case::ExplainInput;
use super::causes::{OF_PULL, innermost_message};
use super::endings::because;
use super::explanation::{Explanation, one_line};
use super::steps::with_pull;

/// The remedy for a failed pull with an unknown cause.
const UNKNOWN: &str =
    "check name and tag in spec.containers[].image, and whether its registry can be reached from this host";

/// The field of a container's image, which remedies name.
const OF_CONTAINER: &str = "spec.containers[].image";

/// An image that a container waits for.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    image: &'a str,
    container: &'a str,
    /// The volume that it is for; `None` if the container runs it.
    volume: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// The image that the message is about: that of the container, unless the message names that of an image volume.
    fn find(case: &'a ExplainInput<'_>, container: &'a str, own: &'a str, message: &str) -> Self {
        let spec = case.view().spec;
        let mounts = case.container(container).and_then(|container| container.spec.volume_mounts.as_deref());
        let images = mounts.unwrap_or_default().iter().filter_map(|mount| {
            let volume = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name)?;
            Some((volume.image.as_ref()?.reference.as_deref()?, volume.name.as_str()))
        });
        let is_named = |image: &str| message.contains(image);
        let of_volume = images.filter(|(image, _)| is_named(image)).max_by_key(|(image, _)| image.len());
        // One name may be a part of the other.
        match of_volume.filter(|(image, _)| !is_named(own) || image.len() > own.len()) {
            Some((image, volume)) => Self { image, container, volume: Some(volume) },
            None => Self { image: own, container, volume: None },
        }
    }

    /// What it is the image of: a container, or a volume that it mounts.
    fn owner(self) -> String {
        let container = self.container;
        match self.volume {
            None => format!("container {container}"),
            Some(volume) => format!("volume {volume}, which container {container} mounts,"),
        }
    }

    /// The same as a worker names it.
    fn pulled_for(self) -> ImageOwner {
        let Self { container, volume, .. } = self;
        volume.map_or(ImageOwner::Container(container.to_owned()), |it| ImageOwner::Volume(it.to_owned()))
    }

    /// The field of its pull policy.
    fn policy(self) -> &'static str {
        if self.volume.is_some() { "pullPolicy" } else { "imagePullPolicy" }
    }

    /// The remedy for an image of a container, with the field of this image.
    fn remedy(self, remedy: &str) -> String {
        match self.volume {
            None => remedy.to_owned(),
            Some(_) => remedy.replace(OF_CONTAINER, "spec.volumes[].image.reference"),
        }
    }
}

/// Explains a container that waits for its image or for that of a volume; `None` if it waits for something else. `own` is the
/// container's image.
pub(super) fn image(
    case: &ExplainInput<'_>,
    container: &str,
    own: &str,
    reason: &str,
    message: &str,
) -> Option<Explanation> {
    let wanted = Wanted::find(case, container, own, message);
    let (image, owner, policy) = (wanted.image, wanted.owner(), wanted.policy());
    let load = load_remedy(case);
    let (sentence, remedy) = match reason {
        reasons::INVALID_IMAGE_NAME => (
            format!("The image name {image:?} of {owner} is invalid: {}", last_part(message)),
            "correct spec.containers[].image in the manifest: [registry[:port]/]repository[:tag], in lower case \
             and without \
             spaces, e.g. docker.io/library/nginx:1.27"
                .to_owned(),
        ),
        reasons::ERR_IMAGE_NEVER_PULL => (
            format!(
                "The image {image} of {owner} is not on this node, and {policy} Never forbids pulling it"
            ),
            format!("{load}, or set {policy} to IfNotPresent"),
        ),
        reasons::IMAGE_INSPECT_ERROR => {
            let cause = find(OF_PULL, message);
            (
                format!("The container runtime cannot inspect the image {image}{}", because(cause, message)),
                "check the container runtime's log (journalctl -u containerd)".to_owned(),
            )
        }
        reasons::SIGNATURE_VALIDATION_FAILED => (
            format!(
                "The image {image} of {owner} was rejected because of its signature: {}",
                innermost_message(message)
            ),
            "use an image whose signature is valid, or change the container runtime's policy".to_owned(),
        ),
        reasons::ERR_IMAGE_PULL | reasons::IMAGE_PULL_BACK_OFF | reasons::REGISTRY_UNAVAILABLE => {
            let error = last_words(message);
            let cause = find(OF_PULL, error);
            let sentence = format!("The image {image} of {owner} cannot be pulled{}", because(cause, error));
            (sentence, format!("{}; or {load}", cause.map_or(UNKNOWN, |cause| cause.remedy)))
        }
        _ => return None,
    };
    let mut explanation = Explanation::wrong(sentence).do_this(wanted.remedy(&remedy));
    if matches!(reason, reasons::ERR_IMAGE_PULL | reasons::IMAGE_PULL_BACK_OFF) {
        explanation.also.extend(credential_problems(case));
    }
    if reason != reasons::INVALID_IMAGE_NAME {
        let sentence_of = |(file, problem): &(String, String)| format!("The image archive {file} {problem}.");
        explanation.also.extend(case.archives.iter().map(sentence_of));
    }
    let awaited = if let Activity::PullingImage(pull) = case.activity() { Some(&pull.owner) } else { None };
    Some(if awaited == Some(&wanted.pulled_for()) {
        with_pull(
            case,
            explanation.at(format!("pulling the image {image} once more")).since(case.active_since()),
        )
    } else {
        explanation.at(format!("image ({reason})")).next(case.retry_of(container))
    })
}

/// Why a failed pull may have lacked credentials.
fn credential_problems(case: &ExplainInput<'_>) -> impl Iterator<Item = String> {
    let missing = case.missing_secrets().iter().map(|name| {
        format!("The Secret {name}, which imagePullSecrets names, does not exist in the pod's namespace or cannot be read.")
    });
    let failures = case.provider_failures.iter();
    missing.chain(failures.map(|(provider, error)| {
        format!("The credential provider {provider} failed, so that the image was pulled without its credentials: {}.", one_line(error))
    }))
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
