//! The kubelet's command line: upstream's names and meanings, with `_` accepted for `-`. Flags that set fields of
//! KubeletConfiguration are in `flag_table`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::flag_table::{FIELD_FLAGS, FieldFlag, IDLE_FLAGS};
use super::flag_value::{FlagKind, boolean};
use super::shown_flags::GivenFlags;

/// All flags of the daemon. A flag may be given several times: of one value the last applies, lists and maps collect all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeletFlags {
    /// Whether the program is called `kubelet`, and so takes what a kubelet takes.
    pub is_called_kubelet: bool,
    /// What was given, to show it.
    pub given: GivenFlags,
    /// Flags that concern the process and set no field of the configuration.
    pub process: ProcessFlags,
    /// Flags that set fields of the configuration.
    pub fields: FieldFlags,
}

impl Args for KubeletFlags {
    fn augment_args(command: Command) -> Command {
        FieldFlags::augment_args(ProcessFlags::augment_args(command)).args_override_self(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KubeletFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            is_called_kubelet: false,
            given: GivenFlags::from_arg_matches(matches)?,
            process: ProcessFlags::from_arg_matches(matches)?.without_empty_values(),
            fields: FieldFlags::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Flags of the process, which have no field in KubeletConfiguration.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct ProcessFlags {
    /// Configuration file: KubeletConfiguration, HostletConfiguration or both, as YAML or JSON.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub config: Option<PathBuf>,
    /// Directory of drop-ins: its *.conf files are merged over --config in lexical order.
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub config_dir: Option<PathBuf>,
    /// Kubeconfig with the API server of the cluster; without it, the node runs standalone.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig to request a client certificate with, if --kubeconfig does not exist or has no valid credentials.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// Directory of the node's certificates.
    #[arg(long, value_name = "DIR", value_parser = path(), default_value = DEFAULT_CERT_DIR)]
    pub cert_dir: PathBuf,
    /// Name of the node, instead of the host name.
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
    /// IP address of the node; two, separated by a comma, for dual stack.
    #[arg(long, value_name = "IP", default_value = "")]
    pub node_ip: String,
    /// Labels to register the node with: KEY=VALUE, separated by commas. May be given several times.
    #[arg(long, value_name = "LABELS", value_delimiter = ',')]
    pub node_labels: Vec<String>,
    /// `external` if a cloud controller manager initializes the node; otherwise empty.
    #[arg(long, value_name = "PROVIDER", default_value = "")]
    pub cloud_provider: String,
    /// Configuration of credential providers for image pulls: a file, or a directory of files.
    #[arg(long, value_name = "PATH", default_value = "")]
    pub image_credential_provider_config: String,
    /// Directory of the executables of credential providers.
    #[arg(long, value_name = "DIR", default_value = "")]
    pub image_credential_provider_bin_dir: String,
    /// Do not subtract hard eviction thresholds from allocatable.
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", action = ArgAction::Set, hide_short_help = true, value_parser = boolean
    )]
    pub experimental_allocatable_ignore_eviction: bool,
    /// Cgroup of the container runtime, whose use of resources is reported, e.g. /system.slice/containerd.service.
    #[arg(long, value_name = "CGROUP", default_value = "")]
    pub runtime_cgroups: String,
    /// Directory of the daemon's files.
    #[arg(long, value_name = "DIR", value_parser = path(), default_value = DEFAULT_ROOT_DIR)]
    pub root_dir: PathBuf,
    /// File that the daemon locks while it runs.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub lock_file: Option<PathBuf>,
    /// Exit when another process opens the lock file. Not supported yet.
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", action = ArgAction::Set, value_parser = boolean
    )]
    pub exit_on_lock_contention: bool,
    /// Take over the pods that are in the runtime, though hostlet has not run on it before.
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = boolean
    )]
    pub adopt_foreign_pods: Option<bool>,
    /// Print the version and exit; `raw` prints all build details.
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub version: Option<VersionForm>,
}

const DEFAULT_ROOT_DIR: &str = "/var/lib/kubelet";
const DEFAULT_CERT_DIR: &str = "/var/lib/kubelet/pki";

/// Accepts empty paths, unlike clap's own parser.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

impl ProcessFlags {
    /// An empty value means that the flag is not set, as when a template leaves a variable empty.
    fn without_empty_values(mut self) -> Self {
        let is_empty = |path: &Path| path.as_os_str().is_empty();
        for path in [
            &mut self.config,
            &mut self.config_dir,
            &mut self.kubeconfig,
            &mut self.bootstrap_kubeconfig,
            &mut self.lock_file,
        ] {
            path.take_if(|path| is_empty(path));
        }
        for (path, default) in
            [(&mut self.cert_dir, DEFAULT_CERT_DIR), (&mut self.root_dir, DEFAULT_ROOT_DIR)]
        {
            if is_empty(path) {
                *path = PathBuf::from(default);
            }
        }
        self.hostname_override.take_if(|name| name.is_empty());
        self.node_labels.retain(|label| !label.is_empty());
        self
    }
}

impl Default for ProcessFlags {
    fn default() -> Self {
        Self {
            config: None,
            config_dir: None,
            kubeconfig: None,
            bootstrap_kubeconfig: None,
            cert_dir: PathBuf::from(DEFAULT_CERT_DIR),
            hostname_override: None,
            node_ip: String::new(),
            node_labels: Vec::new(),
            cloud_provider: String::new(),
            image_credential_provider_config: String::new(),
            image_credential_provider_bin_dir: String::new(),
            runtime_cgroups: String::new(),
            experimental_allocatable_ignore_eviction: false,
            root_dir: PathBuf::from(DEFAULT_ROOT_DIR),
            lock_file: None,
            exit_on_lock_contention: false,
            adopt_foreign_pods: None,
            version: None,
        }
    }
}

/// What `--version` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VersionForm {
    /// One line with the version.
    True,
    /// Nothing.
    False,
    /// All build details.
    Raw,
}

/// The values of flags that set fields, and the flags without effect, in the order of the tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldFlags {
    /// The given flags, with their values in order.
    pub(super) fields: Vec<(&'static FieldFlag, Vec<String>)>,
    /// The flags without effect that were set to something other than their default.
    pub(super) idle: Vec<&'static str>,
}

const DEPRECATED: &str = "Deprecated: set these in the configuration file";

impl Args for FieldFlags {
    fn augment_args(command: Command) -> Command {
        let fields = FIELD_FLAGS.iter().map(|flag| {
            let arg = value_arg(flag.name, flag.kind == FlagKind::Bool).help(format!("Sets {}", flag.path));
            if flag.deprecated { arg.help_heading(DEPRECATED).hide_short_help(true) } else { arg }
        });
        let idle = IDLE_FLAGS.iter().map(|flag| value_arg(flag.name, flag.bool).hide(true));
        command.args(fields).args(idle)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn value_arg(name: &'static str, bool: bool) -> Arg {
    let arg =
        Arg::new(name).long(name).action(ArgAction::Append).value_name("VALUE").allow_hyphen_values(true);
    let arg = match name {
        // Upstream's --v is -v as well.
        "v" => arg.short('v'),
        _ => arg,
    };
    // As in Go: `--flag` and `--flag=false`, never `--flag false`.
    if bool { arg.num_args(0..=1).require_equals(true).default_missing_value("true") } else { arg }
}

impl FromArgMatches for FieldFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |name: &str| -> Option<Vec<String>> {
            Some(matches.get_many::<String>(name)?.cloned().collect())
        };
        let fields = FIELD_FLAGS.iter().filter_map(|flag| Some((flag, values(flag.name)?))).collect();
        let changed = |flag: &super::flag_table::IdleFlag| {
            values(flag.name).and_then(|mut values| values.pop()).is_some_and(|value| value != flag.default)
        };
        let idle = IDLE_FLAGS.iter().filter(|flag| changed(flag)).map(|flag| flag.name).collect();
        Ok(Self { fields, idle })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Whether a program that was called as `program` is called `kubelet`.
pub fn is_called_kubelet(program: Option<&OsStr>) -> bool {
    program.and_then(|program| Path::new(program).file_name()).is_some_and(|name| name == "kubelet")
}

/// Replaces `_` with `-` in the names of long flags. Arguments after `--` stay unchanged.
pub fn with_plain_names(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut flags_end = false;
    let plain = |argument: OsString| {
        flags_end = flags_end || argument == "--";
        match argument.to_str().filter(|text| text.starts_with("--") && !flags_end) {
            None => argument,
            Some(text) => {
                let name_end = text.find('=').unwrap_or(text.len());
                OsString::from(text[..name_end].replace('_', "-") + &text[name_end..])
            }
        }
    };
    arguments.into_iter().map(plain).collect()
}

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
