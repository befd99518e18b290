//! Guessing which name was meant.

/// How like two names must be, from 0 to 1, for one to be suggested for the other.
const LIKENESS: f64 = 0.8;

/// Longer names than any field has are like none; comparing takes time with the product of two lengths.
const LONGEST: usize = 100;

/// The known name most like `name`, if any is like it at all.
pub(crate) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if name.len() > LONGEST {
        return None;
    }
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// The known path that `path` may have been meant for: one with the same last name elsewhere, or one beside it with a name
/// like its own. Known paths have empty brackets for list items.
pub(super) fn nearest_path(path: &str, known: &[&str]) -> Option<String> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let last = |path: &str| path.rsplit('.').next() == Some(name);
    if let Some(elsewhere) = known.iter().find(|path| last(path) && !path.contains('[')) {
        return Some((*elsewhere).to_owned());
    }
    let any_item = without_indices(parent);
    let beside = known.iter().filter_map(|path| {
        let rest = if parent.is_empty() { path } else { path.strip_prefix(&any_item)?.strip_prefix('.')? };
        rest.split(['.', '[']).next()
    });
    let nearest = nearest(name, beside)?;
    Some(if parent.is_empty() { nearest.to_owned() } else { format!("{parent}.{nearest}") })
}

fn without_indices(path: &str) -> String {
    let mut inside = false;
    let keep = |c: &char| {
        inside = *c == '[' || (inside && *c != ']');
        !inside || *c == '['
    };
    path.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest_path;

    #[test]
    fn slips_and_lost_indentation_are_recognised() {
        let known = [
            "staticPodPath",
            "staticPodURL",
            "authentication.x509.clientCAFile",
            "logging.format",
            "taints[].effect",
        ];
        for (path, meant) in [
            ("staticPodPth", Some("staticPodPath")),
            ("StaticPodUrl", Some("staticPodURL")),
            ("clientCAFile", Some("authentication.x509.clientCAFile")),
            ("authentication.x509.clientCaFile", Some("authentication.x509.clientCAFile")),
            ("authentification", Some("authentication")),
            ("logging.fromat", Some("logging.format")),
            ("taints[12].efect", Some("taints[12].effect")),
            ("taint", Some("taints")),
            ("effect", None),
            ("list[0].thing", None),
            ("zzz", None),
        ] {
            assert_eq!(nearest_path(path, &known).as_deref(), meant, "{path}");
        }
    }
}
