//! Puts a response's `Retry-After` where callers see it: kube passes on only a Status, and a server that is overloaded answers with a
//! line of text. Decides nothing.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Either, Full};
use serde_json::{Value, json};

/// A response: the server's, or one with a Status made of it.
pub(super) type Answer<B> = Response<Either<B, Full<Bytes>>>;

/// A response whose Status has the `Retry-After` of its header. As with client-go, that counts in a 429 and in any 5xx.
pub(super) async fn with_retry_after<B: Body<Data = Bytes>>(
    response: Response<B>,
) -> Result<Answer<B>, B::Error> {
    let Some(seconds) = seconds(response.status(), response.headers()) else {
        return Ok(response.map(Either::Left));
    };
    let (mut head, body) = response.into_parts();
    let status = status(head.status, &body.collect().await?.to_bytes(), seconds);
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(Response::from_parts(head, Either::Right(Full::from(status))))
}

fn seconds(code: StatusCode, headers: &HeaderMap) -> Option<u32> {
    let counts = code == StatusCode::TOO_MANY_REQUESTS || code.is_server_error();
    let value = headers.get(RETRY_AFTER).filter(|_| counts)?;
    // A date, which HTTP permits too, is not sent by API servers.
    value.to_str().ok()?.trim().parse().ok()
}

/// The Status in `body`, or one with `body` as its message, with this pause unless it has one.
fn status(code: StatusCode, body: &Bytes, seconds: u32) -> Vec<u8> {
    let parsed = serde_json::from_slice::<Value>(body).ok().filter(|status| status["kind"] == "Status");
    let mut status = parsed.unwrap_or_else(|| {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code.as_u16(),
            "reason": code.canonical_reason().unwrap_or_default().replace(' ', ""),
            "message": String::from_utf8_lossy(body).trim(),
        })
    });
    if !status["details"].is_object() {
        status["details"] = json!({});
    }
    if status["details"]["retryAfterSeconds"].as_u64().is_none_or(|known| known == 0) {
        status["details"]["retryAfterSeconds"] = seconds.into();
    }
    status.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(code: u16, retry_after: Option<&str>, body: &str) -> Value {
        let mut response = Response::builder().status(code);
        if let Some(value) = retry_after {
            response = response.header(RETRY_AFTER, value);
        }
        let response = response.body(Full::from(body.to_owned())).unwrap();
        let answer = with_retry_after(response).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into())
    }

    #[tokio::test]
    async fn a_line_of_text_becomes_a_status_with_the_pause() {
        let status = answered(429, Some("7"), "Too many requests, please try again later.\n").await;
        assert_eq!(status["details"]["retryAfterSeconds"], 7);
        assert_eq!(status["message"], "Too many requests, please try again later.");
        assert_eq!(
            (status["code"].as_u64(), status["reason"].as_str()),
            (Some(429), Some("TooManyRequests"))
        );
    }

    #[tokio::test]
    async fn a_status_keeps_its_own_pause_and_gets_the_missing_one() {
        let own = json!({"kind": "Status", "code": 503, "details": {"retryAfterSeconds": 3, "name": "a"}});
        assert_eq!(answered(503, Some("7"), &own.to_string()).await, own);
        let status = answered(503, Some("7"), r#"{"kind": "Status", "message": "starting"}"#).await;
        assert_eq!(status["details"]["retryAfterSeconds"], 7);
        assert_eq!(status["message"], "starting");
    }

    #[tokio::test]
    async fn other_responses_pass_unchanged() {
        for (code, value) in
            [(200, Some("7")), (404, Some("7")), (503, None), (503, Some("Wed, 21 Oct 2026 07:28:00 GMT"))]
        {
            assert_eq!(answered(code, value, "text").await, "text", "{code} {value:?}");
        }
    }
}
