//! Serves requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceBuilder;

use super::certificates::issue_at_once;
use super::faults::{ApiFault, due};
use super::objects::{RejectedRequest, kind_of};
use super::path::{Selector, Target, parameters};
use super::server::{FakeApi, Recorded, ResponseBody, State};
use super::watch::{WatchBegin, WatchFault, Watching, initial_events};
use crate::api::connect::{describe_timeout, response_timeout};

/// A broken connection.
fn reset() -> std::io::Error {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset)
}

impl FakeApi {
    /// A client of this server with the usual timeout.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.map_err(|_| reset())?;
                api.answer(Request::from_parts(head, body)).await
            }
        });
        let service =
            ServiceBuilder::new().map_err(describe_timeout).layer(response_timeout()).service(service);
        Client::new(service, "default")
    }

    /// Serves a request; an error breaks the connection.
    pub async fn answer(&self, request: Request<Bytes>) -> Result<Response<ResponseBody>, std::io::Error> {
        let path = request.uri().path().to_owned();
        let query = parameters(request.uri().query());
        let is_watch = query.get("watch").is_some_and(|value| value == "true" || value == "1");
        let method = if is_watch { "WATCH".to_owned() } else { request.method().to_string() };
        let mut body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let (fault, number) = {
            let mut state = self.lock();
            let fault = due(&mut state.rules, &method, &path);
            let (at, body) = (Instant::now(), body.clone());
            state.requests.push(Recorded { at, method: method.clone(), path: path.clone(), body, code: 0 });
            (fault, state.requests.len() - 1)
        };
        let mut watch_fault = WatchFault::None;
        let mut is_lost = false;
        match fault {
            None => {}
            Some(ApiFault::Reject { code, reason, retry_after }) => {
                self.lock().requests[number].code = code;
                return Ok(reject((code, reason, "rejected by the script".to_owned()), retry_after));
            }
            Some(ApiFault::Reset) => return Err(reset()),
            Some(ApiFault::Hang) => return std::future::pending().await,
            Some(ApiFault::Delay(time)) => tokio::time::sleep(time).await,
            Some(ApiFault::LostAnswer) => is_lost = true,
            Some(ApiFault::Strip(pointer)) => strip(&mut body, pointer),
            Some(ApiFault::CutWatch(after)) => watch_fault = WatchFault::Cut(after),
            Some(ApiFault::EndWatch(after)) => watch_fault = WatchFault::End(after),
            Some(ApiFault::HalfOpenWatch(after)) => watch_fault = WatchFault::HalfOpen(after),
        }
        // Yields, because on a network a response is never immediate.
        tokio::time::sleep(Duration::from_micros(100)).await;
        let discovered = super::discovery::answer(&self.lock(), &path);
        if let Some(discovered) = discovered {
            let answer = discovered.map_or_else(|rejected| reject(rejected, 0), |found| respond(200, &found));
            self.lock().requests[number].code = answer.status().as_u16();
            return Ok(answer);
        }
        let Some(target) = Target::of(&path) else {
            return Ok(reject((404, "NotFound", format!("no such path: {path}")), 0));
        };
        let selector = Selector::of(query.get("fieldSelector"), query.get("labelSelector"));
        if is_watch {
            let begin = match query.contains_key("sendInitialEvents") {
                true if self.lock().lists_only => {
                    self.lock().requests[number].code = 422;
                    return Ok(reject((422, "Invalid", "sendInitialEvents is forbidden".to_owned()), 0));
                }
                true => WatchBegin::Objects,
                false => {
                    WatchBegin::After(query.get("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or(0))
                }
            };
            self.lock().requests[number].code = 200;
            return Ok(self.watch(target, selector, begin, watch_fault));
        }
        let kind = request.headers().get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_dry_run = query.contains_key("dryRun");
        let result = if is_dry_run {
            self.lock().dry_run(&method, &target, body, self.clock.now())
        } else {
            let mut state = self.lock();
            self.perform(&mut state, &method, &target, &selector, kind.unwrap_or_default(), body)
        };
        self.wake();
        let answer = match result {
            Ok((code, object)) => respond(code, &object),
            Err(rejected) => reject(rejected, 0),
        };
        self.lock().requests[number].code = answer.status().as_u16();
        if is_lost { Err(reset()) } else { Ok(answer) }
    }

    fn perform(
        &self,
        state: &mut State,
        method: &str,
        target: &Target,
        selector: &Selector,
        kind: &str,
        body: Value,
    ) -> Result<(u16, Value), RejectedRequest> {
        let now = self.clock.now();
        match (method, &target.name, target.subresource.as_deref()) {
            ("GET", None, _) => {
                let (version, kind) = kind_of(&target.resource);
                let items: Vec<Value> =
                    state.objects.list(target).into_iter().filter(|o| selector.selects(o)).collect();
                let metadata = json!({"resourceVersion": state.objects.version.to_string()});
                Ok((
                    200,
                    json!({"apiVersion": version, "kind": format!("{kind}List"), "metadata": metadata, "items": items}),
                ))
            }
            ("GET", Some(_), _) => state.objects.get(target).map(|object| (200, object)),
            ("POST", Some(_), Some("token")) => {
                state.tokens += 1;
                let lifetime = body["spec"]["expirationSeconds"].as_u64().unwrap_or(3600);
                let expires = now.checked_add(Duration::from_secs(lifetime)).unwrap_or(now);
                let mut answer = body;
                let expires = expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                answer["status"] =
                    json!({"token": format!("token-{}", state.tokens), "expirationTimestamp": expires});
                Ok((201, answer))
            }
            ("POST", None, _) => {
                let created = state.objects.create(target, body, now)?;
                issue_at_once(state, target, &created, now)?;
                Ok((201, created))
            }
            ("PUT", Some(_), _) => state.objects.replace(target, body).map(|object| (200, object)),
            ("PATCH", Some(_), _) => state.objects.patch(target, kind, &body).map(|object| (200, object)),
            ("DELETE", Some(_), _) => state.objects.delete(target, &body, now).map(|object| (200, object)),
            _ => Err((405, "MethodNotAllowed", format!("the fake does not serve {method} here"))),
        }
    }

    fn watch(
        &self,
        target: Target,
        selector: Selector,
        begin: WatchBegin,
        fault: WatchFault,
    ) -> Response<ResponseBody> {
        let state = self.lock();
        let bookmarks = state.bookmarks;
        let (version, waiting) = match begin {
            WatchBegin::After(version) => (version, VecDeque::new()),
            WatchBegin::Objects => {
                let objects = state.objects.list(&target);
                let objects = objects.into_iter().filter(|object| selector.selects(object)).collect();
                (state.objects.version, initial_events(&target, objects, state.objects.version))
            }
        };
        drop(state);
        let mut changed = self.changed.subscribe();
        changed.mark_changed();
        let watching = Watching {
            api: self.clone(),
            target,
            selector,
            version,
            fault,
            changed,
            waiting,
            sent: 0,
            bookmarks,
        };
        let lines = futures::StreamExt::map(watching.lines(), |line| line.map(http_body::Frame::data));
        let mut response = Response::new(StreamBody::new(lines).boxed_unsync());
        response
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        response
    }
}

fn strip(body: &mut Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    if let Some(fields) = body.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.remove(field);
    }
}

fn respond(code: u16, object: &Value) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(object.to_string())).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn reject((code, reason, message): RejectedRequest, retry_after: u32) -> Response<ResponseBody> {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": message, "code": code});
    if retry_after > 0 {
        status["details"] = json!({"retryAfterSeconds": retry_after});
    }
    let mut response = respond(code, &status);
    if retry_after > 0 {
        response.headers_mut().insert(http::header::RETRY_AFTER, retry_after.into());
    }
    response
}
