//! The metrics registry: every crate registers its own metrics, and the server encodes all. Counts nothing itself.
//!
//! Names, labels and buckets are the stock kubelet's where it has the metric; our own start with `hostlet_`.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};

use super::prometheus_text::PrometheusText;

/// Prometheus' default buckets, seconds (`metrics.DefBuckets` upstream).
pub const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Upstream's buckets for starts of pods, seconds.
pub const POD_START_BUCKETS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0,
    480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// A sampled value with its labels.
pub type Reading = (Vec<(&'static str, String)>, u64);

/// One of several numbers that are read at once, without labels.
pub struct Figure<T> {
    /// Its name, of a counter without the suffix `_total`.
    pub name: &'static str,
    /// A sentence with its period.
    pub help: &'static str,
    /// Whether it is a counter or a gauge.
    pub kind: MetricType,
    /// Picks this number from what was read.
    pub value: fn(&T) -> f64,
}

/// A counter without the suffix `_total`, which upstream has not given to all of its counters. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PlainCounter(Counter);

impl PlainCounter {
    /// Increments it.
    pub fn inc(&self) {
        self.0.inc();
    }

    /// Adds `count`.
    pub fn inc_by(&self, count: u64) {
        self.0.inc_by(count);
    }
}

impl TypedMetric for PlainCounter {
    // The encoder would append `_total` to a counter; `PrometheusText` gives this type its name.
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for PlainCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&i64::try_from(self.0.get()).unwrap_or(i64::MAX))
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// The daemon's metrics. Cheap to clone; clones share one registry.
#[derive(Clone, Default)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
}

impl Metrics {
    /// Registers a metric. `name` has no suffix `_total`, which is added to counters. `help` is a sentence without its
    /// period, which the encoder adds.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.with(|registry| registry.register(name, help, metric));
    }

    /// Registers a gauge that is sampled on each request. `help` is a sentence with its period. `read` must be short.
    pub fn register_gauge(
        &self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Vec<Reading> + Send + Sync + 'static,
    ) {
        let collector = ReadOnScrape { name, help, kind: MetricType::Gauge, read };
        self.with(|registry| registry.register_collector(Box::new(collector)));
    }

    /// Registers a gauge without labels, which may be negative, a fraction or infinite. `help` is a sentence with its period.
    /// `read` must be short.
    pub fn register_value(
        &self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) {
        let collector = ValueOnScrape { name, help, read };
        self.with(|registry| registry.register_collector(Box::new(collector)));
    }

    /// Registers several numbers that `read` gets at once, on each request. It must be short.
    pub fn register_figures<T: 'static>(
        &self,
        figures: &'static [Figure<T>],
        read: impl Fn() -> T + Send + Sync + 'static,
    ) {
        self.with(|registry| registry.register_collector(Box::new(FiguresOnScrape { figures, read })));
    }

    /// Registers a counter that is sampled on each request. `help` is a sentence with its period. `read` must be short.
    pub fn register_counter(
        &self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Vec<Reading> + Send + Sync + 'static,
    ) {
        let collector = ReadOnScrape { name, help, kind: MetricType::Counter, read };
        self.with(|registry| registry.register_collector(Box::new(collector)));
    }

    /// Encodes all metrics in Prometheus' text format, as upstream does ([`PROMETHEUS_TEXT`](super::PROMETHEUS_TEXT)).
    pub fn encode(&self) -> String {
        let mut text = PrometheusText::default();
        // Fails only if an encoder fails, and ours do not.
        let _ = self.with(|registry| prometheus_client::encoding::text::encode(&mut text, registry));
        text.finish()
    }

    fn with<T>(&self, work: impl FnOnce(&mut Registry) -> T) -> T {
        // A registration is a single push, so the list is always consistent.
        work(&mut self.registry.lock())
    }
}

/// A metric that is sampled on each request.
struct ReadOnScrape<F> {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    read: F,
}

impl<F> fmt::Debug for ReadOnScrape<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnScrape").field("name", &self.name).finish_non_exhaustive()
    }
}

fn encode(metric: MetricEncoder<'_>, kind: MetricType, value: u64) -> fmt::Result {
    match kind {
        MetricType::Counter => ConstCounter::new(value).encode(metric),
        _ => ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric),
    }
}

impl<F: Fn() -> Vec<Reading> + Send + Sync + 'static> Collector for ReadOnScrape<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, self.kind)?;
        let readings = (self.read)();
        if let [(labels, value)] = readings.as_slice()
            && labels.is_empty()
        {
            return encode(metric, self.kind, *value);
        }
        for (labels, value) in readings {
            encode(metric.encode_family(&labels)?, self.kind, value)?;
        }
        Ok(())
    }
}

/// A single number that is sampled on each request.
struct ValueOnScrape<F> {
    name: &'static str,
    help: &'static str,
    read: F,
}

impl<F> fmt::Debug for ValueOnScrape<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueOnScrape").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F: Fn() -> f64 + Send + Sync + 'static> Collector for ValueOnScrape<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metric = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        ConstGauge::new((self.read)()).encode(metric)
    }
}

/// Several numbers that are sampled together on each request.
struct FiguresOnScrape<T: 'static, F> {
    figures: &'static [Figure<T>],
    read: F,
}

impl<T: 'static, F> fmt::Debug for FiguresOnScrape<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.figures.iter().map(|figure| figure.name).collect();
        f.debug_struct("FiguresOnScrape").field("names", &names).finish_non_exhaustive()
    }
}

impl<T: 'static, F: Fn() -> T + Send + Sync + 'static> Collector for FiguresOnScrape<T, F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = (self.read)();
        for Figure { name, help, kind, value } in self.figures {
            let metric = encoder.encode_descriptor(name, help, None, *kind)?;
            match kind {
                MetricType::Counter => ConstCounter::new(value(&all)).encode(metric)?,
                _ => ConstGauge::new(value(&all)).encode(metric)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::family::Family;

    use super::*;

    #[test]
    fn a_plain_counter_has_no_suffix() {
        let (metrics, counters) = (Metrics::default(), Family::<[(&str, &str); 1], PlainCounter>::default());
        metrics.register("kubelet_things", "Things that happened", counters.clone());
        counters.get_or_create(&[("kind", "a")]).inc();
        assert_eq!(
            metrics.encode(),
            "# HELP kubelet_things Things that happened.\n# TYPE kubelet_things counter\n\
             kubelet_things{kind=\"a\"} 1\n"
        );
    }

    #[test]
    fn registered_metrics_are_encoded_with_current_values() {
        let metrics = Metrics::default();
        let counter = Counter::<u64>::default();
        metrics.clone().register("hostlet_things", "Things that happened", counter.clone());
        let waiting = Arc::new(Mutex::new(3));
        let read = waiting.clone();
        metrics.register_gauge("hostlet_waiting", "Things that wait", move || {
            vec![(vec![("kind", "a \"quoted\" one".to_owned())], *read.lock())]
        });
        metrics.register_counter("hostlet_made", "Things that were made", || vec![(Vec::new(), 5)]);
        counter.inc();
        *waiting.lock() = 4;
        assert_eq!(
            metrics.encode(),
            "# HELP hostlet_things_total Things that happened.\n# TYPE hostlet_things_total counter\nhostlet_things_total 1\n\
             # HELP hostlet_waiting Things that wait\n# TYPE hostlet_waiting gauge\n\
             hostlet_waiting{kind=\"a \\\"quoted\\\" one\"} 4\n\
             # HELP hostlet_made_total Things that were made\n# TYPE hostlet_made_total counter\nhostlet_made_total 5\n"
        );
    }

    #[test]
    fn figures_of_one_reading_are_read_once() {
        const BOTH: [Figure<u32>; 2] = [
            Figure { name: "hostlet_a", help: "A.", kind: MetricType::Counter, value: |n| f64::from(*n) },
            Figure { name: "hostlet_b", help: "B.", kind: MetricType::Gauge, value: |n| f64::from(*n) / 2.0 },
        ];
        let (metrics, readings) = (Metrics::default(), Mutex::new(0));
        metrics.register_figures(&BOTH, move || {
            *readings.lock() += 1;
            *readings.lock()
        });
        let text = metrics.encode();
        assert!(text.contains("\nhostlet_a_total 1.0\n") && text.contains("\nhostlet_b 0.5\n"), "{text}");
    }
}
