//! Broken manifests of many kinds and their explanations by `hostlet explain`, from the runtime's own messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, RealHost};
use hostlet_integration::{Look, wait_for};
use serde_json::{Value, json};

use crate::support::{IDLE, LATER};

/// A pod of one container: fields of the container, fields of the pod, the expected explanation and the expected remedy.
struct Broken {
    name: &'static str,
    container: Value,
    spec: Value,
    sentence: &'static str,
    remedy: &'static str,
}

fn broken(
    name: &'static str,
    container: Value,
    spec: Value,
    sentence: &'static str,
    remedy: &'static str,
) -> Broken {
    Broken { name, container, spec, sentence, remedy }
}

impl Broken {
    fn manifest(&self) -> String {
        let mut container = json!({"name": "c", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", IDLE]});
        merge(&mut container, &self.container);
        let mut spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container]});
        merge(&mut spec, &self.spec);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name}, "spec": spec}).to_string()
    }
}

fn merge(into: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

/// All pods run concurrently on one runtime and one daemon, and all mismatches are reported at once.
fn all_broken(dir: &str) -> Vec<Broken> {
    let v = json!([{"name": "v", "mountPath": "/v"}]);
    let at = |path: &str, kind: &str| json!({"volumes": [{"name": "v", "hostPath": {"path": path, "type": kind}}]});
    let here = at(dir, "");
    let none = json!({});
    let run = |script: &str| json!({"command": ["sh", "-c", script]});
    vec![
        broken(
            "not-there",
            json!({"command": ["/no/such"]}),
            none.clone(),
            "its program is not in its image",
            "absolute path",
        ),
        broken(
            "not-in-path",
            json!({"command": ["nope"]}),
            none.clone(),
            "its program is not in its image",
            "absolute path",
        ),
        broken(
            "not-executable",
            json!({"command": ["/v/text"], "volumeMounts": v}),
            here.clone(),
            "its program cannot be executed",
            "chmod +x",
        ),
        broken(
            "other-machine",
            json!({"command": ["/v/garbage"], "volumeMounts": v}),
            here.clone(),
            "its log ends with \"exec /v/garbage: exec format error\"",
            "uname -m",
        ),
        broken(
            "no-interpreter",
            json!({"command": ["/v/script"], "volumeMounts": v}),
            here.clone(),
            "its log ends with \"exec /v/script: no such file or directory\"",
            "first line of the script",
        ),
        broken(
            "work-dir",
            json!({"workingDir": "etc"}),
            none.clone(),
            "its workingDir is not an absolute path",
            "workingDir",
        ),
        broken(
            "file-on-dir",
            json!({"volumeMounts": [{"name": "v", "mountPath": "/bin"}]}),
            at(&format!("{dir}/text"), ""),
            "a directory is mounted onto a file, or a file onto a directory",
            "both a file or both a directory",
        ),
        broken(
            "in-read-only",
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true}, {"name": "e", "mountPath": "/v/sub"}]}),
            json!({"volumes": [{"name": "v", "hostPath": {"path": dir}}, {"name": "e", "emptyDir": {}}]}),
            "is inside a read-only volume",
            "without readOnly",
        ),
        broken(
            "no-directory",
            json!({"volumeMounts": v}),
            at(&format!("{dir}/nothing"), "Directory"),
            "requires a directory that does not exist on this host",
            "DirectoryOrCreate",
        ),
        broken(
            "no-seccomp",
            none.clone(),
            json!({"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "nothing.json"}}}),
            "its seccomp profile is not on this host",
            "RuntimeDefault",
        ),
        broken(
            "root",
            none.clone(),
            json!({"securityContext": {"runAsNonRoot": true}}),
            "runAsNonRoot forbids root, but its image runs as root",
            "runAsUser",
        ),
        broken(
            "small",
            json!({"resources": {"limits": {"memory": "1Mi"}}}),
            none.clone(),
            "the pod's memory limit is too low",
            "limits.memory",
        ),
        broken(
            "sysctl",
            none.clone(),
            json!({"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "abc"}]}}),
            "the kernel rejects one of the pod's sysctls",
            "securityContext.sysctls",
        ),
        broken(
            "oom",
            json!({"command": ["tail", "/dev/zero"], "resources": {"limits": {"memory": "16Mi"}}}),
            none.clone(),
            "used more memory than its limit",
            "limits.memory",
        ),
        broken(
            "code",
            run("echo no such table; exit 3"),
            none.clone(),
            "its log ends with \"no such table\"",
            "--previous",
        ),
        broken("missing", run("nosuchprogram"), none.clone(), "ended with exit code 127", "command and args"),
        broken(
            "port",
            json!({"command": ["sh", "-c", "httpd -p 18099; exec httpd -f -p 18099"]}),
            json!({"hostNetwork": true}),
            "Address already in use",
            "ss -ltnp",
        ),
        broken(
            "never",
            json!({"image": "hostlet.local/nope:1", "imagePullPolicy": "Never"}),
            none.clone(),
            "imagePullPolicy Never forbids pulling it",
            "put an archive with the image",
        ),
        broken(
            "refused",
            json!({"image": "127.0.0.1:1/x:1"}),
            none.clone(),
            "because nothing listens at its registry's address",
            "put an archive with the image",
        ),
        broken("bad-name", json!({"image": "UPPER/Case:1"}), none.clone(), "is invalid", "lower case"),
        broken(
            "gated",
            none,
            json!({"schedulingGates": [{"name": "example.com/wait"}]}),
            "spec.schedulingGates: Not supported by hostlet yet",
            "remove these fields",
        ),
    ]
}

fn explain(daemon: &Daemon, pod: &str) -> Result<String> {
    let output = daemon.command(&["explain", pod]).output()?;
    Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

#[tokio::test]
async fn every_broken_manifest_is_explained_with_a_remedy() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let dir = host.directory("broken").unwrap();
    for (name, text, mode) in
        [("text", "#!/bin/sh\n", 0o644), ("garbage", "garbage\n", 0o755), ("script", "#!/bin/nosh\n", 0o755)]
    {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let all = all_broken(dir.to_str().unwrap());
    for broken in &all {
        host.write_manifest(&format!("{}.json", broken.name), &broken.manifest()).unwrap();
    }
    for broken in &all {
        let what = format!("the explanation of {}", broken.name);
        let explained = wait_for(&what, LATER, async || {
            let text = explain(&daemon, broken.name)?;
            let has = |part: &str| text.contains(part);
            Ok(if has(broken.sentence) && has(broken.remedy) { Look::Done(text) } else { Look::NotYet(text) })
        });
        println!("{}", explained.await.unwrap());
    }
}

#[tokio::test]
async fn a_problem_of_the_node_is_explained_for_each_pod() {
    let mut host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let idle = broken("idle", json!({}), json!({}), "", "");
    // Without the runtime a first start would not begin, so the manifest would not be read.
    let begun = wait_for("the manifests are read", LATER, async || {
        let text = explain(&daemon, "idle")?;
        Ok(if text.contains("There is no pod idle") { Look::Done(()) } else { Look::NotYet(text) })
    });
    begun.await.unwrap();
    host.kill_containerd().unwrap();
    host.write_manifest("idle.json", &idle.manifest()).unwrap();
    for wanted in
        ["hostlet cannot act on the pod", "the container runtime does not answer at", "systemctl start"]
    {
        let explained = wait_for(wanted, LATER, async || {
            let text = explain(&daemon, "idle")?;
            Ok(if text.contains(wanted) { Look::Done(text) } else { Look::NotYet(text) })
        });
        explained.await.unwrap();
    }
    host.launch_containerd().unwrap();
    let fine = wait_for("the pod runs", LATER, async || {
        let text = explain(&daemon, "idle")?;
        Ok(if text.contains("The pod runs") { Look::Done(()) } else { Look::NotYet(text) })
    });
    fine.await.unwrap();
}
