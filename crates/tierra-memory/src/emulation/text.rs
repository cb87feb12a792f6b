//! Far memory as text: a preset, fields, or a preset and the fields that differ.
//!
//! ```text
//!   optane
//!   optane,cache=0B,far=everything
//!   latency=500ns,random=4GB/s,sequential=8GB/s,misses=16
//! ```
//!
//! Invariant: what `Display` writes, `FromStr` reads back as the same description.

use std::fmt;
use std::str::FromStr;

use super::{EmulationError, FarMemory, Scale};
use crate::topology::SocketId;

/// What `SET tierra.emulate` accepts: a description of far memory, or `off`.
///
/// # Errors
/// [`EmulationError`] names what is not understood or makes no sense.
pub fn parse(text: &str) -> Result<Option<FarMemory>, EmulationError> {
    if text.trim().eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    text.parse().map(Some)
}

impl FromStr for FarMemory {
    type Err = EmulationError;

    fn from_str(text: &str) -> Result<FarMemory, EmulationError> {
        let mut far = FarMemory::UNLIMITED;
        for (at, part) in text.split(',').enumerate() {
            let part = part.trim();
            let preset = FarMemory::PRESETS
                .iter()
                .find(|(name, _)| at == 0 && name.eq_ignore_ascii_case(part));
            if let Some((_, preset)) = preset {
                far = *preset;
                continue;
            }
            let unknown = || EmulationError::Unknown { text: part.into() };
            let (key, value) = part.split_once('=').ok_or_else(unknown)?;
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                // A latency given alone is that of all threads.
                "latency" => {
                    far.latency_ns = time_ns("latency", value)?;
                    far.remote_latency_ns = far.latency_ns;
                }
                "remote-latency" => far.remote_latency_ns = time_ns("remote-latency", value)?,
                "misses" => far.misses_in_flight = count("misses", value)?,
                "sequential" => far.sequential_read_gb_per_s = rate("sequential", value)?,
                "random" => far.random_read_gb_per_s = rate("random", value)?,
                "sequential-write" => {
                    far.sequential_write_gb_per_s = rate("sequential-write", value)?;
                }
                "random-write" => far.random_write_gb_per_s = rate("random-write", value)?,
                "link" => far.link_gb_per_s = rate("link", value)?,
                "channels" => far.channels_gb_per_s = rate("channels", value)?,
                "cores" => far.cores = count("cores", value)?,
                "scale" => far.scale = scale(value)?,
                "persist" => far.persist_ns = time_ns("persist", value)?,
                "line" => far.internal_line_bytes = bytes("line", value)?,
                "cache" => far.cache_bytes = bytes("cache", value)?,
                "overlap" => far.plain_overlap = count("overlap", value)?,
                "socket" => far.socket = SocketId(socket(value)?),
                "far" => far.everywhere = everywhere(value)?,
                _ => return Err(unknown()),
            }
        }
        far.check()?;
        Ok(far)
    }
}

impl fmt::Display for FarMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "latency={}ns", self.latency_ns)?;
        write!(f, ",remote-latency={}ns", self.remote_latency_ns)?;
        write!(f, ",misses={}", self.misses_in_flight)?;
        for (key, rate) in [
            ("sequential", self.sequential_read_gb_per_s),
            ("random", self.random_read_gb_per_s),
            ("sequential-write", self.sequential_write_gb_per_s),
            ("random-write", self.random_write_gb_per_s),
            ("link", self.link_gb_per_s),
            ("channels", self.channels_gb_per_s),
        ] {
            if rate.is_infinite() {
                write!(f, ",{key}=unlimited")?;
            } else {
                write!(f, ",{key}={rate}GB/s")?;
            }
        }
        let scale = match self.scale {
            Scale::Share => "share",
            Scale::Whole => "whole",
        };
        write!(f, ",cores={},scale={scale}", self.cores)?;
        write!(f, ",persist={}ns", self.persist_ns)?;
        write!(f, ",line={}B", self.internal_line_bytes)?;
        write!(f, ",cache={}B", self.cache_bytes)?;
        write!(f, ",overlap={}", self.plain_overlap)?;
        write!(f, ",socket={}", self.socket.0)?;
        let far = if self.everywhere {
            "everything"
        } else {
            "registered"
        };
        write!(f, ",far={far}")
    }
}

/// A number and the unit behind it, the first of `units` if there is none.
fn measure(value: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '/');
    let unit = value[digits.len()..].trim();
    let (_, factor) = if unit.is_empty() {
        units.first()?
    } else {
        units
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))?
    };
    let number: f64 = digits.trim().parse().ok()?;
    Some(number * factor)
}

fn time_ns(field: &'static str, value: &str) -> Result<f64, EmulationError> {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    measure(value, &UNITS)
        .ok_or_else(|| unreadable(field, value, "a time such as 300ns, 1.5us or 0"))
}

fn rate(field: &'static str, value: &str) -> Result<f64, EmulationError> {
    const UNITS: [(&str, f64); 2] = [("GB/s", 1.0), ("MB/s", 1e-3)];
    if value.eq_ignore_ascii_case("unlimited") {
        return Ok(f64::INFINITY);
    }
    measure(value, &UNITS).ok_or_else(|| {
        let expected = "a bandwidth such as 10GB/s or 500MB/s, or unlimited";
        unreadable(field, value, expected)
    })
}

fn bytes(field: &'static str, value: &str) -> Result<usize, EmulationError> {
    const UNITS: [(&str, f64); 6] = [
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("KiB", 1024.0),
        ("MiB", 1024.0 * 1024.0),
        ("GiB", 1024.0 * 1024.0 * 1024.0),
    ];
    measure(value, &UNITS)
        .filter(|bytes| *bytes >= 0.0 && *bytes < 1e15 && bytes.fract() == 0.0)
        .map(|bytes| bytes as usize)
        .ok_or_else(|| unreadable(field, value, "whole bytes such as 256B, 512KiB or 38.5MiB"))
}

fn count(field: &'static str, value: &str) -> Result<usize, EmulationError> {
    value
        .parse()
        .map_err(|_| unreadable(field, value, "a whole number"))
}

fn scale(value: &str) -> Result<Scale, EmulationError> {
    match value.to_ascii_lowercase().as_str() {
        "share" => Ok(Scale::Share),
        "whole" => Ok(Scale::Whole),
        _ => Err(unreadable(
            "scale",
            value,
            "'share' (this process's cores of those that the bandwidths were measured with) or 'whole'",
        )),
    }
}

fn socket(value: &str) -> Result<u16, EmulationError> {
    value
        .parse()
        .map_err(|_| unreadable("socket", value, "a whole number"))
}

fn everywhere(value: &str) -> Result<bool, EmulationError> {
    match value.to_ascii_lowercase().as_str() {
        "everything" => Ok(true),
        "registered" => Ok(false),
        _ => Err(unreadable(
            "far",
            value,
            "'registered' (far pools, and what experiments register) or 'everything'",
        )),
    }
}

fn unreadable(field: &'static str, value: &str, expected: &'static str) -> EmulationError {
    EmulationError::Unreadable {
        field,
        value: value.into(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn presets_and_fields_are_read() {
        assert_eq!(parse("off"), Ok(None));
        assert_eq!(parse(" OFF "), Ok(None));
        assert_eq!(parse("optane"), Ok(Some(FarMemory::OPTANE)));
        assert_eq!(parse("Remote-Optane"), Ok(Some(FarMemory::REMOTE_OPTANE)));
        assert_eq!(
            parse("optane, cache=0B, far=everything"),
            Ok(Some(FarMemory {
                cache_bytes: 0,
                everywhere: true,
                ..FarMemory::OPTANE
            }))
        );
        assert_eq!(
            parse("latency=1.5us,random=500MB/s,misses=16,overlap=4,line=256,cache=38.5MiB"),
            Ok(Some(FarMemory {
                latency_ns: 1500.0,
                remote_latency_ns: 1500.0,
                random_read_gb_per_s: 0.5,
                misses_in_flight: 16,
                plain_overlap: 4,
                internal_line_bytes: 256,
                cache_bytes: 40_370_176,
                ..FarMemory::UNLIMITED
            }))
        );
        assert_eq!(parse("latency=300").unwrap().unwrap().latency_ns, 300.0);
        let far = parse(
            "optane,scale=whole,socket=3,remote-latency=400,cores=24,link=20GB/s,channels=unlimited",
        );
        let expected = FarMemory {
            scale: Scale::Whole,
            socket: SocketId(3),
            remote_latency_ns: 400.0,
            cores: 24,
            link_gb_per_s: 20.0,
            channels_gb_per_s: f64::INFINITY,
            ..FarMemory::OPTANE
        };
        assert_eq!(far, Ok(Some(expected)));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, named) in [
            ("", "\"\""),
            ("octane", "octane"),
            ("latency=300,optane", "optane"),
            ("speed=3", "speed=3"),
            ("latency=fast", "latency cannot be \"fast\""),
            ("latency=3GB/s", "latency cannot be"),
            ("random=10ns", "random cannot be"),
            ("random=0GB/s", "random=0GB/s"),
            ("latency=-5ns", "latency=-5ns"),
            ("latency=2s", "latency=2000000000ns"),
            ("misses=0", "misses=0"),
            ("misses=-1", "misses cannot be"),
            ("cache=1.5B", "cache cannot be"),
            ("far=away", "far cannot be"),
            ("scale=half", "scale cannot be"),
            ("socket=-1", "socket cannot be"),
            ("socket=8", "socket=8"),
            ("cores=5000", "cores=5000"),
            ("link=0GB/s", "link=0GB/s"),
            ("channels=-1GB/s", "channels=-1GB/s"),
            ("remote-latency=2s", "remote-latency=2000000000ns"),
            ("latency=nan", "latency"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(named), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            latency_ns in 0.0..1e9f64,
            misses in 1..=64usize,
            sequential in prop_oneof![0.001..1000.0f64, Just(f64::INFINITY)],
            slower in 0.001..=1.0f64,
            persist_ns in 0.0..1e9f64,
            line_shift in 6..=12u32,
            cache_bytes in 0..=FarMemory::MAX_CACHE_BYTES,
            everywhere: bool,
            is_whole: bool,
            cores in 0..=FarMemory::MAX_CORES,
            socket in 0..8u16,
        ) {
            let random = if sequential.is_infinite() { sequential } else { (sequential * slower).max(0.001) };
            let far = FarMemory {
                latency_ns,
                remote_latency_ns: latency_ns * 0.75,
                link_gb_per_s: sequential,
                channels_gb_per_s: random,
                cores,
                scale: if is_whole { Scale::Whole } else { Scale::Share },
                socket: SocketId(socket),
                misses_in_flight: misses,
                sequential_read_gb_per_s: sequential,
                random_read_gb_per_s: random,
                sequential_write_gb_per_s: sequential,
                random_write_gb_per_s: random,
                persist_ns,
                internal_line_bytes: 1 << line_shift,
                cache_bytes,
                plain_overlap: misses.div_ceil(2),
                everywhere,
            };
            prop_assert_eq!(far.to_string().parse(), Ok(far));
        }

        #[test]
        fn no_text_is_a_panic(text in ".{0,60}") {
            let _ = parse(&text);
        }
    }
}
