//! What users of other kubelets report of the collection of images. Each test names the issues that it is about.

use super::*;

fn removed(bench: &Bench) -> Vec<String> {
    bench.runtime.calls_of(Operation::RemoveImage).into_iter().map(|call| call.target).collect()
}

/// kubernetes/kubernetes#123631, #18140 (the image of a pod that was admitted during a pass was removed).
#[tokio::test(start_paused = true)]
async fn an_image_that_a_pod_needs_since_the_look_stays() {
    let mut bench = Bench::new();
    let mut ids = ["a", "b"].map(|name| (bench.image(&format!("r.example/{name}:1"), 1), name));
    ids.sort();
    let [(first, _), (_, second)] = ids;
    bench.disk.lock().0 = 90 * GIB;
    // The first removal takes its time.
    bench.runtime.faults().add(Rule::new(Operation::RemoveImage, Fault::Delay(MINUTE)).times(1));
    bench.start(ImageGcPolicy { minimum_age: Duration::ZERO, ..POLICY });
    bench.after(MINUTE / 2).await;
    assert_eq!(removed(&bench), [first.as_str()]);
    bench.names("n", &[&format!("r.example/{second}:1")]);
    bench.after(10 * MINUTE).await;
    assert_eq!((removed(&bench).len(), bench.present()), (1, vec![format!("{second}:1")]));
}

/// bottlerocket-os/bottlerocket#3350 (the disk of the system was looked at, not that of the images).
#[tokio::test(start_paused = true)]
async fn the_disk_that_counts_is_the_one_that_the_runtime_names() {
    for (place, stays) in [(IMAGES, false), ("/", true)] {
        let mut bench = Bench::new();
        bench.runtime.set_image_place(place);
        bench.image("r.example/old:1", 1);
        bench.disk.lock().0 = 90 * GIB;
        bench.start(ImageGcPolicy { minimum_age: Duration::ZERO, ..POLICY });
        bench.after(MINUTE).await;
        assert_eq!(!bench.present().is_empty(), stays, "{place}");
    }
}

/// kubernetes/kubernetes#81756, #103494, #106037, #111796, canonical/microk8s#2085, rancher/rke2#1830 (the image of sandboxes), k3s-io/k3s#1552,
/// #7569, #8781, #10209 (images of archives): on a host without a registry no pod starts again.
#[tokio::test(start_paused = true)]
async fn what_a_host_without_a_registry_needs_stays_however_full_its_disk_is() {
    let mut bench = Bench::new();
    for name in ["r.example/old:1", "docker.io/rancher/pause:3.5", "r.example/archive:1"] {
        bench.image(name, 1);
    }
    bench.runtime.set_sandbox_image("index.docker.io/rancher/pause:3.5");
    bench.archives.send_replace(Some(["r.example/archive:1".to_owned()].into()));
    bench.disk.lock().0 = 97 * GIB;
    bench.start(ImageGcPolicy { minimum_age: Duration::ZERO, ..POLICY });
    bench.after(MINUTE).await;
    // An eviction asks for all that is unused.
    bench.gc.delete_unused().await.unwrap();
    bench.after(10 * MINUTE).await;
    assert_eq!(bench.present(), ["docker.io/rancher/pause:3.5", "archive:1"]);
}

/// kubernetes/kubernetes#57006, #27169 (images in use were tried again and again), #92925 (every unused image was removed although the low
/// threshold had been reached).
#[tokio::test(start_paused = true)]
async fn no_image_in_use_is_tried_and_the_low_threshold_ends_a_pass() {
    let mut bench = Bench::new();
    for name in ["used", "a", "b", "c"] {
        bench.image(&format!("r.example/{name}:1"), 4);
    }
    let used = bench.container("p", "r.example/used:1", Bench::labels("p"), None).await;
    // 86 % are used: 6 GiB have to go.
    bench.disk.lock().0 = 70 * GIB;
    bench.start(ImageGcPolicy { minimum_age: Duration::ZERO, ..POLICY });
    bench.after(MINUTE).await;
    assert_eq!((removed(&bench).len(), bench.present().len()), (2, 2), "{used}");
    bench.after(60 * MINUTE).await;
    assert_eq!((removed(&bench).len(), bench.reasons()), (2, Vec::<String>::new()));
    assert!(bench.present().contains(&"used:1".to_owned()));
}
