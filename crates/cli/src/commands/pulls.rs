//! Prints the pulls in progress next to a command's output.

use jiff::Timestamp;

use hostlet_base::{human_duration, human_size};
use hostlet_serve::server::{PullView, PullsView};

/// A line per pull, and one for their total progress.
pub(super) fn pull_lines(view: &PullsView, now: Timestamp) -> Vec<String> {
    let running = view.pulls.iter().filter(|pull| !pull.waits_for_turn).count();
    let arrived = view.bytes.map(|bytes| format!("{} have arrived", human_size(bytes)));
    let mut lines: Vec<String> = view
        .pulls
        .iter()
        .map(|pull| {
            let own = arrived.as_ref().filter(|_| running == 1 && !pull.waits_for_turn);
            let own = own.map(|arrived| format!("; {arrived}")).unwrap_or_default();
            format!("{}{own}.", line(pull, now))
        })
        .collect();
    if let (Some(arrived), 2..) = (arrived, running) {
        lines.push(format!("Of these {running} pulls together {arrived}."));
    }
    lines
}

fn line(pull: &PullView, now: Timestamp) -> String {
    let PullView { image, pods, since, waits_for_turn } = pull;
    let pods = if pods.is_empty() { String::new() } else { format!(" for {}", pods.join(", ")) };
    let took = human_duration(now.duration_since(*since));
    if *waits_for_turn {
        format!("Image {image} waits{pods} for its turn to be pulled, for {took} so far")
    } else {
        format!("Image {image} is being pulled{pods}, for {took} so far")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(image: &str, second: i64, waits_for_turn: bool) -> PullView {
        let since = Timestamp::from_second(second).unwrap();
        PullView { image: image.to_owned(), pods: vec!["default/web".to_owned()], since, waits_for_turn }
    }

    fn lines(pulls: Vec<PullView>, bytes: Option<u64>) -> Vec<String> {
        pull_lines(&PullsView { pulls, bytes }, Timestamp::from_second(100).unwrap())
    }

    #[test]
    fn progress_is_shown_with_its_pull() {
        let one = || pull("a:1", 90, false);
        assert_eq!(
            lines(vec![one()], Some(5_000_000)),
            ["Image a:1 is being pulled for default/web, for 10s so far; 5MB have arrived."]
        );
        assert_eq!(lines(vec![one()], None), ["Image a:1 is being pulled for default/web, for 10s so far."]);
        let waiting = PullView { pods: Vec::new(), ..pull("b:1", 40, true) };
        assert_eq!(
            lines(vec![one(), waiting], Some(7)),
            [
                "Image a:1 is being pulled for default/web, for 10s so far; 7B have arrived.",
                "Image b:1 waits for its turn to be pulled, for 60s so far."
            ]
        );
        assert_eq!(
            lines(vec![one(), pull("b:1", 95, false)], Some(7)),
            [
                "Image a:1 is being pulled for default/web, for 10s so far.",
                "Image b:1 is being pulled for default/web, for 5s so far.",
                "Of these 2 pulls together 7B have arrived."
            ]
        );
        assert!(lines(Vec::new(), None).is_empty());
    }
}
