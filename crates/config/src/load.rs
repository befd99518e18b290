//! Loads the configuration: defaults, file, drop-ins and flags, in ascending precedence. Reports all errors at once.

use std::path::{Path, PathBuf};

use hostlet_base::yaml::{Flaw, Problem, decode};
use serde_json::Value;

use super::breach::Breach;
use super::credential_providers;
use super::defaults::{Membership, set_defaults};
use super::error::{ConfigError, ConfigErrors, ConfigWarning, Place};
use super::eviction::stall_limit;
use super::files::{TextFile, read_drop_ins, read_text};
use super::flag_table::IDLE_FLAGS;
use super::flags::{KubeletFlags, ProcessFlags};
use super::gates;
use super::hostlet::{self, HostletConfiguration};
use super::layers::{Decoding, Layers, Stack};
use super::merge::field;
use super::node;
use super::node_api;
use super::reservations;
use super::served::{self, Support};
use super::settings::Config;
use super::show::EffectiveConfig;
use super::validate::validate;
use super::wire::KubeletConfiguration;

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The daemon's settings.
    pub config: Config,
    /// The whole configuration, with defaults.
    pub effective: EffectiveConfig,
    /// Settings without effect.
    pub warnings: Vec<ConfigWarning>,
}

/// Where kubeadm writes the configuration.
const KUBEADM_CONFIG: &str = "/var/lib/kubelet/config.yaml";

/// Reads the files that `flags` name and merges everything into one configuration. `hostname` is the default of the node's
/// name.
pub fn load(flags: &KubeletFlags, hostname: &str) -> Result<Loaded, ConfigErrors> {
    let (files, mut errors) = read_files(&flags.process);
    errors.extend(process_breaches(&flags.process));
    let is_kubeadms = flags.process.config.as_deref() == Some(Path::new(KUBEADM_CONFIG));
    let (of_main, of_drop_ins) = match flags.is_called_kubelet || is_kubeadms {
        true => (Decoding::Lenient, Decoding::DropIn),
        false => (Decoding::Strict, Decoding::Strict),
    };
    let mut stack = Stack::default();
    let mut tolerated = Vec::new();
    let main = files.main.iter().map(|file| (file, of_main));
    for (file, decoding) in main.chain(files.drop_ins.iter().map(|file| (file, of_drop_ins))) {
        match stack.add_file(file, decoding) {
            Ok(found) => tolerated.extend(found),
            Err(found) => errors.extend(found),
        }
    }
    for (flag, texts) in &flags.fields.fields {
        stack.add_flag(flag, texts).unwrap_or_else(|found| errors.extend(found));
    }
    let providers = credential_providers::read(&flags.process).unwrap_or_else(|found| {
        errors.extend(found);
        None
    });
    if !errors.is_empty() {
        return Err(errors.into());
    }
    let membership = match flags.process.kubeconfig {
        Some(_) => Membership::Joined,
        None => Membership::Alone,
    };
    let mut kubelet: KubeletConfiguration = read(&stack.kubelet)?;
    set_defaults(&mut kubelet, membership);
    let mut hostlet: HostletConfiguration = read(&stack.hostlet)?;
    hostlet.set_defaults();
    let digest = providers.as_ref().map(|providers| providers.digest.clone());
    let effective = EffectiveConfig::new(&kubelet, &hostlet).with_providers(digest);

    errors.extend(breaches(&kubelet, &hostlet, membership, &stack));
    let (rejected, mut warnings) = unserved(&effective, membership, &stack.kubelet);
    errors.extend(rejected);
    if !errors.is_empty() {
        return Err(errors.into());
    }
    warnings.extend(tolerated);
    warnings.extend(idle_flags(flags));
    warnings.extend(invalid_ips(&flags.process));
    warnings.extend(needs_cluster(&hostlet, membership, &stack.hostlet));
    warnings.extend(ignored_gates(&kubelet, &stack.kubelet));
    warnings.extend(reservations::idle(&kubelet).map(|idle| without_effect(idle, &stack.kubelet)));
    warnings.sort_by(|a, b| a.at.cmp(&b.at));
    let config = Config::new(&kubelet, &hostlet, &flags.process, providers, hostname);
    Ok(Loaded { config, effective, warnings })
}

/// The control socket of a daemon with these flags. Errors of the configuration are not its reader's, so what cannot be read
/// counts as unset.
pub fn control_socket(flags: &KubeletFlags) -> PathBuf {
    let (files, _) = read_files(&flags.process);
    let mut stack = Stack::default();
    for file in files.main.iter().chain(&files.drop_ins) {
        let _ = stack.add_file(file, Decoding::Lenient);
    }
    let document = stack.hostlet.merged();
    let configured = field(&document, "socket").and_then(Value::as_str).filter(|path| !path.is_empty());
    PathBuf::from(configured.unwrap_or(hostlet::DEFAULT_SOCKET))
}

/// The files of a configuration.
struct Files {
    /// The file of `--config`.
    main: Option<TextFile>,
    /// The files in `--config-dir`, sorted by name: later ones win.
    drop_ins: Vec<TextFile>,
}

fn read_files(flags: &ProcessFlags) -> (Files, Vec<ConfigError>) {
    let (drop_ins, mut errors) = flags.config_dir.as_deref().map(read_drop_ins).unwrap_or_default();
    let main = flags.config.as_deref().map(read_text).transpose().unwrap_or_else(|error| {
        errors.insert(0, error);
        None
    });
    (Files { main, drop_ins }, errors)
}

/// Errors of the process flags.
fn process_breaches(flags: &ProcessFlags) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    let mut add = |flag, message: &str| errors.push(ConfigError::Flag { flag, message: message.to_owned() });
    for error in flags.node_labels.iter().filter_map(|text| node::label(text).err()) {
        add("node-labels", &error.to_string());
    }
    if !["", node::EXTERNAL].contains(&flags.cloud_provider.as_str()) {
        add("cloud-provider", "must be external or empty: Kubernetes removed all other cloud providers");
    }
    if flags.bootstrap_kubeconfig.is_some() && flags.kubeconfig.is_none() {
        add("bootstrap-kubeconfig", "needs --kubeconfig, the file that is written when this node has joined");
    }
    if flags.exit_on_lock_contention {
        add(
            "exit-on-lock-contention",
            "is not supported yet; without it hostlet holds its lock until it exits",
        );
    }
    for (flag, path) in [("root-dir", &flags.root_dir), ("cert-dir", &flags.cert_dir)] {
        if !path.is_absolute() {
            add(flag, "must be an absolute path");
        }
    }
    if let Err(error) = node::ips(&flags.node_ip).0 {
        add("node-ip", &error.to_string());
    }
    errors
}

/// Decodes the merged layers. Each layer was checked by itself, so this normally finds no new errors, and no unknown fields but
/// tolerated ones.
fn read<T: serde::de::DeserializeOwned>(layers: &Layers) -> Result<T, ConfigErrors> {
    let error = |Flaw { path, problem }| match problem {
        Problem::Unknown { .. } => None,
        Problem::Wrong { message } => {
            Some(ConfigError::WrongValue { at: layers.place(&path), path, message })
        }
    };
    match decode(&layers.merged()) {
        (Some(value), _) => Ok(value),
        (None, flaws) => Err(flaws.into_iter().filter_map(error).collect::<Vec<_>>().into()),
    }
}

fn breaches(
    kubelet: &KubeletConfiguration,
    hostlet: &HostletConfiguration,
    membership: Membership,
    stack: &Stack,
) -> Vec<ConfigError> {
    let mut errors: Vec<ConfigError> = validate(kubelet)
        .into_iter()
        .chain(node_api::breaches(kubelet, membership))
        .map(|(path, message)| ConfigError::Invalid { at: stack.kubelet.place(&path), path, message })
        .collect();
    for (field, path) in [("socket", &hostlet.socket), ("imagePreloadDir", &hostlet.image_preload_dir)] {
        if path.as_ref().is_some_and(|path| !path.is_empty() && !path.starts_with('/')) {
            errors.push(ConfigError::Invalid {
                at: stack.hostlet.place(field),
                path: field.to_owned(),
                message: "must be an absolute path".to_owned(),
            });
        }
    }
    let stalls = [
        ("evictionStallFull", &hostlet.eviction_stall_full),
        ("evictionStallSome", &hostlet.eviction_stall_some),
    ];
    for (field, limit) in stalls {
        if let Some(Err(wrong)) = limit.as_deref().map(stall_limit) {
            errors.push(ConfigError::Invalid {
                at: stack.hostlet.place(field),
                path: field.to_owned(),
                message: wrong.to_string(),
            });
        }
    }
    errors
}

/// Unsupported fields that differ from their default: those that must not be ignored, and the others.
fn unserved(
    effective: &EffectiveConfig,
    membership: Membership,
    layers: &Layers,
) -> (Vec<ConfigError>, Vec<ConfigWarning>) {
    let mut defaults = KubeletConfiguration::default();
    set_defaults(&mut defaults, membership);
    let defaults = EffectiveConfig::new(&defaults, &HostletConfiguration::default());
    let (mut rejected, mut ignored) = (Vec::new(), Vec::new());
    for (path, support) in served::FIELDS {
        let differs = !same(field(effective.kubelet(), path), field(defaults.kubelet(), path));
        let Some(at) = layers.setter(path).filter(|_| differs) else { continue };
        let path = (*path).to_owned();
        match support {
            Support::Served => {}
            Support::Rejected(why) => {
                rejected.push(ConfigError::NotServed { at, path, message: (*why).to_owned() });
            }
            Support::Ignored(why) => {
                ignored.push(ConfigWarning { at, path: Some(path), message: (*why).to_owned() });
            }
        }
    }
    (rejected, ignored)
}

/// Whether two values are equivalent: an unset field means zero.
fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let zero = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "0s",
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    };
    match (a, b) {
        (Some(a), Some(b)) => a == b,
        (Some(value), None) | (None, Some(value)) => zero(value),
        (None, None) => true,
    }
}

fn idle_flags(flags: &KubeletFlags) -> impl Iterator<Item = ConfigWarning> {
    let given = IDLE_FLAGS.iter().filter(|flag| flags.fields.idle.contains(&flag.name));
    given.map(|flag| ConfigWarning {
        at: Place::Flag(flag.name.to_owned()),
        path: None,
        message: format!("{}, so this has no effect", flag.why),
    })
}

/// What is no address in `--node-ip`, which upstream ignores as well.
fn invalid_ips(flags: &ProcessFlags) -> impl Iterator<Item = ConfigWarning> {
    let (_, invalid) = node::ips(&flags.node_ip);
    invalid.into_iter().map(|text| ConfigWarning {
        at: Place::Flag("node-ip".to_owned()),
        path: None,
        message: format!("{text:?} is not an IP address, so this part has no effect"),
    })
}

/// Settings of a standalone node that only a node of a cluster uses.
fn needs_cluster(
    hostlet: &HostletConfiguration,
    membership: Membership,
    layers: &Layers,
) -> Option<ConfigWarning> {
    const FIELD: &str = "publishResourceSlices";
    match membership {
        Membership::Alone if hostlet.publish_resource_slices == Some(true) => Some(ConfigWarning {
            at: layers.place(FIELD),
            path: Some(FIELD.to_owned()),
            message: "this node is standalone, without an API server to publish on, so this has no effect; \
                      join a cluster (--kubeconfig), or remove this"
                .to_owned(),
        }),
        Membership::Alone | Membership::Joined => None,
    }
}

fn ignored_gates(kubelet: &KubeletConfiguration, layers: &Layers) -> impl Iterator<Item = ConfigWarning> {
    let ignored = gates::ignored(kubelet.feature_gates.as_ref());
    ignored.into_iter().map(|breach| without_effect(breach, layers))
}

fn without_effect((path, message): Breach, layers: &Layers) -> ConfigWarning {
    ConfigWarning { at: layers.place(&path), path: Some(path), message }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
