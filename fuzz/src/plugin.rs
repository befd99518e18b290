//! What a plugin answers to `GetInfo`.

use std::path::Path;

use hostlet_plugins::{PluginInfo, check};
use prost::Message;

use super::check_message;

/// Whatever a plugin answers, what is accepted of it can be shown, logged and dialed, and what is rejected has a short reason.
pub fn plugin_info(data: &[u8]) {
    let Ok(info) = PluginInfo::decode(data) else { return };
    match check(info, Path::new("/var/lib/kubelet/plugins_registry/a.sock")) {
        Err(error) => check_message(&error.to_string()),
        Ok(claim) => {
            let words = [&claim.name, &claim.plugin_type].into_iter().chain(&claim.versions);
            for word in words {
                assert!(!word.is_empty() && word.len() <= 253, "{} bytes", word.len());
                assert!(word.bytes().all(|byte| byte.is_ascii_graphic()), "{word:?}");
            }
            assert!(claim.versions.len() <= 64);
            assert!(claim.endpoint.is_absolute() && !claim.endpoint.ends_with(".."));
            check_message(&claim.endpoint.display().to_string());
        }
    }
}
