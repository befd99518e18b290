//! `hostlet volumes`: the volumes of CSI drivers on this node, as a table, JSON or YAML.

use std::io::{self, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table};
use hostlet_base::human_duration;
use hostlet_csi::{VolumePod, VolumeView};
use jiff::Timestamp;

use super::client::{DaemonArgs, volumes as list_volumes};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_object};

const NONE: &str = "<none>";

/// Arguments of `hostlet volumes`.
#[derive(Clone, Debug, Args)]
pub struct VolumesArgs {
    /// Print whole objects
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet volumes`.
pub async fn volumes(args: VolumesArgs) -> Result<Exit, CommandError> {
    let volumes = list_volumes(&args.daemon.socket()).await?;
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => write_object(&mut out, format, &volumes)?,
        None => write!(out, "{}", text(&volumes, Timestamp::now()))?,
    }
    Ok(Exit::Ok)
}

/// A line per volume and pod, and a paragraph per problem.
fn text(volumes: &[VolumeView], now: Timestamp) -> String {
    if volumes.is_empty() {
        return "No volumes of CSI drivers.\n".to_owned();
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "POD",
        "VOLUME",
        "DRIVER",
        "PHASE",
        "SINCE",
        "ATTACHED",
        "STAGED",
        "PUBLISHED",
        "HANDLE",
    ]);
    for volume in volumes {
        let pods: Vec<Option<&VolumePod>> = match volume.pods.as_slice() {
            [] => vec![None],
            pods => pods.iter().map(Some).collect(),
        };
        for pod in pods {
            table.add_row([
                pod.map_or(NONE, |pod| pod.pod.as_deref().unwrap_or(&pod.uid)).to_owned(),
                volume.name.clone(),
                volume.driver.clone(),
                volume.phase.to_string(),
                human_duration(now.duration_since(volume.since)),
                yes(volume.attached),
                yes(volume.staging.is_some()),
                yes(pod.is_some_and(|pod| pod.published)),
                volume.handle.clone(),
            ]);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    for volume in volumes {
        let Some(error) = &volume.last_error else { continue };
        let next = volume.next_retry.filter(|at| *at > now).map(|at| human_duration(at.duration_since(now)));
        let next = next.map(|next| format!(" The next attempt is in {next}.")).unwrap_or_default();
        text.push_str(&format!("\n{}: {}.{next}\n", volume.name, error.trim_end_matches('.')));
    }
    text
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use hostlet_csi::VolumePhase;

    use super::*;

    #[test]
    fn a_volume_is_shown_with_its_pods_and_what_is_wrong() {
        let pod = |uid: &str, pod: Option<&str>, published| VolumePod {
            uid: uid.to_owned(),
            pod: pod.map(str::to_owned),
            published,
            path: None,
        };
        let second = |second| Timestamp::from_second(second).unwrap();
        let volume = VolumeView {
            driver: "csi.example.com".to_owned(),
            handle: "vol-1".to_owned(),
            name: "pv-1".to_owned(),
            phase: VolumePhase::Failing,
            since: second(40),
            attached: true,
            staging: Some("/staging".to_owned()),
            last_error: Some("MountVolume.SetUp failed".to_owned()),
            next_retry: Some(second(130)),
            pods: vec![pod("u1", Some("default/a"), true), pod("u2", None, false)],
        };
        let idle =
            VolumeView { pods: Vec::new(), last_error: None, phase: VolumePhase::Idle, ..volume.clone() };
        assert_eq!(
            text(&[volume, idle], second(100)),
            "POD        VOLUME  DRIVER           PHASE    SINCE  ATTACHED  STAGED  PUBLISHED  HANDLE\n\
             default/a  pv-1    csi.example.com  Failing  60s    yes       yes     yes        vol-1\n\
             u2         pv-1    csi.example.com  Failing  60s    yes       yes     no         vol-1\n\
             <none>     pv-1    csi.example.com  Idle     60s    yes       yes     no         vol-1\n\
             \npv-1: MountVolume.SetUp failed. The next attempt is in 30s.\n"
        );
        assert_eq!(text(&[], Timestamp::UNIX_EPOCH), "No volumes of CSI drivers.\n");
    }
}
