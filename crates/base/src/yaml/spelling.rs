//! Suggestions for misspelled names.

/// How similar two names must be, from 0 to 1, for one to be suggested for the other.
const SIMILARITY: f64 = 0.8;

/// Longer names match nothing: no field has such a name, and the comparison takes time proportional to both lengths.
const MAX_LENGTH: usize = 100;

/// The known name most similar to `name`, if any is similar enough.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if name.len() > MAX_LENGTH {
        return None;
    }
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity > SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_a_similar_name_is_suggested() {
        let known = ["hostNetwork", "hostPID", "volumes"];
        assert_eq!(nearest("hostnetwork", known), Some("hostNetwork"));
        assert_eq!(nearest("volume", known), Some("volumes"));
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(nearest(&"volumes".repeat(100), known), None);
    }
}
