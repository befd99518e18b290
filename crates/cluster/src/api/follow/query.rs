//! The parameters of a watch that kube does not let callers choose. Pure.

use http::Uri;
use http::uri::PathAndQuery;

/// A watch with two changes; `random` is in 0..1.
///
/// The time after which the server ends it is between half of the requested one and all of it: the watches of all nodes begin
/// together after an outage, and would otherwise be renewed together for ever.
///
/// A watch that begins with all objects begins with the newest, as upstream's: kube is satisfied with any version that the server has
/// in its cache.
pub(super) fn adjusted(uri: &Uri, random: f64) -> Option<Uri> {
    let query = uri.query()?;
    let has_initial_events = query.split('&').any(|field| field == "sendInitialEvents=true");
    let fields = query.split('&').filter(|field| !(has_initial_events && *field == "resourceVersion=0"));
    let fields: Vec<String> = fields.map(|field| with_timeout(field, random)).collect();
    let path = format!("{}?{}", uri.path(), fields.join("&"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

fn with_timeout(field: &str, random: f64) -> String {
    let seconds = field.strip_prefix("timeoutSeconds=").and_then(|seconds| seconds.parse::<u32>().ok());
    match seconds {
        // It stays in the range of the type: the factor is at most 1.
        Some(seconds) => format!("timeoutSeconds={}", (f64::from(seconds) * (0.5 + random / 2.0)).round()),
        None => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(query: &str, random: f64) -> String {
        let uri: Uri = format!("/api/v1/pods?{query}").parse().unwrap();
        let uri = adjusted(&uri, random).unwrap();
        assert_eq!(uri.path(), "/api/v1/pods");
        uri.query().unwrap().to_owned()
    }

    #[test]
    fn watches_end_at_different_times() {
        let fields = "&watch=true&timeoutSeconds=290&fieldSelector=metadata.name%3Da&resourceVersion=7";
        assert_eq!(query(fields, 0.0), fields.replace("290", "145"));
        assert_eq!(query(fields, 0.999_999), fields);
    }

    #[test]
    fn initial_events_are_the_newest_and_a_resumed_watch_keeps_its_version() {
        let fields = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0";
        assert_eq!(query(fields, 0.5), fields.strip_suffix("&resourceVersion=0").unwrap());
        assert_eq!(query("watch=true&resourceVersion=0", 0.5), "watch=true&resourceVersion=0");
    }
}
