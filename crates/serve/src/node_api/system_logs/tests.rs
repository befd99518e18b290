//! The endpoint on a directory of logs, with a program in place of journalctl.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use axum::body::{Body, to_bytes};
use http::Request;
use tempfile::TempDir;
use tower::ServiceExt;

use super::*;

struct Host {
    root: TempDir,
    logs: SystemLogs,
}

impl Host {
    fn new(has_query: bool) -> Self {
        let root = TempDir::new().unwrap();
        let dir = root.path().join("log");
        fs::create_dir_all(dir.join("app")).unwrap();
        fs::write(dir.join("syslog"), "one\ntwo\n").unwrap();
        fs::write(dir.join("a <b>"), [0, 1, 2]).unwrap();
        fs::write(dir.join("app/app.log"), "app\n").unwrap();
        fs::write(dir.join("tool.log"), "tool\n").unwrap();
        fs::write(root.path().join("secret"), "secret").unwrap();
        symlink("../secret", dir.join("escape")).unwrap();
        symlink(dir.join("app"), dir.join("absolute")).unwrap();
        let journalctl = root.path().join("journalctl");
        let script = "#!/bin/sh\nif [ \"$1\" = --field ]; then echo kubelet.service; exit; fi\necho \"$@\"\necho warning >&2\n";
        fs::write(&journalctl, script).unwrap();
        fs::set_permissions(&journalctl, fs::Permissions::from_mode(0o755)).unwrap();
        Self { root, logs: SystemLogs { is_enabled: true, has_query, dir, journalctl } }
    }

    async fn ask(&self, path: &str) -> (u16, String, String) {
        ask(self.logs.clone(), "GET", path).await
    }
}

/// The status, the location or content type, and the body.
async fn ask(logs: SystemLogs, method: &str, path: &str) -> (u16, String, String) {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let answer = logs.routes().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let header = answer.headers().get("location").or_else(|| answer.headers().get("content-type"));
    let header = header.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let body = to_bytes(answer.into_body(), 1 << 24).await.unwrap();
    (status, header, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn directories_are_listed_and_files_are_sent() {
    let host = Host::new(false);
    let (status, kind, html) = host.ask("/logs/").await;
    assert_eq!((status, kind.as_str()), (200, "text/html; charset=utf-8"));
    let expected = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n\
        <a href=\"a%20%3Cb%3E\">a &lt;b&gt;</a>\n<a href=\"absolute\">absolute</a>\n<a href=\"app/\">app/</a>\n\
        <a href=\"escape\">escape</a>\n<a href=\"syslog\">syslog</a>\n<a href=\"tool.log\">tool.log</a>\n</pre>\n";
    assert_eq!(html, expected);
    let plain = "text/plain; charset=utf-8".to_owned();
    assert_eq!(host.ask("/logs/syslog").await, (200, plain.clone(), "one\ntwo\n".to_owned()));
    assert_eq!(host.ask("/logs/absolute/app.log").await, (200, plain.clone(), "app\n".to_owned()));
    assert_eq!(host.ask("/logs/a%20%3Cb%3E").await.1, "application/octet-stream");
    assert_eq!(host.ask("/logs/app").await, (301, "app/".to_owned(), String::new()));
    assert_eq!(host.ask("/logs/syslog/").await.1, "../syslog");
    assert_eq!(host.ask("/logs/none").await, (404, plain, "404 page not found\n".to_owned()));
    let large = "0123456789abcdef".repeat(20_000);
    fs::write(host.logs.dir.join("large"), &large).unwrap();
    assert!(host.ask("/logs/large").await.2 == large);
}

#[tokio::test]
async fn a_part_of_a_file_is_sent_and_nothing_that_the_client_has() {
    let host = Host::new(false);
    let send = async |name: &str, value: &str| {
        let request = Request::builder().uri("/logs/syslog").header(name, value);
        let request = request.body(Body::empty()).unwrap();
        let answer = host.logs.clone().routes().oneshot(request).await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = to_bytes(answer.into_body(), 1 << 24).await.unwrap();
        (status, headers, String::from_utf8(body.to_vec()).unwrap())
    };
    let (status, headers, text) = send("range", "bytes=-4").await;
    assert_eq!((status, text.as_str()), (206, "two\n"));
    assert_eq!(headers["content-range"], "bytes 4-7/8");
    assert_eq!(headers["content-length"], "4");
    assert_eq!(headers["accept-ranges"], "bytes");
    let modified = headers["last-modified"].to_str().unwrap();
    let (status, _, text) = send("if-modified-since", modified).await;
    assert_eq!((status, text.as_str()), (304, ""));
    let (status, _, text) = send("if-modified-since", "Sun, 09 Sep 2001 01:46:40 GMT").await;
    assert_eq!((status, text.as_str()), (200, "one\ntwo\n"));
    let (status, headers, _) = send("range", "bytes=8-").await;
    assert_eq!(status, 416);
    assert_eq!(headers["content-range"], "bytes */8");
}

#[tokio::test]
async fn nothing_outside_is_read() {
    for has_query in [false, true] {
        let host = Host::new(has_query);
        let absolute = host.root.path().join("secret").display().to_string().replace('/', "%2F");
        for path in [
            "escape",
            "..%2Fsecret",
            "%2e%2e/secret",
            "app/..%2F..%2Fsecret",
            &absolute,
            "app%2F..%2F..%2Fsecret",
        ] {
            let (status, _, text) = host.ask(&format!("/logs/{path}")).await;
            assert!(status >= 400 && !text.contains("secret"), "{path}: {status} {text}");
        }
        let file = host.root.path().join("log/pipe");
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(host.ask("/logs/pipe").await.0, 500, "a pipe does not hold up the answer");
    }
    let host = Host::new(true);
    for query in ["/../secret", "..%2Fsecret", "/escape"] {
        let (status, _, text) = host.ask(&format!("/logs/?query={query}")).await;
        assert!(status >= 400 && !text.starts_with("secret"), "{query}: {status} {text}");
    }
}

#[tokio::test]
async fn services_are_read_from_the_journal_or_from_their_files() {
    let host = Host::new(true);
    let (status, kind, text) = host.ask("/logs/?query=kubelet&tailLines=2&pattern=x").await;
    assert_eq!((status, kind.as_str()), (200, "text/plain;charset=UTF-8"));
    let printed =
        "--utc --no-pager --output=short-precise --pager-end --lines=2 --unit=kubelet --grep=x\nwarning\n";
    assert_eq!(text, printed);
    assert_eq!(host.ask("/logs/?query=app").await.2, "app\n");
    assert_eq!(host.ask("/logs/?query=tool&query=other").await.2, "tool\n\nlog not found for other\n");
    let text = host.ask("/logs/?query=tool&boot=0").await.2;
    assert!(text.starts_with("\noptions present and query resolved to log files for [tool]\n"), "{text}");
    assert_eq!(host.ask("/logs/?query=/syslog").await.2, "one\ntwo\n");
    let (status, _, text) = host.ask("/logs/?query=/none").await;
    assert!(status == 406 && text.starts_with("query: Invalid value: [\"/none\"]: "), "{text}");
    assert_eq!(host.ask("/logs/?query=a%20b").await.0, 406);
    assert_eq!(host.ask("/logs/?boot=x").await.0, 400);
    let (status, _, text) = host.ask("/logs/syslog?query=kubelet").await;
    assert_eq!((status, text.as_str()), (406, "path not allowed in query mode\n"));
    let missing = SystemLogs { journalctl: Path::new("/none").to_owned(), ..host.logs.clone() };
    assert_eq!(ask(missing, "GET", "/logs/?query=kubelet").await.2, "\nlog not found for kubelet\n");
}

#[tokio::test]
async fn queries_need_their_field_and_the_endpoint_its_own() {
    let host = Host::new(false);
    assert!(host.ask("/logs/?query=kubelet").await.2.starts_with("<!doctype html>"));
    assert_eq!(ask(host.logs.clone(), "POST", "/logs/syslog").await.0, 405);
    let disabled = SystemLogs { is_enabled: false, ..host.logs.clone() };
    let (status, _, text) = ask(disabled, "GET", "/logs/syslog").await;
    assert_eq!((status, text.as_str()), (405, "logs endpoint is disabled.\n"));
}
