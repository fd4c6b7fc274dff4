//! A page of metrics being written: families one after the other, each with its lines.
//!
//! Owns the names' prefix and Prometheus' text. Knows nothing of what is counted.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{TEXT_FORMAT, TextEncoder};

/// What it is, for whoever fetches it.
pub(crate) const CONTENT_TYPE: &str = TEXT_FORMAT;

/// Everything that is counted, at one moment.
#[derive(Debug)]
pub(crate) struct MetricsPage {
    prefix: String,
    families: Vec<MetricFamily>,
    lines: Vec<Metric>,
}

impl MetricsPage {
    /// An empty page; every name on it begins with `prefix`.
    pub(crate) fn new(prefix: &str) -> Self {
        let prefix = if prefix.is_empty() {
            String::new()
        } else {
            format!("{prefix}_")
        };
        Self {
            prefix,
            families: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Begins a family of counts that only grow.
    pub(crate) fn counter(&mut self, name: &str, help: &str) -> &mut Self {
        self.family(name, help, MetricType::COUNTER)
    }

    /// Begins a family of values that come and go.
    pub(crate) fn gauge(&mut self, name: &str, help: &str) -> &mut Self {
        self.family(name, help, MetricType::GAUGE)
    }

    /// One value of the family last begun.
    pub(crate) fn line(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
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
        self.lines.push(metric);
        self
    }

    /// Families that are complete.
    pub(super) fn add(&mut self, families: Vec<MetricFamily>) {
        self.close();
        for mut family in families {
            family.set_name(format!("{}{}", self.prefix, family.name()));
            self.families.push(family);
        }
    }

    /// The page as text.
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

    /// Puts the lines to their family. One without lines is none.
    fn close(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        match self.families.last_mut() {
            Some(family) if family.get_metric().is_empty() && !lines.is_empty() => {
                family.set_metric(lines)
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

/// A count as Prometheus has numbers.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 2^53, and close enough beyond"
)]
pub(crate) const fn exact(count: u64) -> f64 {
    count as f64
}

/// A length of time, or a moment, in seconds.
pub(crate) const fn seconds(time: tollgate::Micros) -> f64 {
    exact(time.get()) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: MetricsPage) -> String {
        page.into_text()
            .expect("what is written here has names and lines")
    }

    #[test]
    fn every_family_has_its_lines_and_the_prefix() {
        let mut page = MetricsPage::new("a");
        page.counter("b_total", "B")
            .line(&[("kind", "x")], 1.0)
            .line(&[("kind", "y\"\n")], 2.5);
        page.gauge("c", "C").line(&[], 0.0);
        let expected = "# HELP a_b_total B\n# TYPE a_b_total counter\na_b_total{kind=\"x\"} 1\n\
                        a_b_total{kind=\"y\\\"\\n\"} 2.5\n# HELP a_c C\n# TYPE a_c gauge\na_c 0\n";
        assert_eq!(text(page), expected);
    }

    #[test]
    fn families_without_lines_and_prefixes_without_letters_leave_nothing() {
        let mut page = MetricsPage::new("");
        page.gauge("none", "Nothing");
        page.gauge("c", "C").line(&[], 7.0);
        page.counter("last_total", "Nothing either");
        assert_eq!(text(page), "# HELP c C\n# TYPE c gauge\nc 7\n");
        assert_eq!(text(MetricsPage::new("a")), "");
    }
}
