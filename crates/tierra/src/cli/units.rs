//! Quantities as a person reads and types them: bytes, times, counts.

use std::{fmt, str::FromStr, time::Duration};

/// A number of bytes: `512 B`, `1.5 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

/// A duration with three digits: `12.3 ms`.
#[derive(Clone, Copy)]
pub(crate) struct Time(pub(crate) Duration);

/// A count with separators: `6,000,000`.
#[derive(Clone, Copy)]
pub(crate) struct Count(pub(crate) u64);

/// A text that is no number of bytes.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not a size; write a number of bytes, or one with K, M, G or T, such as 512M")]
pub(crate) struct SizeError(String);

impl FromStr for Bytes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let error = || SizeError(text.to_owned());
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = trimmed.split_at(split.unwrap_or(trimmed.len()));
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "k" | "kb" | "kib" => 1024.0,
            "m" | "mb" | "mib" => 1024.0 * 1024.0,
            "g" | "gb" | "gib" => 1024.0 * 1024.0 * 1024.0,
            "t" | "tb" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            _ => return Err(error()),
        };
        let bytes = number.parse::<f64>().map_err(|_| error())? * factor;
        Ok(Self(bytes as u64))
    }
}

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

/// How many rows a second `rows` in `time` are: `1,234,567 rows/s`.
pub(crate) fn rows_per_second(rows: u64, time: Duration) -> String {
    let rate = rows as f64 / time.as_secs_f64().max(1e-9);
    format!("{} rows/s", Count(rate as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes, shown) in [
            ("0", 0, "0 B"),
            ("1023", 1023, "1023 B"),
            ("1K", 1024, "1.0 KiB"),
            ("1.5 MiB", 3 << 19, "1.5 MiB"),
            ("2g", 2 << 30, "2.0 GiB"),
            ("5000T", 5000 << 40, "5000.0 TiB"),
        ] {
            let size: Bytes = text.parse().unwrap();
            assert_eq!(size, Bytes(bytes));
            assert_eq!(size.to_string(), shown);
        }
        for bad in ["", "M", "1X", "-1", "1.2.3K"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
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
