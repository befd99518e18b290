//! One man page for the program and one for each command, in section 8: all of them need root.

use std::io;

use clap::Command;
use clap_mangen::Man;

const SECTION: &str = "8";

/// With more options than this, the synopsis does not list them.
const LONG_SYNOPSIS: usize = 30;

/// The pages of a command and its subcommands: file names and contents.
pub(crate) fn pages(command: Command, date: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    // Gives every subcommand its full name, `hostlet-config-check`.
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, date, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, date: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        add_pages(subcommand, date, pages)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut shown = command.clone();
    if shown.get_arguments().count() > LONG_SYNOPSIS {
        shown = shown.override_usage(format!("{name} [OPTIONS]\n{name} COMMAND"));
    }
    let man = Man::new(shown)
        .title(name.to_uppercase())
        .section(SECTION)
        .date(date)
        .source(concat!("hostlet ", env!("CARGO_PKG_VERSION")))
        .manual("hostlet");
    let mut page = Vec::new();
    man.render(&mut page)?;
    pages.push((format!("{name}.{SECTION}"), page));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use hostlet_cli::commands::Cli;

    use super::*;

    #[test]
    fn every_command_has_a_page_and_every_page_names_its_section() {
        let pages = pages(Cli::command(), "2026-01-31").unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| &**name).collect();
        for expected in ["hostlet.8", "hostlet-pods.8", "hostlet-config.8", "hostlet-config-check.8"] {
            assert!(names.contains(&expected), "{expected} is missing: {names:?}");
        }
        for (name, page) in &pages {
            let text = String::from_utf8_lossy(page);
            let heading = name.trim_end_matches(".8").to_uppercase();
            assert!(text.contains(&format!(".TH {heading} 8")), "{name}: {text:.200}");
            assert!(text.contains("2026-01-31"), "{name}");
        }
    }

    #[test]
    fn a_page_has_all_flags_of_its_command() {
        let pages = pages(Cli::command(), "2026-01-31").unwrap();
        let (_, page) = pages.iter().find(|(name, _)| name == "hostlet.8").unwrap();
        let text = String::from_utf8_lossy(page).replace('\\', "");
        let mut command = Cli::command();
        command.build();
        let flags: Vec<&str> = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .filter_map(|arg| arg.get_long())
            .collect();
        assert!(flags.len() > 50, "{flags:?}");
        for flag in flags {
            assert!(text.contains(&format!("--{flag}")), "--{flag}");
        }
    }
}
