//! Compresses answers for clients that take gzip, as Prometheus' own library does with metrics: piece by piece, because those of a full node
//! are megabytes.

use std::io::{self, Write};
use std::mem;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt, stream};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, StatusCode};

/// Answers a request, compressed if its client takes that.
pub(super) async fn compress(request: Request, next: Next) -> Response {
    let is_accepted = accepts_gzip(request.headers());
    let response = next.run(request).await;
    if !is_accepted || response.status() != StatusCode::OK {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(head, compressed(body))
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|weight| weight > 0.0)
    })
}

fn compressed(body: Body) -> Body {
    // On a small host, a scrape must cost little: the text has so many repetitions that the fastest level is enough.
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let state = Some((body.into_data_stream(), encoder));
    Body::from_stream(stream::try_unfold(state, |state| async move {
        let Some((mut pieces, mut encoder)) = state else { return Ok(None) };
        while let Some(piece) = pieces.next().await {
            encoder.write_all(&piece.map_err(io::Error::other)?)?;
            let ready = mem::take(encoder.get_mut());
            if !ready.is_empty() {
                return Ok::<_, io::Error>(Some((Bytes::from(ready), Some((pieces, encoder)))));
            }
        }
        Ok(Some((Bytes::from(encoder.finish()?), None)))
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::Router;
    use axum::body::to_bytes;
    use axum::middleware::from_fn;
    use axum::routing::any;
    use flate2::read::GzDecoder;
    use tower::ServiceExt;

    use super::*;

    /// The answer of a router whose answer has many pieces.
    async fn answer(accepted: Option<&'static str>, status: StatusCode) -> Response {
        let pieces = move || async move {
            let pieces = stream::iter(0..1000).map(|n| Ok::<_, io::Error>(format!("metric_{n} {n}\n")));
            (status, Body::from_stream(pieces))
        };
        let router = Router::new().route("/metrics", any(pieces)).layer(from_fn(compress));
        let mut request = http::Request::get("/metrics").body(Body::empty()).unwrap();
        if let Some(accepted) = accepted {
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        }
        router.oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn an_answer_is_compressed_if_the_client_takes_it() {
        let expected: String = (0..1000).map(|n| format!("metric_{n} {n}\n")).collect();
        for accepted in ["gzip", "deflate, GZIP;q=0.5", "br,gzip"] {
            let answer = answer(Some(accepted), StatusCode::OK).await;
            assert_eq!(answer.headers()[CONTENT_ENCODING], "gzip");
            let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
            assert!(body.len() < expected.len() / 2, "{}", body.len());
            let mut text = String::new();
            GzDecoder::new(&*body).read_to_string(&mut text).unwrap();
            assert!(text == expected, "{accepted}");
        }
    }

    #[tokio::test]
    async fn every_other_answer_is_as_it_was() {
        for (accepted, status) in [
            (None, StatusCode::OK),
            (Some("gzip;q=0, identity"), StatusCode::OK),
            (Some("gzip"), StatusCode::INTERNAL_SERVER_ERROR),
        ] {
            let answer = answer(accepted, status).await;
            assert!(!answer.headers().contains_key(CONTENT_ENCODING));
            assert!(to_bytes(answer.into_body(), 1 << 20).await.unwrap().starts_with(b"metric_0 0\n"));
        }
    }
}
