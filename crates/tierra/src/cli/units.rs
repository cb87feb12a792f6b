//! Quantities in readable form: bytes, times, counts.

use std::{fmt, time::Duration};

/// A number of bytes: `512 B`, `1.5 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

/// A duration with three digits: `12.3 ms`.
#[derive(Clone, Copy)]
pub(crate) struct Time(pub(crate) Duration);

/// A count with separators: `6,000,000`.
#[derive(Clone, Copy)]
pub(crate) struct Count(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut unit = "";
        for name in units {
            value /= 1024.0;
            unit = name;
            if value < 1024.0 {
                break;
            }
        }
        f.pad(&format!("{value:.1} {unit}"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos() as f64;
        let (value, unit) = match ns {
            ..1e3 => (ns, "ns"),
            ..1e6 => (ns / 1e3, "us"),
            ..1e9 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let decimals = match value {
            ..10.0 => 2,
            ..100.0 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() * 4 / 3);
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// The rate of `rows` in `time`: `1,234,567 rows/s`.
pub(crate) fn rows_per_second(rows: u64, time: Duration) -> String {
    let rate = rows as f64 / time.as_secs_f64().max(1e-9);
    format!("{} rows/s", Count(rate as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (3 << 19, "1.5 MiB"),
            (2 << 30, "2.0 GiB"),
            (5000 << 40, "5000.0 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
    }

    #[test]
    fn times_and_counts_read_well() {
        let time = |ns| Time(Duration::from_nanos(ns)).to_string();
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1_234), "1.23 us");
        assert_eq!(time(56_789_000), "56.8 ms");
        assert_eq!(time(1_500_000_000), "1.50 s");
        let count = |n| Count(n).to_string();
        assert_eq!([count(0), count(999), count(1_000)], ["0", "999", "1,000"]);
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
