//! Fetching from a server on a socket.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const LIMIT: usize = 1 << 20;

/// Answers one request after the other, each on its own connection. Returns the requests.
async fn serve(listener: &TcpListener, answers: &[&str]) -> Vec<String> {
    let mut heard = Vec::new();
    for answer in answers {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        heard.push(String::from_utf8_lossy(&request[..length]).to_lowercase());
        stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await.unwrap();
    }
    heard
}

fn fetcher(url: &str, headers: &[(&'static str, &'static str)]) -> Fetcher {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    let headers = headers.iter().map(pair).collect();
    Fetcher::new(url.parse().unwrap(), headers, HeaderValue::from_static("test"), ProxyEnvironment::default())
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[tokio::test]
async fn a_document_is_fetched_with_headers_and_credentials() {
    let (listener, address) = listen().await;
    let mut fetcher = fetcher(&format!("http://us%40er:pw@{address}/pods?all"), &[("x-token", "T")]);
    let answers = ["200 OK\r\ncontent-length: 3\r\n\r\nabc"];
    let (got, heard) = tokio::join!(fetcher.get(LIMIT), serve(&listener, &answers));
    assert_eq!(got.unwrap(), "abc");
    assert!(heard[0].starts_with("get /pods?all http/1.1"), "{}", heard[0]);
    let expected =
        ["x-token: t", "user-agent: test", &format!("host: {address}"), "authorization: basic dxnazxi6chc="];
    assert!(expected.iter().all(|line| heard[0].contains(line)), "{}", heard[0]);
}

#[tokio::test]
async fn redirects_are_followed_and_take_no_credentials_elsewhere() {
    let (listener, address) = listen().await;
    let port = address.rsplit_once(':').unwrap().1;
    let mut fetcher = fetcher(&format!("http://u:p@{address}/a/b"), &[("x-token", "T")]);
    let elsewhere = format!("302 Found\r\nlocation: http://localhost:{port}/d\r\ncontent-length: 0\r\n\r\n");
    let answers = [
        "307 Temporary Redirect\r\nlocation: c\r\ncontent-length: 0\r\n\r\n",
        &elsewhere,
        "200 OK\r\ncontent-length: 2\r\n\r\nok",
    ];
    let (got, heard) = tokio::join!(fetcher.get(LIMIT), serve(&listener, &answers));
    assert_eq!(got.unwrap(), "ok");
    assert!(heard[1].starts_with("get /a/c ") && heard[1].contains("authorization:"), "{}", heard[1]);
    assert!(heard[2].starts_with("get /d ") && !heard[2].contains("authorization:"), "{}", heard[2]);
    assert!(heard[2].contains("x-token"), "{}", heard[2]);
}

#[tokio::test]
async fn failures_say_what_happened() {
    let (listener, address) = listen().await;
    let mut fetcher = fetcher(&format!("http://{address}/"), &[]);
    let endless = vec!["302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"; MAX_REQUESTS];
    for (answers, expected) in [
        (vec!["503 Busy\r\ncontent-length: 0\r\n\r\n"], "the server answered 503 Service Unavailable"),
        (vec!["200 OK\r\ncontent-length: 3000000\r\n\r\n"], "the answer is incomplete"),
        (vec!["302 Found\r\nlocation: ftp://a\r\ncontent-length: 0\r\n\r\n"], "redirects to something"),
        (vec!["302 Found\r\ncontent-length: 0\r\n\r\n"], "the server answered 302 Found"),
        (endless, "redirects after 10 requests"),
    ] {
        let (got, _) = tokio::join!(fetcher.get(LIMIT), serve(&listener, &answers));
        let error = got.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    let large = format!("200 OK\r\ncontent-length: 20\r\n\r\n{}", "x".repeat(20));
    let answers = [large.as_str()];
    let (got, _) = tokio::join!(fetcher.get(10), serve(&listener, &answers));
    assert!(matches!(got, Err(FetchError::TooLarge(10))));
    drop(listener);
    assert!(matches!(fetcher.get(LIMIT).await, Err(FetchError::Request(_))));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up() {
    let (listener, address) = listen().await;
    let mut fetcher = fetcher(&format!("http://{address}/"), &[]);
    assert!(matches!(fetcher.get(LIMIT).await, Err(FetchError::Timeout)));
    drop(listener);
}

#[test]
fn a_redirect_is_resolved() {
    let resolved = |location: &str| {
        resolve(&"http://h:1/a/b?q".parse().unwrap(), location).map(|url| url.to_string()).unwrap_or_default()
    };
    for (location, url) in [
        ("https://o/x#f", "https://o/x"),
        ("//o/x", "http://o/x"),
        ("/x?y", "http://h:1/x?y"),
        ("../x", "http://h:1/x"),
        ("?y", "http://h:1/a/b?y"),
        ("mailto://a", ""),
    ] {
        assert_eq!(resolved(location), url, "{location}");
    }
    let within = |other: &str| is_within(&"http://Example.com".parse().unwrap(), &other.parse().unwrap());
    assert!(
        within("https://example.com:8/")
            && within("http://a.example.com")
            && !within("http://badexample.com")
    );
}
