//! The API server's audit log: which requests who made, and when. Pure, except for reading the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// A request of a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// When the server received it.
    pub(crate) at: Timestamp,
    pub(crate) user: String,
    /// The kind of its object, e.g. `leases`.
    pub(crate) resource: String,
    /// The verb and what it is for, e.g. `patch pods/status`.
    pub(crate) what: String,
    /// The HTTP status of the response.
    pub(crate) code: u16,
}

/// The used fields of an audit event.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    user: User,
    request_received_timestamp: Timestamp,
    object_ref: Option<Object>,
    response_status: Option<Status>,
}

#[derive(Debug, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Deserialize)]
struct Object {
    resource: String,
    #[serde(default)]
    subresource: String,
}

#[derive(Debug, Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

/// Number of requests by [`Request::what`].
pub(crate) type Counts = BTreeMap<String, usize>;

/// The requests for objects in a log. A watch counts once, when it starts.
pub(crate) fn requests(log: &str) -> Result<Vec<Request>> {
    let mut requests = Vec::new();
    for line in log.lines() {
        let event: Event = serde_json::from_str(line).with_context(|| format!("an audit event: {line}"))?;
        let stage = if event.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        let Some(Object { resource, subresource }) = event.object_ref.filter(|_| event.stage == stage) else {
            continue;
        };
        let slash = if subresource.is_empty() { "" } else { "/" };
        requests.push(Request {
            at: event.request_received_timestamp,
            user: event.user.username,
            what: format!("{} {resource}{slash}{subresource}", event.verb),
            resource,
            code: event.response_status.map_or(0, |status| status.code),
        });
    }
    Ok(requests)
}

/// The requests that the server received from `begin` on, also those in the log's rotated files, in order.
pub(crate) fn requests_since(log: &Path, begin: Timestamp) -> Result<Vec<Request>> {
    let dir = log.parent().context("the directory of the audit log")?;
    let stem = log.file_stem().and_then(|stem| stem.to_str()).context("the name of the audit log")?;
    let mut all = Vec::new();
    for file in fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))? {
        let name = file?.file_name();
        let name = name.to_str().unwrap_or_default();
        if !name.starts_with(stem) || !name.ends_with(".log") {
            continue;
        }
        let text = fs::read_to_string(dir.join(name)).with_context(|| format!("reading {name}"))?;
        // The server may be writing the last line.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        all.extend(requests(complete)?.into_iter().filter(|request| request.at >= begin));
    }
    all.sort_by_key(|request| request.at);
    Ok(all)
}

/// How many requests there are of each kind.
pub(crate) fn counts<'a>(requests: impl IntoIterator<Item = &'a Request>) -> Counts {
    let mut counts = Counts::new();
    for request in requests {
        *counts.entry(request.what.clone()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(verb: &str, stage: &str, user: &str, code: u16) -> String {
        format!(
            r#"{{"stage":"{stage}","verb":"{verb}","user":{{"username":"{user}"}},"requestReceivedTimestamp":"2026-11-28T12:00:01.5Z","objectRef":{{"resource":"pods","subresource":"status"}},"responseStatus":{{"code":{code}}}}}"#
        )
    }

    #[test]
    fn a_watch_counts_once_and_a_request_when_it_is_complete() {
        let log = [
            line("patch", "ResponseComplete", "n", 409),
            line("watch", "ResponseStarted", "n", 200),
            line("watch", "ResponseComplete", "n", 200),
        ];
        let requests = requests(&log.join("\n")).unwrap();
        let shown: Vec<_> = requests.iter().map(|request| (&*request.what, request.code)).collect();
        assert_eq!(shown, [("patch pods/status", 409), ("watch pods/status", 200)]);
        assert_eq!((&*requests[0].resource, &*requests[0].user), ("pods", "n"));
        assert_eq!(counts(&requests)["watch pods/status"], 1);
    }

    #[test]
    fn rotated_files_and_incomplete_lines_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let begin: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let old = line("get", "ResponseComplete", "old", 200).replace("12:00:01", "11:00:01");
        let first = line("get", "ResponseComplete", "a", 200);
        fs::write(dir.path().join("audit-2026.log"), format!("{old}\n{first}\n")).unwrap();
        let second = line("get", "ResponseComplete", "b", 200);
        fs::write(dir.path().join("audit.log"), format!("{second}\n{{\"stage\":\"Resp")).unwrap();
        let users = requests_since(&dir.path().join("audit.log"), begin).unwrap();
        let mut users: Vec<_> = users.into_iter().map(|request| request.user).collect();
        users.sort();
        assert_eq!(users, ["a", "b"]);
    }
}
