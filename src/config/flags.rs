//! The kubelet's command line: the same names and meanings, `_` for `-` where somebody writes it so. Flags that set fields
//! of KubeletConfiguration stand in a table of their own.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::flag_table::{FIELD_FLAGS, FieldFlag, IDLE_FLAGS};
use super::flag_value::FlagKind;

/// All flags of the daemon.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct KubeletFlags {
    /// Flags about the process.
    #[command(flatten)]
    pub process: ProcessFlags,
    /// Flags that set fields of the configuration.
    #[command(flatten)]
    pub fields: FieldFlags,
}

/// Flags about the process, which have no field in KubeletConfiguration.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct ProcessFlags {
    /// Configuration file: KubeletConfiguration, HostletConfiguration or both, as YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of drop-ins: its *.conf files are laid over --config in the order of their names.
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
    /// How to reach the API server of a cluster.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// How to ask for a first certificate of a cluster. Not served yet.
    #[arg(long, value_name = "FILE")]
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// Name of the node, instead of the host's own.
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
    /// Address of the node; two, with a comma between them, for dual stack.
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    pub node_ip: Vec<IpAddr>,
    /// Labels the node is registered with: KEY=VALUE, with commas between them.
    #[arg(long, value_name = "LABELS", value_delimiter = ',')]
    pub node_labels: Vec<String>,
    /// Who tells what the node's cloud knows of it: `external` for a cloud controller manager, nothing for nobody.
    #[arg(long, value_name = "PROVIDER", default_value = "")]
    pub cloud_provider: String,
    /// Do not keep from pods what the hard eviction thresholds say.
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", action = ArgAction::Set, hide_short_help = true
    )]
    pub experimental_allocatable_ignore_eviction: bool,
    /// Directory for the daemon's own files.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_ROOT_DIR)]
    pub root_dir: PathBuf,
    /// File to lock while running.
    #[arg(long, value_name = "FILE")]
    pub lock_file: Option<PathBuf>,
    /// Exit when another process wants the lock. Not served yet.
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", action = ArgAction::Set
    )]
    pub exit_on_lock_contention: bool,
    /// Print the version and exit; `raw` prints all that is known of it.
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub version: Option<VersionForm>,
}

const DEFAULT_ROOT_DIR: &str = "/var/lib/kubelet";

impl Default for ProcessFlags {
    fn default() -> Self {
        Self {
            config: None,
            config_dir: None,
            kubeconfig: None,
            bootstrap_kubeconfig: None,
            hostname_override: None,
            node_ip: Vec::new(),
            node_labels: Vec::new(),
            cloud_provider: String::new(),
            experimental_allocatable_ignore_eviction: false,
            root_dir: PathBuf::from(DEFAULT_ROOT_DIR),
            lock_file: None,
            exit_on_lock_contention: false,
            version: None,
        }
    }
}

/// How `--version` is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VersionForm {
    /// The version.
    True,
    /// Not at all.
    False,
    /// Everything that is known of the build.
    Raw,
}

/// Values of flags that set fields, or that are understood and change nothing, in the order of the tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldFlags {
    /// Each flag that was given, with its values in order.
    pub(super) fields: Vec<(&'static FieldFlag, Vec<String>)>,
    /// Each flag that changes nothing and was given something other than its default.
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
    // As Go reads them: `--flag` and `--flag=false`, never `--flag false`.
    if bool { arg.num_args(0..=1).require_equals(true).default_missing_value("true") } else { arg }
}

impl FromArgMatches for FieldFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |name: &str| -> Option<Vec<String>> {
            Some(matches.get_many::<String>(name)?.cloned().collect())
        };
        let fields = FIELD_FLAGS.iter().filter_map(|flag| Some((flag, values(flag.name)?))).collect();
        let changed = |flag: &super::flag_table::IdleFlag| {
            values(flag.name).is_some_and(|values| values.iter().any(|value| value != flag.default))
        };
        let idle = IDLE_FLAGS.iter().filter(|flag| changed(flag)).map(|flag| flag.name).collect();
        Ok(Self { fields, idle })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The arguments with `-` for every `_` in the names of long flags. What follows `--` is left alone.
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
