//! The user's view of pods: tables, objects, exit codes, watches.

use std::fs::{self, File};
use std::process::Stdio;

use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Look, wait_for};
use serde_json::json;

use crate::support::{
    SOON, is_ready, manifest, manifest_with, only_container, statuses, stderr, stdout, table, uid,
    wait_until_gone, wait_until_ready, write_pods,
};

#[tokio::test]
async fn a_running_pod_is_shown_in_every_form() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("web.json", &manifest("web", &["one", "two"])).unwrap();
    let pod = daemon.wait_for_pod("web", SOON, is_ready).await.unwrap();

    let name = format!("web-{}", host.node());
    let sandbox = host.runtime().wire_sandboxes().remove(0);
    let ip = host.runtime().wire_sandbox_status(&sandbox.id.into()).unwrap().network.unwrap().ip;
    let status = pod.status.as_ref().unwrap();
    assert_eq!(pod.metadata.name.as_deref(), Some(name.as_str()));
    assert_eq!(pod.metadata.uid, Some(uid("web")));
    assert_eq!(status.pod_ip, Some(ip.clone()));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    assert!(status.host_ip.is_some());
    let conditions = status.conditions.as_deref().unwrap();
    assert!(conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"), "{conditions:?}");
    assert_eq!(statuses(&pod).iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert!(statuses(&pod).iter().all(|s| s.restart_count == 0 && s.container_id.is_some()));

    let output = daemon.command(&["pods"]).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let text = stdout(&output);
    assert!(!text.contains('\u{1b}'), "colours are for terminals: {text}");
    let rows = table(&text);
    assert_eq!(rows.len(), 1, "{text}");
    let cell = |column: &str| rows[0][column].as_str();
    assert_eq!((cell("NAMESPACE"), cell("NAME")), ("default", name.as_str()));
    assert_eq!((cell("READY"), cell("STATUS"), cell("RESTARTS")), ("2/2", "Running", "0"));
    assert_eq!((cell("IP"), cell("QOS")), (ip.as_str(), "BestEffort"));
    assert!(cell("AGE").ends_with('s') || cell("AGE").ends_with('m'), "{text}");

    let wide = table(&daemon.cli(&["pods", "-o", "wide"]).unwrap());
    assert_eq!((wide[0]["UID"].as_str(), wide[0]["MESSAGE"].as_str()), (uid("web").as_str(), ""));
    let yaml = daemon.cli(&["pods", "-o", "yaml"]).unwrap();
    assert!(yaml.contains("kind: PodList") && yaml.contains("podIP: ") && yaml.contains(&ip), "{yaml}");
}

#[tokio::test]
async fn exit_codes_are_for_scripts() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let full_name = format!("web-{}", host.node());
    let code = |args: &[&str]| daemon.command(args).output().unwrap().status.code();
    assert_eq!(code(&["pods", "web"]), Some(0));
    assert_eq!(code(&["pods", &full_name, "-o", "json"]), Some(0));
    assert_eq!(code(&["pods", "nosuch"]), Some(1));
    assert_eq!(code(&["pods", "-o", "nosuch"]), Some(64));
    assert_eq!(code(&["pods", "--nosuch"]), Some(64));

    let mut afterwards = daemon.command(&["pods"]);
    assert!(daemon.stop().await.unwrap().success());
    let output = afterwards.output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(stderr(&output).contains(&*host.socket().to_string_lossy()), "{output:?}");
    assert!(!host.socket().exists(), "a daemon that ended takes its socket along");
}

#[tokio::test]
async fn watch_prints_a_pod_on_each_change() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let printed = host.directory().join("watch.txt");
    let mut watch = daemon
        .command(&["pods", "--watch"])
        .stdin(Stdio::null())
        .stdout(File::create(&printed).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let wait_for_line = async |status: &str| {
        wait_for(&format!("{status} in the watch"), SOON, async || {
            let text = fs::read_to_string(&printed)?;
            let is_there = table(&text).iter().any(|row| row["STATUS"] == status);
            Ok(if is_there { Look::Done(text) } else { Look::NotYet(text) })
        })
        .await
        .unwrap()
    };
    // Never restarted, so that it terminates only once.
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]});
    host.write_manifest("job.json", &manifest_with("job", spec)).unwrap();
    wait_for_line("Running").await;
    host.runtime().exit_container(&only_container(&host, "job").unwrap().into(), 0);
    let text = wait_for_line("Completed").await;

    assert_eq!(text.matches("NAMESPACE").count(), 1, "the heading comes once: {text}");
    let rows = table(&text);
    let column = |name: &str| rows.iter().map(|row| row[name].as_str()).collect::<Vec<_>>();
    let running = column("STATUS").iter().position(|status| *status == "Running").unwrap();
    assert_eq!(column("READY")[running], "1/1", "{text}");
    assert_eq!(column("STATUS").last(), Some(&"Completed"), "{text}");
    assert!(rows.windows(2).all(|pair| pair[0] != pair[1]), "a line that says nothing new: {text}");

    daemon.stop().await.unwrap();
    let ended = wait_for("the watch ends with the daemon", SOON, async || {
        Ok(watch.try_wait()?.map_or_else(|| Look::NotYet("it runs".to_owned()), Look::Done))
    });
    assert!(ended.await.unwrap().success());
}

#[tokio::test]
async fn log_links_are_created_and_removed_with_their_containers() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("web.json", &manifest("web", &["one", "two"])).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let directory = host.logs().join(format!("default_web-{}_{}", host.node(), uid("web")));
    // A link is created after its container was started.
    let both = wait_for("a link for each container", SOON, async || {
        let mut targets: Vec<_> =
            host.log_links().iter().map(fs::read_link).collect::<std::io::Result<_>>()?;
        targets.sort();
        let wanted = [directory.join("one/0.log"), directory.join("two/0.log")];
        Ok(if targets == wanted { Look::Done(()) } else { Look::NotYet(format!("{targets:?}")) })
    });
    both.await.unwrap();

    host.remove_manifest("web.json").unwrap();
    wait_until_gone(&host, "web").await.unwrap();
    let gone = wait_for("no links, no log directory and no pod", SOON, async || {
        let (links, pods) = (host.log_links(), daemon.pods()?.len());
        let is_clean = links.is_empty() && pods == 0 && !directory.exists();
        Ok(if is_clean { Look::Done(()) } else { Look::NotYet(format!("{links:?}, {pods} pods")) })
    });
    gone.await.unwrap();
}
