//! The steps of a pod's worker in words, and a pod that is at one of them. Does not know the statuses of containers.

use hostlet_base::causes::find;
use hostlet_base::{human_duration, human_size};
use hostlet_observe::status::{Activity, ImagePull};

use super::case::ExplainInput;
use super::causes::OF_STEP;
use super::endings::because;
use super::explanation::Explanation;

/// A failed step that is reported only by an event.
pub(super) fn failed_step(case: &ExplainInput<'_>, error: Option<&str>) -> Explanation {
    let error = error.unwrap_or("no reason was given");
    let cause = find(&OF_STEP, error);
    // Upstream's wording for a volume; the worker has left that step.
    let is_volume = error.contains("failed for volume") || error.contains("attach or mount volumes");
    let at = if is_volume { step(&Activity::SettingUpVolumes) } else { step(case.activity()) };
    Explanation::wrong(format!("The pod cannot be started{}", because(cause, error)))
        .at(at)
        .next(case.next_work())
        .do_this(cause.map_or("correct the problem in the message; hostlet retries automatically", |cause| {
            cause.remedy
        }))
}

/// A pod that is starting.
pub(super) fn starting(case: &ExplainInput<'_>, activity: &Activity) -> Explanation {
    let sentence = match activity {
        Activity::QueuedStart => {
            "The pod waits behind starts of other pods: only a few start at a time (maxConcurrentStarts), those \
             of higher \
             priority and those seen first before others"
                .to_owned()
        }
        Activity::PullingImage(ImagePull { owner, image }) => {
            format!("The pod is being started: the image {image} is being pulled for {owner}")
        }
        Activity::SettingUpVolumes => "The pod is being started: its volumes are being set up".to_owned(),
        Activity::PreparingClaims => {
            "The pod is being started: its claimed devices are being prepared by their drivers".to_owned()
        }
        Activity::MakingSandbox => "The pod is being started: its sandbox and network are being created".to_owned(),
        Activity::CreatingContainer { container } | Activity::StartingContainer { container } => {
            format!("The pod is being started: container {container} is next")
        }
        Activity::PostStartHook { container } => {
            format!("The pod is being started: the postStart hook of container {container} runs")
        }
        Activity::Idle
        | Activity::StoppingContainers { .. }
        | Activity::StoppingSandbox
        | Activity::UnpreparingClaims
        | Activity::CleaningUp
        | Activity::BackingOff
        | Activity::Retrying { .. } => "The pod is being started".to_owned(),
    };
    let explanation = Explanation::under_way(sentence).at(step(activity)).since(case.active_since());
    if activity.image().is_some() { with_pull(case, explanation) } else { explanation }
}

/// Adds the progress of the pull that the pod waits for.
pub(super) fn with_pull(case: &ExplainInput<'_>, mut explanation: Explanation) -> Explanation {
    let Some(pull) = &case.pull else { return explanation };
    let took = human_duration(case.now.duration_since(pull.since));
    explanation.also.push(match (pull.waits_for_turn, pull.bytes) {
        (true, _) => format!(
            "The pull has waited {took} in the queue: only a limited number run in parallel (maxParallelImagePulls, \
             serializeImagePulls)."
        ),
        (false, None) => format!("The pull has taken {took} so far."),
        (false, Some(bytes)) => {
            let others = match pull.pulls {
                0 | 1 => String::new(),
                pulls => format!(", together with what the other {} pulls brought", pulls - 1),
            };
            format!("The pull has taken {took} so far, and {} have arrived{others}.", human_size(bytes))
        }
    });
    explanation
}

/// A worker's step in words.
pub(super) fn step(activity: &Activity) -> String {
    match activity {
        Activity::Idle => "syncing the pod".to_owned(),
        Activity::QueuedStart => "waiting for its turn to start".to_owned(),
        Activity::SettingUpVolumes => "setting up the volumes".to_owned(),
        Activity::PreparingClaims => "preparing the claimed devices".to_owned(),
        Activity::UnpreparingClaims => "unpreparing the claimed devices".to_owned(),
        Activity::MakingSandbox => "creating the sandbox".to_owned(),
        Activity::PullingImage(ImagePull { image, .. }) => {
            format!("pulling the image {image}")
        }
        Activity::CreatingContainer { container } => format!("creating container {container}"),
        Activity::StartingContainer { container } => format!("starting container {container}"),
        Activity::PostStartHook { container } => {
            format!("running the postStart hook of container {container}")
        }
        Activity::StoppingContainers { .. } => "stopping containers".to_owned(),
        Activity::StoppingSandbox => "removing the sandbox".to_owned(),
        Activity::CleaningUp => "cleaning up after the pod".to_owned(),
        Activity::BackingOff => "waiting for the restart back-off".to_owned(),
        Activity::Retrying { .. } => "waiting to retry".to_owned(),
    }
}
