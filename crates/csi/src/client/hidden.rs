//! What a call contained that must not be printed, and its removal from a driver's texts. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Secrets;

/// Has the tokens of the pod's service account by audience, among the secrets or in the volume's context (upstream
/// `csi.storage.k8s.io/serviceAccount.tokens`).
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// What is shorter is a word of the message by chance, e.g. `1` or `yes`.
const SHORTEST: usize = 4;

/// The secrets of a call.
#[derive(Clone, Copy, Default)]
pub(super) struct Hidden<'c> {
    pub(super) secrets: Option<&'c Secrets>,
    /// The volume's context.
    pub(super) context: Option<&'c BTreeMap<String, String>>,
}

impl Hidden<'_> {
    /// The text without them.
    pub(super) fn removed_from(self, text: &str) -> String {
        let secrets = self.secrets.map(|secrets| &secrets.0);
        let mut values: Vec<String> = secrets.into_iter().flat_map(BTreeMap::values).cloned().collect();
        for map in [secrets, self.context].into_iter().flatten() {
            if let Some(tokens) = map.get(TOKENS) {
                values.extend(tokens_of(tokens));
                values.push(tokens.clone());
            }
        }
        values.retain(|value| value.len() >= SHORTEST);
        // One may contain another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.iter().fold(text.to_owned(), |text, value| text.replace(value.as_str(), "***"))
    }
}

/// The tokens in `{"audience": {"token": "…"}}`.
fn tokens_of(text: &str) -> Vec<String> {
    let by_audience: BTreeMap<String, Value> = serde_json::from_str(text).unwrap_or_default();
    by_audience.values().filter_map(|token| Some(token.get("token")?.as_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_tokens_are_removed() {
        let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let secrets = Secrets(map("password", "hunter22"));
        let context = map(TOKENS, r#"{"aud":{"token":"eyJhbGc.x","expirationTimestamp":"2026"}}"#);
        let hidden = Hidden { secrets: Some(&secrets), context: Some(&context) };
        let removed = |text| hidden.removed_from(text);
        assert_eq!(removed("login with hunter22 and eyJhbGc.x failed"), "login with *** and *** failed");
        let whole = format!("map[{}]", context[TOKENS]);
        assert_eq!(removed(&whole), "map[***]");
        let in_secrets = Secrets(context.clone());
        let hidden = Hidden { secrets: Some(&in_secrets), context: None };
        assert_eq!(hidden.removed_from("token eyJhbGc.x"), "token ***");
    }

    #[test]
    fn words_remain() {
        let secrets =
            Secrets(BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())]));
        let hidden = Hidden { secrets: Some(&secrets), context: None };
        assert_eq!(hidden.removed_from("1 device"), "1 device");
        assert_eq!(Hidden::default().removed_from("a b"), "a b");
    }
}
