//! The key with which ConfigMaps, Secrets and tokens are stored for starts without the API server.

use hostlet_store::KEY_CREDENTIAL;

use super::super::facts::Facts;
use super::super::report::Finding;

const CHECK: &str = "stored objects";

pub(super) fn check(facts: &Facts) -> Option<Finding> {
    let key = facts.objects_key.as_ref()?;
    let file = key.file.display();
    let text = format!(
        "the ConfigMaps, Secrets and tokens of pods are stored encrypted, and their key is a file on this host: {file}. Whoever has its \
         disk has both"
    );
    let opt_out =
        "set offlineObjects: false, with which pods that need them do not start while the API server is away";
    let remedy = match key.has_tpm {
        // Without --tpm2-pcrs= an update of the firmware would make the credential unusable, and the service would not start.
        true => format!(
            "let the TPM protect the key: mkdir -p -m 700 /etc/credstore.encrypted && head -c 32 /dev/urandom | systemd-creds encrypt \
             --with-key=host+tpm2 --tpm2-pcrs= --name={KEY_CREDENTIAL} - /etc/credstore.encrypted/{KEY_CREDENTIAL} && systemctl \
             restart hostlet; or {opt_out}"
        ),
        false => format!("this host has no TPM that could protect it: encrypt the disk; or {opt_out}"),
    };
    Some(Finding::warning(CHECK, text, remedy))
}
