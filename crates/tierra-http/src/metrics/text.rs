//! The text of metrics: OpenMetrics for scrapers that ask for it, and Prometheus's older format for the others.
//!
//! The two differ in a counter's name where its family is declared and in the last line. The crate prometheus-client writes only the
//! first; `promtool check metrics`, curl and older scrapers read the second.

use std::fmt::{Display, Write};

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    /// The format that a client reads.
    pub(crate) fn wanted(headers: &HeaderMap) -> Self {
        let mut accept = headers.get_all(ACCEPT).iter();
        let knows = accept.any(|value| {
            let value = value.to_str().unwrap_or_default();
            value.contains("application/openmetrics-text")
        });
        match knows {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What a family's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows. Its samples end with `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by classes: samples that end with `_bucket`, `_sum` and `_count`.
    Histogram,
}

/// Metrics that are being written, family by family.
#[derive(Debug)]
pub struct Text {
    format: Format,
    out: String,
    name: &'static str,
    kind: Kind,
}

impl Text {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            out: String::new(),
            name: "",
            kind: Kind::Gauge,
        }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Begins a family. `help` is one line without a backslash.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        debug_assert!(!help.contains(['\\', '\n', '"']), "{help}");
        (self.name, self.kind) = (name, kind);
        let suffix = match (kind, self.format) {
            (Kind::Counter, Format::Prometheus) => "_total",
            _ => "",
        };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name}{suffix} {help}"));
        self.line(format_args!("# TYPE {name}{suffix} {kind}"));
    }

    /// A number of the family.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.suffixed(suffix, labels, value);
    }

    /// A number of the family whose name goes on.
    pub fn suffixed(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        for (place, (name, text)) in labels.iter().enumerate() {
            self.out.push(if place == 0 { '{' } else { ',' });
            self.out.push_str(name);
            self.out.push_str("=\"");
            push_escaped(text, &mut self.out);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        self.line(format_args!(" {value}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.out, "{line}").expect("a string takes everything");
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

fn push_escaped(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format) -> String {
        let mut text = Text::new(format);
        text.family("a_bytes", Kind::Counter, "Bytes.");
        text.sample(&[("tier", "x"), ("name", "a\"b\\c\nd")], 7);
        text.family("b_seconds", Kind::Histogram, "Times.");
        text.suffixed("_bucket", &[("le", "0.0005")], 1);
        text.family("c", Kind::Gauge, "More.");
        text.sample(&[], 0.5);
        text.finish()
    }

    #[test]
    fn both_formats_are_as_they_are_specified() {
        let expected = "\
# HELP a_bytes_total Bytes.
# TYPE a_bytes_total counter
a_bytes_total{tier=\"x\",name=\"a\\\"b\\\\c\\nd\"} 7
# HELP b_seconds Times.
# TYPE b_seconds histogram
b_seconds_bucket{le=\"0.0005\"} 1
# HELP c More.
# TYPE c gauge
c 0.5
";
        assert_eq!(written(Format::Prometheus), expected);
        let expected = expected
            .replace("# HELP a_bytes_total", "# HELP a_bytes")
            .replace("# TYPE a_bytes_total", "# TYPE a_bytes")
            + "# EOF\n";
        assert_eq!(written(Format::OpenMetrics), expected);
    }
}
