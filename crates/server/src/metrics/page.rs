//! Writes metrics in the text format of Prometheus: one family after the other, each with its
//! samples. Knows nothing of what is counted.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{TEXT_FORMAT, TextEncoder};

/// The content type of the page.
pub(crate) const CONTENT_TYPE: &str = TEXT_FORMAT;

/// A page of metrics being written.
#[derive(Debug)]
pub(crate) struct MetricsPage {
    /// Prepended to every metric name: empty, or a name with an underscore.
    prefix: String,
    families: Vec<MetricFamily>,
    /// Samples of the last family.
    samples: Vec<Metric>,
}

impl MetricsPage {
    /// An empty page whose metric names all start with `prefix`.
    pub(crate) fn new(prefix: &str) -> Self {
        let prefix = if prefix.is_empty() {
            String::new()
        } else {
            format!("{prefix}_")
        };

        Self {
            prefix,
            families: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Starts a family of counters.
    pub(crate) fn counter(&mut self, name: &str, help: &str) -> &mut Self {
        self.family(name, help, MetricType::COUNTER)
    }

    /// Starts a family of gauges.
    pub(crate) fn gauge(&mut self, name: &str, help: &str) -> &mut Self {
        self.family(name, help, MetricType::GAUGE)
    }

    /// Adds a sample to the family started last.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        let mut metric = Metric::from_label(
            labels
                .iter()
                .map(|(name, value)| label(name, value))
                .collect(),
        );

        if self
            .families
            .last()
            .is_some_and(|family| family.get_field_type() == MetricType::COUNTER)
        {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }

        self.samples.push(metric);
        self
    }

    /// Adds families that already have their samples.
    pub(super) fn add(&mut self, families: Vec<MetricFamily>) {
        self.close();
        for mut family in families {
            family.set_name(format!("{}{}", self.prefix, family.name()));
            self.families.push(family);
        }
    }

    /// The finished page.
    pub(crate) fn into_text(mut self) -> Result<String, prometheus::Error> {
        self.close();
        TextEncoder::new().encode_to_string(&self.families)
    }

    fn family(&mut self, name: &str, help: &str, kind: MetricType) -> &mut Self {
        self.close();
        let mut family = MetricFamily::default();
        family.set_name(format!("{}{name}", self.prefix));
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        self.families.push(family);
        self
    }

    /// Moves the samples into their family. A family without samples is removed.
    fn close(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        match self.families.last_mut() {
            Some(family) if family.get_metric().is_empty() && !samples.is_empty() => {
                family.set_metric(samples);
            }
            Some(family) if family.get_metric().is_empty() => drop(self.families.pop()),
            _ => {}
        }
    }
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.to_owned());
    label
}

/// A count as a sample's value.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 2^53, and close enough beyond"
)]
pub(crate) const fn to_f64(count: u64) -> f64 {
    count as f64
}

/// A duration, or a time since the UNIX epoch, in seconds.
pub(crate) const fn seconds(time: tollgate::Micros) -> f64 {
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
        page.counter("b_total", "B")
            .sample(&[("kind", "x")], 1.0)
            .sample(&[("kind", "y\"\n")], 2.5);
        page.gauge("c", "C").sample(&[], 0.0);
        let expected = "# HELP a_b_total B\n# TYPE a_b_total counter\na_b_total{kind=\"x\"} 1\n\
                        a_b_total{kind=\"y\\\"\\n\"} 2.5\n# HELP a_c C\n# TYPE a_c gauge\na_c 0\n";
        assert_eq!(text(page), expected);
    }

    #[test]
    fn families_without_samples_and_empty_prefixes_are_left_out() {
        let mut page = MetricsPage::new("");
        page.gauge("none", "Nothing");
        page.gauge("c", "C").sample(&[], 7.0);
        page.counter("last_total", "Nothing either");
        assert_eq!(text(page), "# HELP c C\n# TYPE c gauge\nc 7\n");
        assert_eq!(text(MetricsPage::new("a")), "");
    }
}
