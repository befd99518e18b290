//! `hostlet images --unused` and `hostlet images prune`: the images that nothing uses, when they go, and their removal.

use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use comfy_table::{ContentArrangement, Table};
use hostlet_base::{human_duration, human_size};
use hostlet_serve::server::{KeptView, PruneView, UnusedImageView, UnusedImagesView};
use jiff::Timestamp;

use super::client::{DaemonArgs, prune_images, unused_images};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_object};

/// Length of an abbreviated ID, as in `crictl`.
const SHORT_ID: usize = 13;

/// Arguments of `hostlet images prune`.
#[derive(Clone, Debug, Args)]
pub struct PruneArgs {
    /// Only show what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// An ID as a table shows it.
pub(super) fn short_id(id: &str) -> String {
    id.rsplit(':').next().unwrap_or_default().chars().take(SHORT_ID).collect()
}

/// Runs `hostlet images --unused`.
pub(super) async fn show_unused(socket: &Path, output: Option<ObjectFormat>) -> Result<Exit, CommandError> {
    let unused = unused_images(socket).await?;
    let mut out = io::stdout().lock();
    match output {
        Some(format) => write_object(&mut out, format, &unused)?,
        None => {
            writeln!(out, "{}", filesystem_line(&unused))?;
            match unused.images.is_empty() {
                true => writeln!(out, "No unused images.")?,
                false => writeln!(out, "\n{}", unused_table(&unused, Timestamp::now()))?,
            }
        }
    }
    Ok(Exit::Ok)
}

/// Runs `hostlet images prune`.
pub(super) async fn prune(args: PruneArgs) -> Result<Exit, CommandError> {
    let socket = args.daemon.socket();
    let mut out = io::stdout().lock();
    if args.dry_run {
        let images = unused_images(&socket).await?.images;
        let removable: Vec<_> = images.into_iter().filter(is_removable).collect();
        for image in &removable {
            writeln!(out, "would remove {} ({})", name(&image.names, &image.id), human_size(image.size))?;
        }
        let bytes = removable.iter().map(|image| image.size).sum();
        writeln!(out, "{} images would be removed, {} together", removable.len(), human_size(bytes))?;
        return Ok(Exit::Ok);
    }
    let PruneView { removed, failed, freed } = prune_images(&socket).await?;
    for image in &removed {
        writeln!(out, "removed {} ({})", name(&image.names, &image.id), human_size(image.size))?;
    }
    writeln!(out, "{} images removed, {} together", removed.len(), human_size(freed))?;
    for failure in &failed {
        writeln!(io::stderr(), "cannot remove {}: {}", failure.image, failure.error)?;
    }
    Ok(if failed.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Whether a removal of all unused images would remove it.
fn is_removable(image: &UnusedImageView) -> bool {
    image.kept.is_none() && image.removable_from.is_none()
}

/// The first name of an image, or else its ID.
fn name<'a>(names: &'a [String], id: &'a str) -> &'a str {
    names.first().map_or(id, String::as_str)
}

/// How full the filesystem is, and what that means for unused images.
fn filesystem_line(unused: &UnusedImagesView) -> String {
    let UnusedImagesView { filesystem, high_threshold_percent: high, low_threshold_percent: low, .. } =
        unused;
    let rule = match high {
        100 => "unused images are not removed for space".to_owned(),
        _ => format!("unused images are removed from {high}% on, down to {low}%"),
    };
    let (used, capacity) = (filesystem.used_percent, human_size(filesystem.capacity));
    format!("The image filesystem ({}) is {used}% full of {capacity}; {rule}.", filesystem.path)
}

/// A line per image, in the order in which they go.
fn unused_table(unused: &UnusedImagesView, now: Timestamp) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["IMAGE", "IMAGE ID", "SIZE", "LAST USED", "REMOVED"]);
    for image in &unused.images {
        let last_used = match image.last_used {
            Some(at) => format!("{} ago", human_duration(now.duration_since(at))),
            None => "never".to_owned(),
        };
        table.add_row([
            name(&image.names, &image.id),
            &short_id(&image.id),
            &human_size(image.size),
            &last_used,
            &removal(image, unused.high_threshold_percent, now),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// When an image goes, and why not.
fn removal(image: &UnusedImageView, high: u8, now: Timestamp) -> String {
    match image.kept {
        Some(KeptView::Pinned) => return "never: the runtime has pinned it".to_owned(),
        Some(KeptView::Archive) => return "never: its archive is in imagePreloadDir".to_owned(),
        None => {}
    }
    let within = |at: Timestamp| human_duration(at.duration_since(now));
    let mut when = Vec::new();
    match (high, image.removable_from) {
        (100, None) => when.push("on request".to_owned()),
        (100, Some(from)) => when.push(format!("on request, not within {}", within(from))),
        (_, None) => when.push("when space is needed".to_owned()),
        (_, Some(from)) => when.push(format!("when space is needed, not within {}", within(from))),
    }
    when.extend(image.expires.map(|at| format!("at the latest in {}", within(at))));
    when.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_serve::server::ImageFilesystemView;

    #[test]
    fn each_image_says_when_it_goes() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let image = |name: &str| UnusedImageView {
            id: "sha256:0123456789abcdef".to_owned(),
            names: vec![name.to_owned()],
            size: 4_261_550,
            first_detected: at(0),
            last_used: None,
            kept: None,
            removable_from: None,
            expires: None,
        };
        let mut unused = UnusedImagesView {
            filesystem: ImageFilesystemView {
                path: "/var/lib/containerd".to_owned(),
                capacity: 10_000_000_000,
                available: 3_000_000_000,
                used_percent: 70,
            },
            high_threshold_percent: 85,
            low_threshold_percent: 80,
            images: vec![
                image("r.io/a:1"),
                UnusedImageView { last_used: Some(at(400)), expires: Some(at(4600)), ..image("r.io/b:1") },
                UnusedImageView { removable_from: Some(at(1090)), ..image("r.io/c:1") },
                UnusedImageView { kept: Some(KeptView::Pinned), ..image("r.io/d:1") },
                UnusedImageView { kept: Some(KeptView::Archive), names: Vec::new(), ..image("") },
            ],
        };
        let table = unused_table(&unused, at(1000));
        let rows: Vec<&str> = table.lines().skip(1).collect();
        for (row, start, end) in [
            (rows[0], "r.io/a:1", "never      when space is needed"),
            (rows[1], "r.io/b:1", "10m ago    when space is needed; at the latest in 60m"),
            (rows[2], "r.io/c:1", "when space is needed, not within 90s"),
            (rows[3], "r.io/d:1", "never: the runtime has pinned it"),
            (rows[4], "sha256:0123456789abcdef", "never: its archive is in imagePreloadDir"),
        ] {
            assert!(row.starts_with(start) && row.ends_with(end), "{row}");
        }
        assert_eq!(unused.images.iter().filter(|image| is_removable(image)).count(), 2);
        let line = filesystem_line(&unused);
        assert_eq!(
            line,
            "The image filesystem (/var/lib/containerd) is 70% full of 10GB; unused images are removed from 85% on, down to 80%."
        );
        unused.high_threshold_percent = 100;
        assert!(filesystem_line(&unused).ends_with("unused images are not removed for space."));
        assert_eq!(removal(&unused.images[0], 100, at(1000)), "on request");
    }
}
