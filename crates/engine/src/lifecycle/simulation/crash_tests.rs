//! A pod is added, edited and removed while the daemon is killed at an await of its workers: the first one, the second one, and so
//! on. The result is always the same, and no container is started twice.

use std::sync::Arc;
use std::time::Duration;

use hostlet_runtime::cri::fake::{Script, What};
use k8s_openapi::api::core::v1::Pod;
use tokio::time::{Instant, sleep};

use super::super::testing::{Node, pod};
use super::fuse::{Fuse, Fused};

const SECOND: Duration = Duration::from_secs(1);

struct Scene {
    node: Node,
    fuse: Fuse,
}

impl Scene {
    /// Kills the daemon after this many polls of its workers.
    fn new(polls: usize) -> Self {
        let fuse = Fuse::default();
        let fused = fuse.clone();
        let node = Node::with(4, move |context| Arc::new(Fused { context, fuse: fused.clone() }));
        node.runtime.take_turns();
        node.runtime.script("slow", Script::forever());
        fuse.light(polls);
        Self { node, fuse }
    }

    /// Waits until `look` is true, replacing a killed daemon.
    async fn until(&mut self, what: &str, look: impl Fn(&Node) -> bool) {
        let deadline = Instant::now() + 300 * SECOND;
        while !look(&self.node) {
            assert!(Instant::now() < deadline, "never: {what}\n{}", self.node.picture());
            if self.fuse.is_blown() {
                self.node.stop().await;
                self.fuse.renew();
                self.node.boot();
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn runs(node: &Node, pod: &Pod, count: usize) -> bool {
    let uid = pod.metadata.uid.as_deref().unwrap();
    node.running(uid).len() == count && node.phase(uid).as_deref() == Some("Running")
}

/// Whether the daemon was killed before everything was done.
async fn ends_after(polls: usize) -> bool {
    let mut scene = Scene::new(polls);
    let (old, new) = (pod("web", "u1", &["a", "b"]), pod("web", "u2", &["a", "b"]));
    scene.node.want([old.clone()]);
    scene.until("it runs", |node| runs(node, &old, 2)).await;
    scene.node.want([new.clone()]);
    scene.until("the new one runs alone", |node| runs(node, &new, 2) && !node.has("u1")).await;
    scene.node.want([]);
    scene.until("nothing is left", |node| !node.has("u2") && node.directories().is_empty()).await;
    let started = scene.node.runtime.history_after(0).into_iter().filter(|h| h.what == What::Started);
    let mut started: Vec<(String, String)> = started.map(|h| (h.pod.to_string(), h.name)).collect();
    started.sort();
    let each_once = [("u1", "a"), ("u1", "b"), ("u2", "a"), ("u2", "b")];
    assert_eq!(started, each_once.map(|(uid, name)| (uid.to_owned(), name.to_owned())), "{polls} polls");
    // A daemon that was not killed has polls left.
    scene.fuse.was_lit_for_nothing()
}

#[tokio::test(start_paused = true)]
async fn killing_the_daemon_at_any_await_does_not_change_the_result() {
    let mut polls = 0;
    while !ends_after(polls).await {
        polls += 1;
        assert!(polls < 5000, "a pod's life has an end");
    }
    assert!(polls > 100, "{polls} awaits are not all of them");
}
