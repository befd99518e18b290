//! Spans of the work that is under way.

use std::borrow::Cow;
use std::sync::OnceLock;

use jiff::Timestamp;
use opentelemetry::context::FutureExt;
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;

/// Records spans, once the daemon has a collector for them.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Lets all spans from now on be recorded by `tracer`, unless another one does already.
pub(super) fn record_with(tracer: SdkTracer) {
    let _ = TRACER.set(tracer);
}

/// What is said of a span, by name.
type Attributes = Vec<(&'static str, String)>;

/// A span under way. It ends when dropped. Nothing if it is not recorded.
#[derive(Debug)]
pub struct Span(Option<Context>);

impl Span {
    /// Begins a trace, recorded or not as configured.
    pub fn root(name: &'static str, attributes: impl FnOnce() -> Attributes) -> Self {
        let Some(tracer) = TRACER.get() else { return Self(None) };
        Self::begin(tracer, &Context::new(), SpanKind::Internal, name.into(), attributes)
    }

    /// Begins a call to another program, as a part of the span around it. Without one it is not recorded.
    pub fn call(name: impl FnOnce() -> String, attributes: impl FnOnce() -> Attributes) -> Self {
        match (TRACER.get(), is_recorded()) {
            (Some(tracer), true) => {
                Self::begin(tracer, &Context::current(), SpanKind::Client, name().into(), attributes)
            }
            (Some(_) | None, _) => Self(None),
        }
    }

    fn begin(
        tracer: &SdkTracer,
        parent: &Context,
        kind: SpanKind,
        name: Cow<'static, str>,
        attributes: impl FnOnce() -> Attributes,
    ) -> Self {
        let span = tracer.span_builder(name).with_kind(kind).start_with_context(tracer, parent);
        let context = parent.with_span(span);
        if !context.span().is_recording() {
            return Self(None);
        }
        context.span().set_attributes(key_values(attributes()));
        Self(Some(context))
    }

    /// Whether it is sampled, and so exported when it ends.
    pub fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// Makes it the span around everything that `work` does.
    pub fn around<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        // Outside of a recorded span nothing is recorded.
        work.with_context(self.0.clone().unwrap_or_default())
    }

    /// Records why it failed.
    pub fn failed(&self, why: impl Into<Cow<'static, str>>) {
        if let Some(context) = &self.0 {
            context.span().set_status(Status::error(why));
        }
    }

    /// The header that makes the work of another program a part of it (W3C Trace Context, `traceparent`); `None` if it is not recorded.
    pub fn header(&self) -> Option<String> {
        let context = self.0.as_ref()?.span().span_context().clone();
        let (trace, span) = (context.trace_id(), context.span_id());
        Some(format!("00-{trace}-{span}-{:02x}", context.trace_flags()))
    }
}

/// Records something that has ended, as a part of the span in which this is called. Without one it is not recorded.
pub fn record(
    name: &'static str,
    began: Timestamp,
    ended: Timestamp,
    attributes: impl FnOnce() -> Attributes,
) {
    let Some(tracer) = TRACER.get().filter(|_| is_recorded()) else { return };
    let builder = tracer.span_builder(name).with_start_time(began).with_attributes(key_values(attributes()));
    builder.start_with_context(tracer, &Context::current()).end_with_timestamp(ended.into());
}

/// Makes what `work` does a part of the span in which this is called, wherever it is polled.
pub fn in_present_span<F: Future>(work: F) -> impl Future<Output = F::Output> {
    work.with_current_context()
}

/// Whether the span around this is recorded.
fn is_recorded() -> bool {
    Context::map_current(|context| context.span().is_recording())
}

fn key_values(attributes: Attributes) -> Vec<KeyValue> {
    attributes.into_iter().map(|(name, value)| KeyValue::new(name, value)).collect()
}
