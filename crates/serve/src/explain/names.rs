//! Resolves the pod name that a user typed, and explains a name that matches no pod.

use std::path::Path;

use hostlet_pod::ManifestProblem;

use super::case::NodeProblem;
use super::causes::{manifest_remedy, runtime_remedy};
use super::explanation::{Explanation, Verdict, one_line};

/// Minimum similarity of a suggested name, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.75;
/// Maximum number of suggestions.
const MAX_SUGGESTED: usize = 3;

/// The name of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PodName<'a> {
    /// The namespace that it is in.
    pub namespace: &'a str,
    /// `metadata.name`, with the node's name if it is a static pod.
    pub name: &'a str,
}

/// Whether `query` names this pod: with or without the node's name appended, with or without a `namespace/` prefix.
pub fn matches_pod_name(query: &str, pod: PodName<'_>, node: &str) -> bool {
    let (namespace, name) = match query.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, query),
    };
    let own = pod.name == name
        || pod.name.strip_suffix(node).and_then(|start| start.strip_suffix('-')) == Some(name);
    own && namespace.is_none_or(|namespace| namespace == pod.namespace)
}

/// The known names most similar to `query`, most similar first.
pub(crate) fn nearest_names(query: &str, known: &[PodName<'_>], node: &str) -> Vec<String> {
    let query = query.rsplit('/').next().unwrap_or(query).to_lowercase();
    let similarity = |pod: &PodName<'_>| {
        let short = pod.name.strip_suffix(node).and_then(|start| start.strip_suffix('-'));
        let like = |name: &str| {
            let name = name.to_lowercase();
            // In a short name a single typo already lowers the similarity a lot.
            let is_typo = strsim::damerau_levenshtein(&query, &name) <= 1;
            if is_typo { 1.0 } else { strsim::jaro_winkler(&query, &name) }
        };
        like(pod.name).max(short.map_or(0.0, like))
    };
    let mut like: Vec<(f64, &PodName<'_>)> = known.iter().map(|pod| (similarity(pod), pod)).collect();
    like.retain(|(similarity, _)| *similarity > MIN_SIMILARITY);
    like.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.name.cmp(b.1.name)));
    let mut names: Vec<String> = like.into_iter().map(|(_, pod)| pod.name.to_owned()).collect();
    names.dedup();
    names.truncate(MAX_SUGGESTED);
    names
}

/// Explains a name that matches no pod while the manifests have not been read: nobody knows whether there is such a pod.
pub(crate) fn not_read_yet(query: &str, problem: Option<&NodeProblem>) -> Explanation {
    const UNREAD: &str = "hostlet has not read the manifests yet";
    let explanation = match problem {
        Some(NodeProblem::Runtime(what)) => {
            Explanation::wrong(format!("{UNREAD}: {what}")).do_this(runtime_remedy(what))
        }
        Some(NodeProblem::Network(_)) | None => {
            Explanation::under_way(format!("{UNREAD}; it has just started"))
        }
    };
    Explanation { pod: query.to_owned(), ..explanation.at("starting hostlet") }
}

/// Explains a name that matches no pod, possibly because of a broken manifest. `existed` says whether a pod of that name was
/// removed.
pub(crate) fn unknown(
    query: &str,
    known: &[PodName<'_>],
    problems: &[ManifestProblem],
    existed: bool,
    node: &str,
) -> Explanation {
    // An unreadable manifest names no pod, and a broken one may name the wrong pod; most files are named after their pod.
    let is_about_it = |problem: &ManifestProblem| {
        let named = problem.pod.as_deref().is_some_and(|pod| {
            let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
            matches_pod_name(query, PodName { namespace, name }, node)
        });
        let stem = problem.origin.file().and_then(Path::file_stem);
        named || stem.is_some_and(|stem| stem.to_str() == query.rsplit('/').next())
    };
    let explanation = match problems.iter().find(|problem| is_about_it(problem)) {
        Some(problem) => {
            let sentence = format!(
                "There is no pod {query}, because its manifest cannot be used: {}: {}",
                problem.origin,
                one_line(&problem.message)
            );
            Explanation::wrong(sentence)
                .at("reading the manifest")
                .since(Some(problem.since))
                .do_this(manifest_remedy(&problem.message))
        }
        None => {
            let near = nearest_names(query, known, node);
            let hint = if near.is_empty() {
                String::new()
            } else {
                format!("; did you mean {}?", near.join(" or "))
            };
            let mut explanation = Explanation::new(
                Verdict::Unknown,
                format!("There is no pod {query} on this node{hint}"),
            )
            .do_this(
                "see `hostlet pods` for the existing pods; a pod comes from a manifest in the directory \
                     staticPodPath, or from staticPodURL",
            );
            if existed {
                let gone = "A pod of this name existed and was removed; `hostlet timeline` shows what happened to it.";
                explanation.also.push(gone.to_owned());
            }
            let unnamed = problems.iter().filter(|problem| problem.pod.is_none());
            explanation.also.extend(unnamed.map(|problem| {
                format!(
                    "The manifest {} cannot be read and may define it: {}",
                    problem.origin,
                    one_line(&problem.message)
                )
            }));
            explanation
        }
    };
    Explanation { pod: query.to_owned(), ..explanation }
}
