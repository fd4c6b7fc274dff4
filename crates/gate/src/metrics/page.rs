//! Writes metrics in the text format of Prometheus: one family after the other, each with its
//! samples. Knows nothing of what is counted.

pub use prometheus::proto::MetricType;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily};
use prometheus::{TEXT_FORMAT, TextEncoder};

/// The content type of the page.
pub const CONTENT_TYPE: &str = TEXT_FORMAT;

/// Labels with their values, and the value of the sample.
pub type MetricSample<'a> = (Vec<(&'a str, &'a str)>, f64);

/// A page of metrics being written.
#[derive(Debug)]
pub struct MetricsPage {
    /// Prepended to every metric name: empty, or a name with an underscore.
    prefix: String,
    families: Vec<MetricFamily>,
}

impl MetricsPage {
    /// An empty page whose metric names all start with `prefix`.
    pub fn new(prefix: &str) -> Self {
        let separator = if prefix.is_empty() { "" } else { "_" };
        Self {
            prefix: format!("{prefix}{separator}"),
            families: Vec::new(),
        }
    }

    /// Adds a family of counters or gauges, unless it has no samples.
    pub fn family<'a>(
        &mut self,
        kind: MetricType,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = MetricSample<'a>>,
    ) {
        let metrics: Vec<Metric> = samples
            .into_iter()
            .map(|(labels, value)| metric(kind, &labels, value))
            .collect();
        if metrics.is_empty() {
            return;
        }

        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.add([family]);
    }

    /// Adds a family of counters, unless it has no samples.
    pub fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = MetricSample<'a>>,
    ) {
        self.family(MetricType::COUNTER, name, help, samples);
    }

    /// Adds families that already have their samples.
    pub(super) fn add(&mut self, families: impl IntoIterator<Item = MetricFamily>) {
        for mut family in families {
            family.set_name(format!("{}{}", self.prefix, family.name()));
            self.families.push(family);
        }
    }

    /// The finished page.
    pub fn into_text(self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.families)
    }
}

fn metric(kind: MetricType, labels: &[(&str, &str)], value: f64) -> Metric {
    let label = |(name, value): &(&str, &str)| {
        let mut label = LabelPair::default();
        label.set_name((*name).to_owned());
        label.set_value((*value).to_owned());
        label
    };
    let mut metric = Metric::from_label(labels.iter().map(label).collect());

    if kind == MetricType::COUNTER {
        let mut counter = Counter::default();
        counter.set_value(value);
        metric.set_counter(counter);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        metric.set_gauge(gauge);
    }
    metric
}

/// A count as a sample's value.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 2^53, and close enough beyond"
)]
pub const fn to_f64(count: u64) -> f64 {
    count as f64
}

/// A duration, or a time since the UNIX epoch, in seconds.
pub const fn seconds(time: tollgate::Micros) -> f64 {
    to_f64(time.get()) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: MetricsPage) -> String {
        page.into_text().expect("names and samples")
    }

    #[test]
    fn every_family_has_its_samples_and_the_prefix() {
        let mut page = MetricsPage::new("a");
        page.family(
            MetricType::COUNTER,
            "b_total",
            "B",
            [(vec![("kind", "x")], 1.0), (vec![("kind", "y\"\n")], 2.5)],
        );
        page.family(MetricType::GAUGE, "c", "C", [(vec![], 0.0)]);
        let expected = "# HELP a_b_total B\n# TYPE a_b_total counter\na_b_total{kind=\"x\"} 1\n\
                        a_b_total{kind=\"y\\\"\\n\"} 2.5\n# HELP a_c C\n# TYPE a_c gauge\na_c 0\n";
        assert_eq!(text(page), expected);
    }

    #[test]
    fn families_without_samples_and_empty_prefixes_are_left_out() {
        let mut page = MetricsPage::new("");
        page.family(MetricType::GAUGE, "none", "Nothing", []);
        page.family(MetricType::GAUGE, "c", "C", [(vec![], 7.0)]);
        page.family(MetricType::COUNTER, "last_total", "Nothing either", []);
        assert_eq!(text(page), "# HELP c C\n# TYPE c gauge\nc 7\n");
        assert_eq!(text(MetricsPage::new("a")), "");
    }
}
