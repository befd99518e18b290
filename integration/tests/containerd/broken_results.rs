//! A runtime killed while it writes a network's result leaves an invalid file, which blocks the network's teardown until it is
//! removed. Newer runtimes (2.4) handle that themselves.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::Path;

use hostlet_integration::real::RealHost;

use crate::support::{IDLE, manifest, wait_until_empty, wait_until_no_strays, wait_until_ready};

#[tokio::test]
async fn a_pod_with_a_broken_network_result_terminates() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("web.json", &manifest("web", &[("c", IDLE)])).unwrap();
    wait_until_ready(&daemon, "web").await.unwrap();
    let sandboxes = host.cri().sandboxes().await.unwrap();
    let [sandbox] = &sandboxes[..] else { panic!("{sandboxes:?}") };
    let results = fs::read_dir(Path::new("/var/lib/cni/results")).unwrap().map(|entry| entry.unwrap().path());
    let of_pod: Vec<_> = results.filter(|path| path.to_string_lossy().contains(&sandbox.id)).collect();
    assert!(!of_pod.is_empty());
    for result in &of_pod {
        File::create(result).unwrap();
    }

    host.remove_manifest("web.json").unwrap();
    wait_until_empty(&host).await.unwrap();
    wait_until_no_strays(&host, &HashSet::new()).await.unwrap();
}
