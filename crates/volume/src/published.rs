//! What became of a pod's volumes of drivers, by what their owners say: which can be used, which failed, and which still need time.
//! Asks for nothing. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hostlet_csi::{PodStates, PublishState, VolumeId};
use hostlet_pod::ExternalVolume;

use super::error::VolumeProblem;
use super::kinds::csi::DIRECTORY;
use super::model::{BlockDevice, DriverVolume};
use super::ready::{Device, Mounted};

/// The volumes of drivers, by the names that they have in the pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) mounted: BTreeMap<String, Mounted>,
    pub(super) devices: BTreeMap<String, Device>,
    pub(super) external: BTreeMap<String, ExternalVolume>,
    pub(super) problems: Vec<VolumeProblem>,
    /// Those on which a driver still works, and which did not fail yet.
    pub(super) working: Vec<String>,
    /// Those for which the node has no room.
    pub(super) exhausted: Vec<String>,
}

/// The devices of drivers' volumes that were put where containers find them, or why that failed, by the volume's name in the spec.
pub(super) type Mapped = BTreeMap<String, Result<PathBuf, VolumeProblem>>;

/// The devices of drivers that are published, and not put in place yet, by the volume's name in the spec.
pub(super) fn unmapped(
    volumes: &[(String, DriverVolume)],
    states: &PodStates,
    mapped: &Mapped,
) -> BTreeMap<String, BlockDevice> {
    let device = |(_, volume): &(String, DriverVolume)| {
        let Some(PublishState::Published(published)) = states.get(&volume.spec_name) else { return None };
        let is_wanted = volume.is_block && !mapped.contains_key(&volume.spec_name);
        let device = || BlockDevice {
            directory: DIRECTORY,
            name: volume.spec_name.clone(),
            device: published.path.clone(),
            is_on_host: false,
            read_only: volume.read_only,
            is_exclusive: false,
            claim: None,
        };
        is_wanted.then(|| (volume.spec_name.clone(), device()))
    };
    volumes.iter().filter_map(device).collect()
}

/// What became of `volumes`.
pub(super) fn settled(volumes: &[(String, DriverVolume)], states: &PodStates, mapped: &Mapped) -> Settled {
    let mut settled = Settled::default();
    for (name, volume) in volumes {
        let state = states.get(&volume.spec_name).unwrap_or(&PublishState::Working);
        let is_published = matches!(state, PublishState::Published(_));
        // What is published stays, and only a volume that is published again would have needed more.
        if let Err(problem) = &volume.request
            && (!is_published || volume.is_republished)
        {
            settled.problems.push(problem.clone());
        }
        match state {
            PublishState::Published(published) if volume.is_block => match mapped.get(&volume.spec_name) {
                Some(Ok(path)) => settled.add_device(name, volume, path.clone(), &published.path),
                Some(Err(problem)) => settled.problems.push(problem.clone()),
                None => settled.working.push(name.clone()),
            },
            PublishState::Published(published) => settled.add(name, volume, published.path.clone()),
            PublishState::Failed(_) | PublishState::Exhausted | PublishState::Working
                if volume.request.is_err() => {}
            PublishState::Exhausted => settled.exhausted.push(name.clone()),
            PublishState::Failed(text) => settled.problems.push(VolumeProblem::Driver(text.clone())),
            PublishState::Working => settled.working.push(name.clone()),
        }
    }
    settled
}

impl Settled {
    fn add(&mut self, name: &str, volume: &DriverVolume, path: PathBuf) {
        let read_only = volume.read_only;
        self.external.insert(name.to_owned(), external(volume, &path));
        // As upstream: a mount with a label needs none on its files, and what is only read may have others.
        let relabel = !read_only && !volume.is_labelled;
        self.mounted.insert(name.to_owned(), Mounted { host_path: path, read_only, relabel });
    }

    /// Adds a device that is in place at `link`, and that the driver published at `published`.
    fn add_device(&mut self, name: &str, volume: &DriverVolume, link: PathBuf, published: &Path) {
        self.external.insert(name.to_owned(), external(volume, published));
        self.devices.insert(name.to_owned(), Device { host_path: link, read_only: volume.read_only });
    }
}

fn external(volume: &DriverVolume, published: &Path) -> ExternalVolume {
    let VolumeId { driver, handle } = &volume.id;
    ExternalVolume {
        dir: published.to_owned(),
        // A driver's volume may hang with its own storage only.
        unit: volume.id.to_string().into(),
        driver: Some(hostlet_pod::DriverVolume {
            driver: driver.as_str().into(),
            handle: handle.clone(),
            is_block: volume.is_block,
        }),
    }
}

#[cfg(test)]
mod tests {
    use hostlet_csi::Published;

    use super::*;
    use crate::error::VolumeStep;

    fn volume(is_block: bool, is_republished: bool) -> DriverVolume {
        let cause = "no secret".to_owned();
        DriverVolume {
            id: VolumeId { driver: "d".to_owned(), handle: "h".to_owned() },
            spec_name: "pv".to_owned(),
            is_block,
            read_only: false,
            is_republished,
            is_labelled: false,
            is_migrated: false,
            request: Err(VolumeProblem::Volume { step: VolumeStep::SetUp, volume: "pv".to_owned(), cause }),
        }
    }

    fn of(volume: DriverVolume, state: Option<PublishState>) -> Settled {
        let states = state.map(|state| ("pv".to_owned(), state)).into_iter().collect();
        settled(&[("v".to_owned(), volume)], &states, &Mapped::from([("pv".to_owned(), Ok("/link".into()))]))
    }

    #[test]
    fn a_node_without_room_is_no_problem_of_the_driver() {
        let request = VolumeProblem::Driver("no".to_owned());
        let none =
            of(DriverVolume { request: Err(request), ..volume(false, false) }, Some(PublishState::Exhausted));
        assert_eq!((none.exhausted.len(), none.problems.len()), (0, 1), "it is not known what is requested");
    }

    #[test]
    fn what_is_published_stays_usable_whatever_is_missing_later() {
        let published = || Some(PublishState::Published(Published { path: "/p".into() }));
        let used = of(volume(false, false), published());
        assert_eq!((used.mounted["v"].host_path.to_str(), used.problems.len()), (Some("/p"), 0));
        assert_eq!(used.external["v"].unit.to_str(), Some("d^h"));
        let again = of(volume(false, true), published());
        assert_eq!((again.mounted.len(), again.problems.len()), (1, 1), "it would be published again");
        for state in [None, Some(PublishState::Working), Some(PublishState::Failed("old".into()))] {
            let unused = of(volume(false, false), state);
            assert_eq!((unused.mounted.len(), unused.problems.len(), unused.working.len()), (0, 1, 0));
            assert!(unused.problems[0].to_string().ends_with("no secret"));
        }
        let device = of(volume(true, false), published());
        assert!(device.mounted.is_empty());
        assert_eq!(device.external["v"].dir.to_str(), Some("/p"), "which its driver measures");
        assert_eq!(device.devices["v"], Device { host_path: "/link".into(), read_only: false });
    }
}
