//! What the daemon sends to the live view, as streams: pods as they change, what they use, texts about one of them.

use std::path::PathBuf;
use std::time::Duration;

use futures::stream::{LocalBoxStream, once, unfold};
use futures::{Stream, StreamExt};
use hostlet_base::error_chain;
use hostlet_observe::status::RecentEvent;
use hostlet_serve::explain::Explanation;
use hostlet_serve::server::{EventsQuery, LogsQuery, PodsView, TimelineView, UsageView};
use jiff::Timestamp;
use tokio::time::sleep;

use super::text::{Subject, Topic};
use crate::commands::client::{ClientError, Lines, Log, Watch, about_pod, usage};
use crate::commands::{events, explain, timeline};

/// Pause before a lost daemon is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Interval between two measurements.
const INTERVAL: Duration = Duration::from_secs(2);
/// The same as long as there is only one, from which the CPU is not known.
const FIRST_INTERVAL: Duration = Duration::from_millis(1100);
/// Lines of a log from before it was opened.
const TAIL: u64 = 1000;
/// Part of a line that is shown before its end has come, bytes.
const LONG_LINE: usize = 64 << 10;

/// The node now and after each change. Never ends: a lost daemon is an error, and tried again.
pub(super) fn views(socket: PathBuf) -> impl Stream<Item = Result<PodsView, ClientError>> {
    let begin = (socket, None::<Watch>, Duration::ZERO);
    unfold(begin, |(socket, mut watch, mut pause)| async move {
        loop {
            sleep(pause).await;
            let mut open = match watch.take() {
                Some(open) => open,
                None => match Watch::of_node(&socket).await {
                    Ok(open) => open,
                    Err(error) => return Some((Err(error), (socket, None, RETRY))),
                },
            };
            match open.next().await {
                Ok(Some(view)) => return Some((Ok(view), (socket, Some(open), Duration::ZERO))),
                // The daemon stopped. The next attempt says so, or finds its successor.
                Ok(None) => pause = RETRY,
                Err(error) => return Some((Err(error), (socket, None, RETRY))),
            }
        }
    })
}

/// What the node and its pods use, every two seconds. Never ends.
pub(super) fn usages(socket: PathBuf) -> impl Stream<Item = Result<UsageView, ClientError>> {
    unfold((socket, Duration::ZERO), |(socket, pause)| async move {
        sleep(pause).await;
        let used = usage(&socket).await;
        let is_first = used.as_ref().is_ok_and(|used| used.node.cpu_nano_cores.is_none());
        Some((used, (socket, if is_first { FIRST_INTERVAL } else { INTERVAL })))
    })
}

/// The lines of a text, a few at a time. An error is a line, too.
pub(super) fn text(socket: PathBuf, subject: &Subject) -> LocalBoxStream<'static, Vec<String>> {
    let pod = subject.pod.clone();
    match subject.topic {
        Topic::Log => {
            let query = LogsQuery {
                pod,
                container: subject.container().map(str::to_owned),
                tail: Some(TAIL),
                follow: true,
                ..LogsQuery::default()
            };
            log(socket, query).boxed_local()
        }
        Topic::Explanation => lines(explanation(socket, pod)),
        Topic::Timeline => lines(steps(socket, pod)),
        Topic::Events => lines(recent_events(socket, pod)),
    }
}

fn lines(
    text: impl Future<Output = Result<String, ClientError>> + 'static,
) -> LocalBoxStream<'static, Vec<String>> {
    let text = async {
        let text = text.await.unwrap_or_else(|error| error_chain(&error));
        text.lines().map(str::to_owned).collect()
    };
    once(text).boxed_local()
}

async fn explanation(socket: PathBuf, pod: String) -> Result<String, ClientError> {
    let known: Vec<Explanation> = about_pod(&socket, "/v1/explain", &pod).await?;
    let now = Timestamp::now();
    Ok(known.iter().map(|explanation| explain::text(explanation, now)).collect::<Vec<_>>().join("\n"))
}

async fn steps(socket: PathBuf, pod: String) -> Result<String, ClientError> {
    let view: TimelineView = about_pod(&socket, "/v1/timeline", &pod).await?;
    Ok(view.pods.iter().map(timeline::text).collect::<Vec<_>>().join("\n\n"))
}

async fn recent_events(socket: PathBuf, pod: String) -> Result<String, ClientError> {
    let query = EventsQuery { pod: Some(pod), watch: false };
    let mut lines = Lines::<RecentEvent>::start(&socket, "/v1/events", &query).await?;
    let mut all = Vec::new();
    while let Some(event) = lines.next().await? {
        all.push(event);
    }
    Ok(match all.is_empty() {
        true => "No events since hostlet started.".to_owned(),
        false => events::table(&all, Timestamp::now()),
    })
}

/// A log that is being read.
enum Reading {
    /// Not requested yet.
    Wanted(PathBuf, LogsQuery),
    /// The log, and the part of a line whose end has not come.
    Open(Log, Vec<u8>),
    /// Complete, or broken off.
    Over,
}

fn log(socket: PathBuf, query: LogsQuery) -> impl Stream<Item = Vec<String>> {
    unfold(Reading::Wanted(socket, query), |reading| async move {
        match reading {
            Reading::Wanted(socket, query) => Some(match Log::start(&socket, &query).await {
                Ok(log) => (Vec::new(), Reading::Open(log, Vec::new())),
                Err(error) => (vec![error_chain(&error)], Reading::Over),
            }),
            Reading::Open(mut log, mut rest) => Some(match log.next().await {
                Ok(Some(bytes)) => {
                    rest.extend_from_slice(&bytes);
                    (complete_lines(&mut rest), Reading::Open(log, rest))
                }
                Ok(None) => {
                    let last = (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned());
                    let end = "(the container has exited)".to_owned();
                    (last.into_iter().chain([end]).collect(), Reading::Over)
                }
                Err(error) => (vec![error_chain(&error)], Reading::Over),
            }),
            Reading::Over => None,
        }
    })
}

/// Takes the complete lines, and a part of one that is too long to wait for.
fn complete_lines(bytes: &mut Vec<u8>) -> Vec<String> {
    let end = match memchr::memrchr(b'\n', bytes) {
        Some(last) => last + 1,
        None if bytes.len() >= LONG_LINE => bytes.len(),
        None => return Vec::new(),
    };
    let taken: Vec<u8> = bytes.drain(..end).collect();
    String::from_utf8_lossy(&taken).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_when_complete_or_too_long_to_wait_for() {
        let mut bytes = b"a\nb\nc".to_vec();
        assert_eq!(complete_lines(&mut bytes), ["a", "b"]);
        assert!(complete_lines(&mut bytes).is_empty());
        bytes.extend(vec![b'x'; LONG_LINE]);
        assert_eq!(complete_lines(&mut bytes).len(), 1);
        assert!(bytes.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_daemon_is_tried_again() {
        let missing = PathBuf::from("/nonexistent/socket");
        let views: Vec<_> = views(missing.clone()).take(3).collect().await;
        assert!(views.iter().all(|view| matches!(view, Err(ClientError::NotRunning { .. }))));
        let subject = Subject { topic: Topic::Log, pod: "web".to_owned(), containers: Vec::new() };
        let log: Vec<_> = text(missing, &subject).collect().await;
        assert!(log.len() == 1 && log[0][0].contains("no hostlet answers"), "{log:?}");
    }
}
