//! The client through which a kind of object is followed: adjusts its watches, keeps a server that ends them at once from being asked
//! continuously, and notifies of responses.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tower::service_fn;

use super::query::adjusted;
use crate::api::pool::is_watch;

/// A watch that is asked for again earlier than this after it was opened was too short to be useful; upstream's constant.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// A client for one `follow`; `answered` is notified of each successful response, of a watch when it is open.
pub(super) fn follower(client: Client, answered: Option<Arc<Notify>>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let opened = Arc::new(Mutex::new(None::<Instant>));
    let service = service_fn(move |mut request: Request<Body>| {
        let (client, answered, opened) = (client.clone(), answered.clone(), opened.clone());
        async move {
            let is_watch = is_watch(request.uri());
            if is_watch {
                if let Some(uri) = adjusted(request.uri(), rand::random()) {
                    *request.uri_mut() = uri;
                }
                let earliest = *opened.lock();
                if let Some(earliest) = earliest.filter(|earliest| Instant::now() < *earliest) {
                    sleep_until(earliest).await;
                }
            }
            let answer = client.send(request).await?;
            if answer.status().is_success() {
                if is_watch {
                    let spread = SHORT_WATCH.mul_f64(rand::random());
                    *opened.lock() = Some(Instant::now() + SHORT_WATCH + spread);
                }
                if let Some(answered) = &answered {
                    answered.notify_one();
                }
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, namespace)
}
