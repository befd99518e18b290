//! Suggestions for misspelled paths of fields.

use hostlet_base::yaml::nearest;

/// The known path that `path` was probably meant to be: one with the same last name elsewhere, or a sibling with a similar
/// name. Known paths have empty brackets for list items.
pub(super) fn nearest_path(path: &str, known: &[&str]) -> Option<String> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let last = |path: &str| path.rsplit('.').next() == Some(name);
    if let Some(elsewhere) = known.iter().find(|path| last(path) && !path.contains('[')) {
        return Some((*elsewhere).to_owned());
    }
    let any_item = without_indices(parent);
    let siblings = known.iter().filter_map(|path| {
        let rest = if parent.is_empty() { path } else { path.strip_prefix(&any_item)?.strip_prefix('.')? };
        rest.split(['.', '[']).next()
    });
    let nearest = nearest(name, siblings)?;
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
    fn typos_and_lost_indentation_are_recognized() {
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
