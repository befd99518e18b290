//! The name of a bootstrap request, which is the same for the same key, so that a restarted daemon finds its request again.
//! Pure.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha512_256};

/// Between two parts; not in the alphabet of their encoding.
const DELIMITER: &str = "|";

/// Upstream's name for a request of this public key (`SubjectPublicKeyInfo` in DER), subject and usages.
pub(super) fn bootstrap_name(
    public_key: &[u8],
    common_name: &str,
    organization: &str,
    usages: &[&str],
) -> String {
    let texts = [common_name, organization].into_iter().chain(usages.iter().copied());
    let parts = [public_key].into_iter().chain(texts.map(str::as_bytes));
    let mut hash = Sha512_256::new();
    for part in parts {
        hash.update(URL_SAFE_NO_PAD.encode(part));
        hash.update(DELIMITER);
    }
    format!("node-csr-{}", URL_SAFE_NO_PAD.encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::bootstrap_name;

    #[test]
    fn the_name_is_upstreams() {
        let usages = ["digital signature", "client auth"];
        let name = |key: &str, node: &str| bootstrap_name(key.as_bytes(), node, "system:nodes", &usages);
        // Computed apart, from upstream's description of the digest.
        assert_eq!(
            name("public key", "system:node:host1"),
            "node-csr-29_ha9S8nS1la_k-uWQfILdZRwfbqbcIiv6o9_P2w7M"
        );
        assert_ne!(name("public key", "system:node:host1"), name("public ke", "ysystem:node:host1"));
    }
}
