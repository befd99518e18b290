//! The plan by examples, and by properties of random images.

use hostlet_runtime::cri::ImageInfo;
use hostlet_store::Store;
use proptest::prelude::*;
use tokio::time::Instant;

use super::super::users::ImageUser;
use super::*;

const GIB: u64 = 1 << 30;
const POLICY: ImageGcPolicy = ImageGcPolicy {
    high_percent: 85,
    low_percent: 80,
    minimum_age: Duration::from_secs(120),
    maximum_age: None,
};

fn disk(capacity: u64, available: u64) -> ImageDisk {
    ImageDisk { path: "/images".into(), images: 0, capacity, available }
}

fn candidate(id: &str, size: u64, age: u64) -> Candidate {
    Candidate {
        id: id.to_owned(),
        names: Vec::new(),
        size,
        first_detected: Timestamp::UNIX_EPOCH,
        last_used: None,
        age: Duration::from_secs(age),
        unused_for: Duration::from_secs(age),
        keep: None,
    }
}

/// The IDs that go, and what they free together, if every removal succeeds and frees the size of its image.
fn run(shortage: Shortage, candidates: Vec<Candidate>, policy: &ImageGcPolicy) -> (Vec<String>, SpaceRun) {
    let mut run = SpaceRun::new(shortage, candidates, policy);
    let mut removed = Vec::new();
    while let Some(image) = run.next() {
        run.removed(image.size, None);
        removed.push(image.id);
    }
    (removed, run)
}

#[test]
fn space_is_freed_from_the_high_threshold_down_to_the_low_one() {
    for (available, wanted) in [(100, None), (16, None), (15, Some(5)), (14, Some(6)), (0, Some(20))] {
        let found = Shortage::of(&disk(100, available), &POLICY);
        assert_eq!(found.map(|shortage| shortage.wanted), wanted, "{available}");
    }
    let full = disk(u64::MAX, 0);
    assert_eq!(full.used_percent(), 100);
    assert!(Shortage::of(&full, &POLICY).is_some());
    let off = ImageGcPolicy { high_percent: 100, low_percent: 99, ..POLICY };
    assert_eq!(Shortage::of(&full, &off), None);
}

#[test]
fn nothing_goes_beyond_what_is_needed() {
    let images = || vec![candidate("a", GIB, 900), candidate("b", GIB, 900), candidate("c", GIB, 900)];
    let (removed, done) = run(Shortage { wanted: GIB + 1, available: 0 }, images(), &POLICY);
    assert_eq!((removed, done.is_reached()), (vec!["a".to_owned(), "b".to_owned()], true));
    let (removed, done) = run(Shortage { wanted: 4 * GIB, available: 0 }, images(), &POLICY);
    assert_eq!((removed.len(), done.freed(), done.is_reached()), (3, 3 * GIB, false));

    // The filesystem itself shows enough space: the layers were larger than the sizes said.
    let mut measured = SpaceRun::new(Shortage { wanted: 4 * GIB, available: 10 }, images(), &POLICY);
    assert_eq!(measured.next().unwrap().id, "a");
    measured.removed(GIB, Some(9));
    assert_eq!(measured.next().unwrap().id, "b");
    measured.removed(GIB, Some(10));
    assert_eq!((measured.next(), measured.is_reached()), (None, true));
}

#[test]
fn young_pinned_and_preloaded_images_stay() {
    let images = vec![
        candidate("young", GIB, 119),
        Candidate { keep: Some(Keep::Pinned), ..candidate("pinned", GIB, 900) },
        Candidate { keep: Some(Keep::Archive), ..candidate("archive", GIB, 900) },
        candidate("old", GIB, 120),
    ];
    assert_eq!(run(Shortage::ALL, images.clone(), &POLICY).0, ["old"]);
    let aging = ImageGcPolicy { maximum_age: Some(Duration::from_secs(600)), ..POLICY };
    let expired = |image: &&Candidate| image.has_expired(&aging);
    assert_eq!(images.iter().filter(expired).count(), 0, "kept ones never expire");
    assert!(candidate("x", GIB, 601).has_expired(&aging) && !candidate("x", GIB, 600).has_expired(&aging));
    assert!(!candidate("x", GIB, 601).has_expired(&POLICY));
}

#[test]
fn an_unused_image_knows_when_it_goes() {
    let now = Timestamp::UNIX_EPOCH;
    let aging = ImageGcPolicy { maximum_age: Some(Duration::from_secs(600)), ..POLICY };
    let after = |seconds| Some(Timestamp::from_second(seconds).unwrap());
    let pinned = Candidate { keep: Some(Keep::Pinned), ..candidate("p", 1, 900) };
    for (image, policy, fate) in [
        (pinned, aging, Fate::Kept(Keep::Pinned)),
        (candidate("a", 1, 100), POLICY, Fate::Removable { from: after(20), expires: None }),
        (candidate("a", 1, 200), aging, Fate::Removable { from: None, expires: after(400) }),
        (candidate("a", 1, 700), aging, Fate::Removable { from: None, expires: after(0) }),
    ] {
        assert_eq!(image.fate(&policy, now), fate);
    }
}

/// An image and what happened to it: whether it is in use now, when it was last used before, its size, whether it is pinned, whether its
/// archive is there.
type RandomImage = (bool, Option<u16>, u32, bool, bool);

prop_compose! {
    fn images()(images in prop::collection::vec(any::<RandomImage>(), 0..30)) -> Vec<RandomImage> { images }
}

proptest! {
    #[test]
    fn images_in_use_stay_and_no_more_goes_than_is_needed(
        images in images(),
        wanted in 0_u64..(1 << 34),
        minimum_age in 0_u64..2_000,
    ) {
        let (start, store) = (Instant::now(), Store::default());
        let mut records = ImageRecords::new(store);
        let infos: Vec<ImageInfo> = images.iter().enumerate().map(|(at, image)| ImageInfo {
            id: format!("{at:02}"),
            tags: vec![format!("name-{at}")],
            size: u64::from(image.2),
            pinned: image.3,
            ..ImageInfo::default()
        }).collect();
        let at = |seconds: u64| Now {
            tokio: start + Duration::from_secs(seconds),
            wall: Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap(),
        };
        // Each look sees the images that are in use then.
        let mut looks: Vec<u64> = images.iter().filter_map(|image| image.1.map(u64::from)).collect();
        looks.push(0);
        looks.sort_unstable();
        looks.dedup();
        let users = |used: &dyn Fn(&RandomImage) -> bool| -> ImageUsers {
            let used = images.iter().enumerate().filter(|(_, image)| used(image));
            used.map(|(at, _)| (format!("{at:02}"), BTreeSet::from([ImageUser::Sandboxes]))).collect()
        };
        for look in looks {
            records.observe(&infos, &users(&|image| image.1.map(u64::from) == Some(look)), at(look));
        }
        let now = at(100_000);
        let current = users(&|image| image.0);
        records.observe(&infos, &current, now);
        let archives = images.iter().enumerate().filter(|(_, image)| image.4).map(|(at, _)| format!("name-{at}"));
        let policy = ImageGcPolicy { minimum_age: Duration::from_secs(minimum_age), ..POLICY };
        let candidates = candidates(&records, &current, &archives.collect(), now);
        let order: Vec<(Option<Timestamp>, Timestamp)> =
            candidates.iter().map(|image| (image.last_used, image.first_detected)).collect();
        prop_assert!(order.is_sorted(), "the least recently used first: {:?}", order);

        let sizes: Vec<u64> = candidates.iter().filter(|image| image.is_removable(&policy)).map(|image| image.size).collect();
        let (removed, done) = run(Shortage { wanted, available: u64::MAX }, candidates, &policy);
        for id in &removed {
            let image = &images[id.parse::<usize>().unwrap()];
            prop_assert!(!image.0 && !image.3 && !image.4, "{id} was in use, pinned or of an archive");
        }
        let freed: u64 = sizes.iter().take(removed.len()).sum();
        prop_assert_eq!(done.freed(), freed);
        if let Some((last, _)) = removed.len().checked_sub(1).map(|at| (sizes[at], at)) {
            prop_assert!(freed - last < wanted, "the last one was not needed");
        }
        prop_assert!(done.is_reached() || removed.len() == sizes.len(), "stopped too early");
        prop_assert_eq!(done.is_reached(), freed >= wanted);
    }
}
