//! A connection whose calls are spans of the trace that they are a part of, as upstream's are. Passes the trace on to the runtime.

use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, Either};
use http::header::HeaderValue;
use http::{Request, Response};
use tonic::body::Body;
use tonic::transport::channel::ResponseFuture;
use tonic::transport::{Channel, Error};
use tonic::{Code, Status};
use tower::Service;

use hostlet_telemetry::Span;

/// The connection.
#[derive(Clone, Debug)]
pub(super) struct Traced(Channel);

impl Traced {
    pub(super) fn new(channel: Channel) -> Self {
        Self(channel)
    }
}

impl Service<Request<Body>> for Traced {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Either<ResponseFuture, BoxFuture<'static, Result<Response<Body>, Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // `/runtime.v1.RuntimeService/RunPodSandbox`
        let name = request.uri().path().trim_start_matches('/');
        let attributes = || {
            let (service, method) = name.split_once('/').unwrap_or((name, ""));
            let text = str::to_owned;
            vec![("rpc.system", text("grpc")), ("rpc.service", text(service)), ("rpc.method", text(method))]
        };
        let span = Span::call(|| name.to_owned(), attributes);
        let Some(header) = span.header().and_then(|header| HeaderValue::try_from(header).ok()) else {
            return Either::Left(self.0.call(request));
        };
        request.headers_mut().insert("traceparent", header);
        let call = Unanswered(Some(span));
        let answer = self.0.call(request);
        Either::Right(async move { call.answered(answer.await) }.boxed())
    }
}

/// The span of a call whose answer has not come.
struct Unanswered(Option<Span>);

impl Unanswered {
    fn answered(mut self, answer: Result<Response<Body>, Error>) -> Result<Response<Body>, Error> {
        let span = self.0.take();
        let failure = match &answer {
            // A call that failed has its status in the headers, as it has no body.
            Ok(response) => Status::from_header_map(response.headers())
                .filter(|status| status.code() != Code::Ok)
                .map(|status| format!("{:?}: {}", status.code(), status.message())),
            Err(error) => Some(error.to_string()),
        };
        if let (Some(span), Some(failure)) = (span, failure) {
            span.failed(failure);
        }
        answer
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(span) = &self.0 {
            span.failed("no answer came in time, or nobody waited for it");
        }
    }
}
