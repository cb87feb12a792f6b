//! The file that stores a calibration.
//!
//! ```text
//! key near off = 48 interleaved                  kind, tier, far memory emulated = size, mode
//! cell far off = 32 interleaved
//! cell far latency=300ns,misses=10,.. = 24 interleaved
//! levels far off aggregate 24 1 = scalar 1 18 no, avx512 19 24 no
//!                                                tier, far memory, operator, threads, shared columns = the rows of a mix
//! lines 4.9 98.5 1.2 = far                       nanoseconds of a line in order, of a line alone, of a line in order while
//!                                                all cores read = tier
//! ```
//! between the lines that every [`MeasuredFile`] has. Version 1 had keys and cells only, version 2 no levels, version 3 no
//! lines, version 4 lines without the third time.
//!
//! Invariant: only a whole file that this machine wrote is used. The database opens without any other and logs that once; only
//! the speed of lookups and scans changes.

use std::fmt::{Display, Write as _};
use std::io;
use std::path::{Path, PathBuf};

use tierra_memory::emulation::{self, FarMemory};
use tierra_memory::machine::{MeasuredFile, MeasuredFileError};
use tierra_memory::placement::LineTimes;
use tierra_memory::{GateStart, Speed};

use super::{Calibration, GateCalibration, Mix, Situation};

/// Its name in the directory of a database.
pub(crate) const CALIBRATION_FILE: &str = "calibration";
const FORMAT: MeasuredFile = MeasuredFile {
    what: "calibration",
    version: 5,
    len_max: 1 << 18,
};
/// The word for no emulation, here and in SQL.
const OFF: &str = "off";
/// The first word of a line about levels.
const LEVELS: &str = "levels";
/// The first word of a line about the lines of a tier.
const LINES: &str = "lines";

impl Calibration {
    /// Reads the calibration of the database in `dir`; `None` if it has none.
    ///
    /// # Errors
    /// [`MeasuredFileError`] if the file must not be used.
    pub fn read(dir: &Path) -> Result<Option<Calibration>, MeasuredFileError> {
        let Some(entries) = FORMAT.read(&dir.join(CALIBRATION_FILE), entry)? else {
            return Ok(None);
        };
        let (mut gates, mut levels, mut tiers) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            match entry {
                Entry::Gate(gate) => gates.push(gate),
                Entry::Levels(situation, mix) => levels.push((situation, mix)),
                Entry::Lines(tier, times) => tiers.push((tier, times)),
            }
        }
        let calibration = Calibration::new(gates).with_levels(levels);
        Ok(Some(calibration.with_tiers(tiers)))
    }

    /// The calibration for the database in `dir`. Logs a warning if the stored one must not be used.
    pub(crate) fn of_database(dir: &Path) -> Calibration {
        match Calibration::read(dir) {
            Ok(calibration) => calibration.unwrap_or_default(),
            Err(error) => {
                tracing::warn!("{error}");
                Calibration::default()
            }
        }
    }

    /// Writes it into a database's directory, to be used from the next open on. Returns the path.
    ///
    /// # Errors
    /// The system's; an existing calibration stays.
    pub fn write(&self, dir: &Path) -> io::Result<PathBuf> {
        let path = dir.join(CALIBRATION_FILE);
        let mut text = String::new();
        for GateCalibration { kind, speed, start } in &self.entries {
            let far = text_of(start.far);
            let GateStart { size, first, .. } = start;
            writeln!(text, "{kind} {speed} {far} = {size} {first}")
                .expect("no writer of strings fails");
        }
        for (situation, mix) in self.levels.entries() {
            let Situation {
                speed,
                far,
                operator,
                threads,
                columns,
            } = situation;
            let far = text_of(*far);
            writeln!(
                text,
                "{LEVELS} {speed} {far} {operator} {threads} {columns} = {mix}"
            )
            .expect("no writer of strings fails");
        }
        for (tier, times) in &self.tiers {
            let LineTimes {
                in_order_ns,
                alone_ns,
                shared_ns,
            } = times;
            writeln!(
                text,
                "{LINES} {in_order_ns} {alone_ns} {shared_ns} = {tier}"
            )
            .expect("no writer of strings fails");
        }
        FORMAT.write(&path, &text)?;
        Ok(path)
    }
}

enum Entry {
    Gate(GateCalibration),
    Levels(Situation, Mix),
    Lines(String, LineTimes),
}

fn text_of(far: Option<FarMemory>) -> String {
    far.map_or(OFF.to_owned(), |far| far.to_string())
}

fn tier(text: &str) -> Result<Speed, String> {
    let mut speeds = [Speed::Near, Speed::Far].into_iter();
    let named = speeds.find(|speed| speed.to_string() == text);
    named.ok_or_else(|| format!("{text:?} is no tier"))
}

fn entry(line: &str) -> Result<Entry, String> {
    match line.split_once(' ') {
        Some((LEVELS, line)) => levels(line).map(|(situation, mix)| Entry::Levels(situation, mix)),
        Some((LINES, line)) => lines(line).map(|(tier, times)| Entry::Lines(tier, times)),
        _ => gate(line).map(Entry::Gate),
    }
}

fn lines(line: &str) -> Result<(String, LineTimes), String> {
    let expected = || {
        format!(
            "expected two times above 0 and one of at least 0 in nanoseconds = a tier, found {line:?}"
        )
    };
    let (times, tier) = line.split_once(" = ").ok_or_else(expected)?;
    let &[in_order, alone, shared] = &words(times)[..] else {
        return Err(expected());
    };
    let time = |text: &str| {
        let ns = text.parse().ok();
        ns.filter(|ns: &f64| ns.is_finite() && *ns >= 0.0)
            .ok_or_else(expected)
    };
    let times = LineTimes {
        in_order_ns: time(in_order)?,
        alone_ns: time(alone)?,
        shared_ns: time(shared)?,
    };
    if times.in_order_ns == 0.0 || times.alone_ns == 0.0 {
        return Err(expected());
    }
    Ok((tier.to_owned(), times))
}

fn levels(line: &str) -> Result<(Situation, Mix), String> {
    let expected = || {
        format!(
            "expected a tier, far memory, an operator, threads and columns = a mix, found {line:?}"
        )
    };
    let (what, mix) = line.split_once(" = ").ok_or_else(expected)?;
    let &[speed, far, operator, threads, columns] = &words(what)[..] else {
        return Err(expected());
    };
    let situation = Situation {
        speed: tier(speed)?,
        far: emulation::parse(far).map_err(said)?,
        operator: operator.parse()?,
        threads: threads.parse().map_err(said)?,
        columns: columns.parse().map_err(said)?,
    };
    Ok((situation, mix.parse()?))
}

fn gate(line: &str) -> Result<GateCalibration, String> {
    let expected =
        || format!("expected a lookup, a tier and far memory = a size and a mode, found {line:?}");
    let (what, start) = line.split_once(" = ").ok_or_else(expected)?;
    let (&[kind, tier, far], &[size, first]) = (&words(what)[..], &words(start)[..]) else {
        return Err(expected());
    };
    Ok(GateCalibration {
        kind: kind.parse()?,
        speed: self::tier(tier)?,
        start: GateStart {
            far: emulation::parse(far).map_err(said)?,
            size: size.parse().map_err(said)?,
            first: first.parse().map_err(said)?,
        },
    })
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

fn said(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use tierra_interleave::{Execution, GroupSize};

    use super::*;
    use crate::calibration::{LookupKind, Operator};

    fn some() -> Calibration {
        let entry = |kind, speed, far, size, first| GateCalibration {
            kind,
            speed,
            start: GateStart {
                far,
                size: GroupSize::new(size).unwrap(),
                first,
            },
        };
        let far = FarMemory {
            everywhere: true,
            ..FarMemory::REMOTE_SOCKET
        };
        let (plain, interleaved) = (Execution::Plain, Execution::Interleaved);
        let situation = |operator, far, threads| Situation {
            speed: Speed::Far,
            far,
            operator,
            threads,
            columns: 4,
        };
        let mix = |text: &str| text.parse().unwrap();
        let gates = vec![
            entry(LookupKind::Key, Speed::Near, None, 40, interleaved),
            entry(LookupKind::Cell, Speed::Far, None, 1, plain),
            entry(LookupKind::Cell, Speed::Far, Some(far), 64, interleaved),
        ];
        Calibration::new(gates)
            .with_levels(vec![
                (
                    situation(Operator::Aggregate, None, 24),
                    mix("scalar 1 18 no, avx512 19 24 no"),
                ),
                (
                    situation(Operator::Select, Some(far), 2),
                    mix("sse4.2 1 2 yes, avx2 1 2 yes"),
                ),
            ])
            .with_tiers(vec![(
                "b = c".to_owned(),
                LineTimes {
                    in_order_ns: 4.25,
                    alone_ns: 1e3,
                    shared_ns: 0.5,
                },
            )])
    }

    #[test]
    fn what_was_written_is_read_and_none_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Calibration::read(dir.path()).unwrap(), None);
        assert_eq!(Calibration::of_database(dir.path()), Calibration::default());
        for calibration in [Calibration::default(), some()] {
            calibration.write(dir.path()).unwrap();
            let read = Calibration::read(dir.path()).unwrap();
            assert_eq!(read.as_ref(), Some(&calibration));
            assert_eq!(Calibration::of_database(dir.path()), calibration);
        }
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        for (line, named) in [
            ("cell far off = 0 plain", "from 1 to 64"),
            ("cell far off = 65 plain", "from 1 to 64"),
            ("cell far off = many plain", "from 1 to 64"),
            ("cell far off = 48 often", "'plain' or 'interleaved'"),
            ("cell far latency=fast = 48 plain", "latency"),
            ("cell far octane = 48 plain", "octane"),
            ("cell away off = 48 plain", "no tier"),
            ("hash near off = 48 plain", "no kind of lookup"),
            ("levels far off aggregate 2 1", "expected a tier"),
            ("levels far off sort 2 1 = scalar 1 2 no", "no operator"),
            ("levels far off select 2 1 = scalar 2 1 no", "two cores"),
            ("levels far off select 2 1 = mmx 1 2 no", "mmx"),
            ("lines 5.1 = far", "two times"),
            ("lines 5.1 90 = far", "two times"),
            ("lines 5.1 0 1 = far", "two times"),
            ("lines 5.1 inf 1 = far", "two times"),
            ("lines 5.1 90 -1 = far", "two times"),
            ("cell far off 48 plain", "expected a lookup"),
            ("", "expected a lookup"),
        ] {
            let lines = format!("key near off = 48 plain\n{line}\n");
            FORMAT
                .write(&dir.path().join(CALIBRATION_FILE), &lines)
                .unwrap();
            let said = Calibration::read(dir.path()).unwrap_err().to_string();
            assert!(said.contains(named) && said.contains("line 4"), "{said}");
            assert_eq!(Calibration::of_database(dir.path()), Calibration::default());
        }
    }
}
