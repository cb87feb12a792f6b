//! Numbers of bytes as people write them: on the command line, in `SET`, in `tierra.toml`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, written with a unit of 1,024 to the first, second, third or fourth power:
/// `4G`, `512 MiB`, `1.5g`, `1000`. Displays as the shortest text that reads back as the same size.
///
/// ```
/// use tierra_memory::Size;
///
/// let size: Size = "1.5 GiB".parse()?;
/// assert_eq!(size, Size(3 << 29));
/// assert_eq!(size.to_string(), "1536M");
/// # Ok::<(), tierra_memory::SizeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A text that is no number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a size; write a number of bytes, or one with K, M, G or T, such as 512M")]
pub struct SizeError {
    text: String,
}

const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let error = || SizeError { text: text.into() };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = trimmed.split_at(split.unwrap_or(trimmed.len()));
        let unit = unit.trim().to_ascii_uppercase();
        let unit = unit
            .strip_suffix("IB")
            .or(unit.strip_suffix('B'))
            .unwrap_or(&unit);
        let shift = match UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, shift)) => *shift,
            None if unit.is_empty() => 0,
            None => return Err(error()),
        };
        // Whole numbers exactly, which a double would not keep beyond 2^53.
        if let Ok(number) = number.parse::<u64>() {
            let bytes = number.checked_mul(1 << shift).ok_or_else(error)?;
            return Ok(Self(bytes));
        }
        let bytes = number.parse::<f64>().map_err(|_| error())? * (1_u64 << shift) as f64;
        if bytes < u64::MAX as f64 {
            Ok(Self(bytes as u64))
        } else {
            Err(error())
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, shift): &&(&str, u32)| self.0 > 0 && self.0.is_multiple_of(1 << *shift);
        match UNITS.iter().find(whole) {
            Some((unit, shift)) => f.pad(&format!("{}{unit}", self.0 >> shift)),
            None => f.pad(&self.0.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("1023", 1023),
            ("7 B", 7),
            ("1K", 1 << 10),
            ("512m", 512 << 20),
            ("1.5 MiB", 3 << 19),
            (" 2 gb ", 2 << 30),
            ("5000T", 5000 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in [
            "",
            "M",
            "1X",
            "-1",
            "1.2.3K",
            ".",
            "1iB1",
            "99999999999G",
            "1e3",
            "18446744073709551616",
        ] {
            let error = bad.parse::<Size>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{bad}'")), "{error}");
        }
    }

    #[test]
    fn what_is_displayed_reads_back() {
        for (bytes, text) in [(0, "0"), (1500, "1500"), (3 << 30, "3G"), (1 << 40, "1T")] {
            assert_eq!(Size(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        assert_eq!(Size(u64::MAX).to_string().parse(), Ok(Size(u64::MAX)));
    }
}
