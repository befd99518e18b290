//! The command line as `/flagz` shows it: every flag of the stock kubelet with its value.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::flag_table::FIELD_FLAGS;

/// The stock kubelet's flags with their defaults, as its `/flagz` shows them.
const DEFAULTS: &str = include_str!("flag_defaults.txt");

/// A flag whose values may be secrets.
const CLASSIFIED: &str = "manifest-url-header";

/// The flags that were given, with their values. Adds no flag.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenFlags(BTreeMap<String, String>);

impl Args for GivenFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for GivenFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let defaults = defaults();
        let value = |id: &clap::Id| {
            let name = id.as_str().replace('_', "-");
            let is_shown = defaults.contains_key(name.as_str());
            if !is_shown || matches.value_source(id.as_str()) != Some(ValueSource::CommandLine) {
                return None;
            }
            if name == CLASSIFIED {
                return Some((name, "CLASSIFIED".to_owned()));
            }
            let is_replaced = FIELD_FLAGS.iter().any(|flag| flag.name == name && flag.kind.is_replaced());
            let values = matches.get_raw(id.as_str())?.map(|value| value.to_string_lossy().into_owned());
            let values: Vec<String> = values.collect();
            Some((name, if is_replaced { values.last()?.clone() } else { values.join(",") }))
        };
        Ok(Self(matches.ids().filter_map(value).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn defaults() -> BTreeMap<&'static str, &'static str> {
    DEFAULTS.lines().filter_map(|line| line.split_once('=')).collect()
}

impl GivenFlags {
    /// Every flag of the stock kubelet with its value: as given on the command line, otherwise its default.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let defaults = defaults().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut shown: BTreeMap<String, String> = defaults.collect();
        shown.extend(self.0.clone());
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KubeletFlags;

    fn shown(arguments: &[&str]) -> BTreeMap<String, String> {
        let command = KubeletFlags::augment_args(Command::new("hostlet"));
        let arguments = ["hostlet"].iter().chain(arguments);
        KubeletFlags::from_arg_matches(&command.get_matches_from(arguments)).unwrap().given.shown()
    }

    #[test]
    fn given_values_are_shown_and_otherwise_defaults() {
        let flags = shown(&[
            "--root-dir=/srv",
            "--max-pods=3",
            "--max-pods=7",
            "--fail-swap-on",
            "--cluster-dns=10.0.0.1",
            "--cluster-dns=10.0.0.2",
            "--manifest-url-header=Authorization:secret",
            "--adopt-foreign-pods",
        ]);
        for (name, value) in [
            ("root-dir", "/srv"),
            ("max-pods", "7"),
            ("fail-swap-on", "true"),
            ("cluster-dns", "10.0.0.1,10.0.0.2"),
            ("manifest-url-header", "CLASSIFIED"),
            ("event-qps", "50"),
            ("cert-dir", "/var/lib/kubelet/pki"),
        ] {
            assert_eq!(flags[name], value, "{name}");
        }
        assert!(!flags.contains_key("adopt-foreign-pods"), "the names are the stock kubelet's");
    }

    #[test]
    fn every_flag_that_is_shown_is_accepted() {
        let command = KubeletFlags::augment_args(Command::new("hostlet"));
        let accepted: Vec<String> =
            command.get_arguments().map(|arg| arg.get_id().as_str().replace('_', "-")).collect();
        let is_unknown = |name: &&str| *name != "help" && !accepted.iter().any(|known| known == name);
        let unknown: Vec<&str> = defaults().into_keys().filter(is_unknown).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }
}
