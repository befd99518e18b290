//! `hostlet images`: the runtime's images as a table, JSON or YAML. Those that nothing uses are `unused_images`'s.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table};
use hostlet_base::human_size;
use hostlet_serve::server::ImageView;
use jiff::Timestamp;

use super::client::{DaemonArgs, images as list_images, pulls, view};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_object};
use super::pods::archive_problems;
use super::pulls::pull_lines;
use super::unused_images::{PruneArgs, prune, short_id, show_unused};

const NONE: &str = "<none>";

/// Arguments of `hostlet images`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ImagesArgs {
    /// What to do instead of listing images.
    #[command(subcommand)]
    pub command: Option<ImagesCommand>,
    /// Only those that nothing uses, with when and why they are removed
    #[arg(long)]
    pub unused: bool,
    /// Print whole objects, with sizes in bytes
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum ImagesCommand {
    /// Remove the images that nothing uses
    Prune(PruneArgs),
}

/// Runs `hostlet images`.
pub async fn images(args: ImagesArgs) -> Result<Exit, CommandError> {
    if let Some(ImagesCommand::Prune(args)) = args.command {
        return prune(args).await;
    }
    let socket = args.daemon.socket();
    if args.unused {
        return show_unused(&socket, args.output).await;
    }
    let images = list_images(&socket).await?;
    let pulls = pulls(&socket).await?;
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => write_object(&mut out, format, &images)?,
        None if images.is_empty() => writeln!(out, "No images.")?,
        None => writeln!(out, "{}", images_table(&images))?,
    }
    archive_problems(&mut io::stderr().lock(), &view(&socket).await?.archives)?;
    for line in pull_lines(&pulls, Timestamp::now()) {
        writeln!(io::stderr(), "\n{line}")?;
    }
    Ok(Exit::Ok)
}

/// A line per name of each image.
fn images_table(images: &[ImageView]) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["IMAGE", "TAG", "IMAGE ID", "SIZE"]);
    for image in images {
        let id = short_id(&image.id);
        for (name, tag) in names(image) {
            table.add_row([name, tag, &id, &human_size(image.size)]);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Repositories and tags; only the repository for an image without a tag.
fn names(image: &ImageView) -> Vec<(&str, &str)> {
    // A registry's port also follows a colon.
    let tagged = |name: &'_ str| match name.rsplit_once(':') {
        Some((_, tag)) if !tag.contains('/') => name.len() - tag.len() - 1,
        Some(_) | None => name.len(),
    };
    let mut names: Vec<(&str, &str)> = image
        .tags
        .iter()
        .map(|name| {
            let (repository, tag) = name.split_at(tagged(name));
            (repository, tag.strip_prefix(':').unwrap_or(NONE))
        })
        .collect();
    if names.is_empty() {
        let digest = image.digests.first().and_then(|name| name.split_once('@'));
        names.push((digest.map_or(NONE, |(repository, _)| repository), NONE));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_line() {
        let image = |id: &str, tags: &[&str], digests: &[&str], size| ImageView {
            id: id.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            digests: digests.iter().map(|digest| (*digest).to_owned()).collect(),
            size,
        };
        let images = [
            image(
                "sha256:0123456789abcdef",
                &["docker.io/library/busybox:1.36", "localhost:5000/b"],
                &[],
                4_261_550,
            ),
            image("sha256:fedc", &[], &["quay.io/x/y@sha256:00"], 735),
            image("sha256:aa", &[], &[], 0),
        ];
        let table = images_table(&images);
        let cells: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            cells,
            [
                vec!["IMAGE", "TAG", "IMAGE", "ID", "SIZE"],
                vec!["docker.io/library/busybox", "1.36", "0123456789abc", "4.26MB"],
                vec!["localhost:5000/b", "<none>", "0123456789abc", "4.26MB"],
                vec!["quay.io/x/y", "<none>", "fedc", "735B"],
                vec!["<none>", "<none>", "aa", "0B"],
            ]
        );
        assert!(table.lines().all(|line| line.trim_end() == line), "{table}");
    }
}
