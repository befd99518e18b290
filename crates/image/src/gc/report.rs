//! What uses the space of the image filesystem, in a sentence. Pure.

use std::collections::BTreeMap;

use hostlet_base::settings::ImageGcPolicy;
use hostlet_base::{go_duration, human_size};

use super::disk::ImageDisk;
use super::plan::{Candidate, Keep};
use super::records::ImageRecords;
use super::users::{ImageUser, ImageUsers};

/// How many users of images are named.
const MOST_NAMED: usize = 3;

/// The verb of one image and of more.
const BE: (&str, &str) = ("is", "are");

/// Images of one sort.
#[derive(Clone, Copy, Default)]
struct Sort {
    count: usize,
    bytes: u64,
}

impl Sort {
    fn of(sizes: impl Iterator<Item = u64>) -> Self {
        sizes.fold(Self::default(), |sort, size| Self {
            count: sort.count + 1,
            bytes: sort.bytes.saturating_add(size),
        })
    }

    /// `2 images (5MB) are pinned`; `None` without any.
    fn text(self, (one, many): (&str, &str), what: &str) -> Option<String> {
        let (images, verb) = if self.count == 1 { ("image", one) } else { ("images", many) };
        (self.count > 0)
            .then(|| format!("{} {images} ({}) {verb} {what}", self.count, human_size(self.bytes)))
    }
}

/// That too little was freed, and what uses the space: `left` are the images that nothing uses and that are still there.
pub(super) fn too_little(
    (wanted, freed): (u64, u64),
    disk: &ImageDisk,
    policy: &ImageGcPolicy,
    records: &ImageRecords,
    users: &ImageUsers,
    left: &[Candidate],
) -> String {
    let ImageDisk { path, images, capacity, .. } = disk;
    let taken = (*images).min(disk.used());
    let images_take = format!(
        "images and containers' layers take {} of the used {}, {} are other files",
        human_size(taken),
        human_size(disk.used()),
        human_size(disk.used() - taken),
    );
    let stay = stay(policy, records, users, left).unwrap_or_else(|| "no image is left".to_owned());
    format!(
        "Wanted to free {} on the image filesystem ({}% of {} used, {}), but freed {} by removing unused images: {images_take}; {stay}.",
        human_size(wanted),
        disk.used_percent(),
        human_size(*capacity),
        path.display(),
        human_size(freed),
    )
}

/// Which images stay, and why; `None` if there are none.
pub(super) fn stay(
    policy: &ImageGcPolicy,
    records: &ImageRecords,
    users: &ImageUsers,
    left: &[Candidate],
) -> Option<String> {
    let used: Vec<(&str, u64)> = records
        .iter()
        .filter(|(id, _)| users.contains_key(*id))
        .map(|(id, record)| (id, record.size))
        .collect();
    let mut by_user: BTreeMap<&ImageUser, u64> = BTreeMap::new();
    for (id, size) in &used {
        for user in users.get(*id).into_iter().flatten() {
            *by_user.entry(user).or_default() += size;
        }
    }
    let mut largest: Vec<(&ImageUser, u64)> = by_user.into_iter().collect();
    largest.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let named: Vec<String> = largest.iter().take(MOST_NAMED).map(|(user, _)| user.to_string()).collect();
    let most = if largest.len() > MOST_NAMED { "most by " } else { "by " };
    let in_use = Sort::of(used.iter().map(|(_, size)| *size));
    let kept = |keep| Sort::of(left.iter().filter(|image| image.keep == Some(keep)).map(|image| image.size));
    let young = Sort::of(
        left.iter()
            .filter(|image| image.keep.is_none() && !image.is_removable(policy))
            .map(|image| image.size),
    );
    let age = go_duration(policy.minimum_age);
    let sorts = [
        in_use.text(BE, &format!("in use, {most}{}", named.join(", "))),
        kept(Keep::Pinned).text(BE, "pinned"),
        kept(Keep::Archive).text(("has", "have"), "archives in imagePreloadDir"),
        young.text(("was", "were"), &format!("detected less than {age} ago (imageMinimumGCAge)")),
    ];
    let sorts: Vec<String> = sorts.into_iter().flatten().collect();
    (!sorts.is_empty()).then(|| sorts.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::now::Now;
    use hostlet_base::PodRef;
    use hostlet_runtime::cri::ImageInfo;
    use hostlet_store::Store;
    use jiff::Timestamp;
    use tokio::time::Instant;

    #[test]
    fn the_sentence_says_who_uses_the_space() {
        let image = |id: &str, size| ImageInfo { id: id.to_owned(), size, ..ImageInfo::default() };
        let pod = |name: &str| ImageUser::Pod(PodRef::new("ns", name, name));
        let users: ImageUsers = [
            ("a".to_owned(), [pod("web"), pod("api")].into()),
            ("b".to_owned(), [pod("db")].into()),
            ("c".to_owned(), [ImageUser::Sandboxes].into()),
        ]
        .into();
        let mut records = ImageRecords::new(Store::default());
        let images = [image("a", 1_000_000), image("b", 5_000_000), image("c", 700_000), image("y", 10)];
        let now = Now { tokio: Instant::now(), wall: Timestamp::UNIX_EPOCH };
        records.observe(&images, &users, now);
        let left = super::super::plan::candidates(&records, &users, &Default::default(), now);
        let policy = ImageGcPolicy {
            high_percent: 85,
            low_percent: 80,
            minimum_age: Duration::from_secs(120),
            maximum_age: None,
        };
        let disk = ImageDisk {
            path: "/var/lib/containerd".into(),
            images: 8_000_000,
            capacity: 10_000_000_000,
            available: 500_000_000,
        };
        assert_eq!(
            too_little((1_500_000_000, 0), &disk, &policy, &records, &users, &left),
            "Wanted to free 1.5GB on the image filesystem (95% of 10GB used, /var/lib/containerd), but freed 0B by removing unused \
             images: images and containers' layers take 8MB of the used 9.5GB, 9.49GB are other files; 3 images (6.7MB) are in use, \
             most by pod ns/db, pod ns/api, pod ns/web, 1 image (10B) was detected less than 2m0s ago (imageMinimumGCAge)."
        );
        let none = ImageRecords::new(Store::default());
        let text = too_little((1, 0), &disk, &policy, &none, &ImageUsers::default(), &[]);
        assert!(text.ends_with("; no image is left."), "{text}");
    }
}
