//! The file that stores a calibration.
//!
//! ```text
//! key near off = 48 interleaved                  kind, tier, far memory emulated = size, mode
//! cell far off = 32 interleaved
//! cell far latency=300ns,misses=10,.. = 24 interleaved
//! ```
//! between the lines that every [`MeasuredFile`] has. Version 1 had keys and cells only.
//!
//! Invariant: only a whole file that this machine wrote is used. The database opens without any other and logs that once; only
//! the speed of lookups changes.

use std::fmt::{Display, Write as _};
use std::io;
use std::path::{Path, PathBuf};

use tierra_memory::machine::{MeasuredFile, MeasuredFileError};
use tierra_memory::{GateStart, Speed, emulation};

use super::{Calibration, GateCalibration};

const NAME: &str = "calibration";
const FILE: MeasuredFile = MeasuredFile {
    what: "calibration",
    version: 2,
    len_max: 1 << 16,
};
/// The word for no emulation, here and in SQL.
const OFF: &str = "off";

impl Calibration {
    /// Reads the calibration of the database in `dir`; `None` if it has none.
    ///
    /// # Errors
    /// [`MeasuredFileError`] if the file must not be used.
    pub fn read(dir: &Path) -> Result<Option<Calibration>, MeasuredFileError> {
        let entries = FILE.read(&dir.join(NAME), entry)?;
        Ok(entries.map(|entries| Calibration { entries }))
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
        let path = dir.join(NAME);
        let mut text = String::new();
        for GateCalibration { kind, speed, start } in &self.entries {
            let far = start.far.map_or(OFF.to_owned(), |far| far.to_string());
            let GateStart { size, first, .. } = start;
            writeln!(text, "{kind} {speed} {far} = {size} {first}")
                .expect("no writer of strings fails");
        }
        FILE.write(&path, &text)?;
        Ok(path)
    }
}

fn entry(line: &str) -> Result<GateCalibration, String> {
    let expected =
        || format!("expected a lookup, a tier and far memory = a size and a mode, found {line:?}");
    let (what, start) = line.split_once(" = ").ok_or_else(expected)?;
    let (&[kind, tier, far], &[size, first]) = (&words(what)[..], &words(start)[..]) else {
        return Err(expected());
    };
    let speed = [Speed::Near, Speed::Far]
        .into_iter()
        .find(|speed| speed.to_string() == tier);
    Ok(GateCalibration {
        kind: kind.parse()?,
        speed: speed.ok_or_else(|| format!("{tier:?} is no tier"))?,
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
    use tierra_memory::emulation::FarMemory;

    use super::*;
    use crate::calibration::LookupKind;

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
        Calibration {
            entries: vec![
                entry(LookupKind::Key, Speed::Near, None, 40, interleaved),
                entry(LookupKind::Cell, Speed::Far, None, 1, plain),
                entry(LookupKind::Cell, Speed::Far, Some(far), 64, interleaved),
            ],
        }
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
            ("cell far off 48 plain", "expected a lookup"),
            ("", "expected a lookup"),
        ] {
            let lines = format!("key near off = 48 plain\n{line}\n");
            FILE.write(&dir.path().join(NAME), &lines).unwrap();
            let said = Calibration::read(dir.path()).unwrap_err().to_string();
            assert!(said.contains(named) && said.contains("line 4"), "{said}");
            assert_eq!(Calibration::of_database(dir.path()), Calibration::default());
        }
    }
}
