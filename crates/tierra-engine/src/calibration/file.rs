//! The file that keeps a calibration.
//!
//! ```text
//! tierra calibration 2
//! machine = "Some CPU, L1 Data 48K, L2 Unified 1024K, L3 Unified 32768K, 24 GiB"
//! key near off = 48 interleaved                  kind, tier, far memory emulated = size, mode
//! cell far off = 32 interleaved
//! cell far latency=300ns,misses=10,.. = 24 interleaved
//! crc32c = 0x1a2b3c4d                            of everything before this line
//! ```
//!
//! Version 1 knew keys and cells only.
//!
//! Invariant: only a whole file that this machine wrote is believed; any other changes nothing but how
//! fast look-ups are, so the database opens without it, and says so once.

use std::fmt::{Display, Write as _};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tierra_memory::{GateStart, Speed, emulation, machine};

use super::{Calibration, Entry};

const FILE: &str = "calibration";
const FIRST_LINE: &str = "tierra calibration 2";
/// A file that is longer is none.
const LEN_MAX: u64 = 1 << 16;
/// What stands for no emulation, here and in SQL.
const OFF: &str = "off";

/// Why a calibration is not used.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The file is there and cannot be read.
    #[error("cannot read the calibration {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It is cut short, damaged, of another version, or something else.
    #[error("ignoring the calibration {}: {why}; run `tierra calibrate` again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It was measured elsewhere.
    #[error(
        "ignoring the calibration {}: it was measured on another machine ({theirs}), this is {ours}; run \
         `tierra calibrate` again",
        path.display()
    )]
    Machine {
        /// The file.
        path: PathBuf,
        /// Where it was measured.
        theirs: String,
        /// Where it would be used.
        ours: String,
    },
}

impl Calibration {
    /// Reads the calibration of the database in `dir`; `None` where it has none.
    ///
    /// # Errors
    /// [`CalibrationError`] where it must not be used.
    pub fn read(dir: &Path) -> Result<Option<Calibration>, CalibrationError> {
        let path = dir.join(FILE);
        let text = match fs::metadata(&path) {
            Ok(found) if found.len() > LEN_MAX => {
                let why = format!("it is {} bytes long", found.len());
                return Err(CalibrationError::Damaged { path, why });
            }
            Ok(_) => fs::read(&path),
            Err(error) => Err(error),
        };
        match text {
            Ok(bytes) => parse(
                &String::from_utf8_lossy(&bytes),
                &machine::describe(),
                &path,
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => Err(CalibrationError::Io { path, source }),
        }
        .map(Some)
    }

    /// The calibration that the database in `dir` is to use. One that it must not use is warned of.
    pub(crate) fn of_database(dir: &Path) -> Calibration {
        match Calibration::read(dir) {
            Ok(calibration) => calibration.unwrap_or_default(),
            Err(error) => {
                tracing::warn!("{error}");
                Calibration::default()
            }
        }
    }

    /// Writes it into the directory of a database, for whoever opens that from now on. Returns where.
    ///
    /// # Errors
    /// The system's; a calibration that was there before stays.
    pub fn write(&self, dir: &Path) -> io::Result<PathBuf> {
        let (path, new) = (dir.join(FILE), dir.join("calibration.new"));
        fs::write(&new, self.text(&machine::describe()))?;
        fs::rename(&new, &path)?;
        Ok(path)
    }

    fn text(&self, machine: &str) -> String {
        let mut text = format!("{FIRST_LINE}\nmachine = {machine:?}\n");
        for Entry { kind, speed, start } in &self.entries {
            let far = start.far.map_or(OFF.to_owned(), |far| far.to_string());
            let GateStart { size, first, .. } = start;
            writeln!(text, "{kind} {speed} {far} = {size} {first}")
                .expect("no writer of strings fails");
        }
        let crc = crc32c::crc32c(text.as_bytes());
        writeln!(text, "crc32c = {crc:#010x}").expect("no writer of strings fails");
        text
    }
}

fn parse(text: &str, machine: &str, path: &Path) -> Result<Calibration, CalibrationError> {
    let damaged = |why: String| CalibrationError::Damaged {
        path: path.to_owned(),
        why,
    };
    if text.lines().next() != Some(FIRST_LINE) {
        return Err(damaged(format!("it does not begin with {FIRST_LINE:?}")));
    }
    let end = text.rfind("crc32c = ");
    let (body, last) = text.split_at(end.ok_or_else(|| damaged("it is cut short".to_owned()))?);
    if last != format!("crc32c = {:#010x}\n", crc32c::crc32c(body.as_bytes())) {
        return Err(damaged("its checksum does not match".to_owned()));
    }
    let mut lines = body.lines().enumerate().skip(1);
    let theirs = lines
        .next()
        .and_then(|(_, line)| line.strip_prefix("machine = "));
    let theirs = theirs.ok_or_else(|| damaged("it names no machine".to_owned()))?;
    if theirs != format!("{machine:?}") {
        return Err(CalibrationError::Machine {
            path: path.to_owned(),
            theirs: theirs.trim_matches('"').to_owned(),
            ours: machine.to_owned(),
        });
    }
    let entry = |(at, line): (usize, &str)| {
        entry(line).map_err(|why| damaged(format!("line {}: {why}", at + 1)))
    };
    let entries = lines.map(entry).collect::<Result<_, _>>()?;
    Ok(Calibration { entries })
}

fn entry(line: &str) -> Result<Entry, String> {
    let expected =
        || format!("expected a look-up, a tier and far memory = a size and a mode, found {line:?}");
    let (what, start) = line.split_once(" = ").ok_or_else(expected)?;
    let (&[kind, tier, far], &[size, first]) = (&words(what)[..], &words(start)[..]) else {
        return Err(expected());
    };
    let speed = [Speed::Near, Speed::Far]
        .into_iter()
        .find(|speed| speed.to_string() == tier);
    Ok(Entry {
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
        let entry = |kind, speed, far, size, first| Entry {
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
        fs::write(dir.path().join(FILE), vec![b' '; LEN_MAX as usize + 1]).unwrap();
        assert!(Calibration::read(dir.path()).is_err());
    }

    #[test]
    fn a_file_that_was_cut_or_changed_anywhere_is_not_believed() {
        let text = some().text("this");
        let path = Path::new("calibration");
        assert_eq!(parse(&text, "this", path).unwrap(), some());
        for len in 0..text.len() {
            assert!(parse(&text[..len], "this", path).is_err(), "{len}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(parse(&changed, "this", path).is_err(), "{changed}");
        }
        let message = parse(&text[..30], "this", path).unwrap_err().to_string();
        assert!(message.contains("cut short") && message.contains("tierra calibrate"));
    }

    /// The text with a checksum that holds.
    fn sealed(body: &str) -> String {
        format!("{body}crc32c = {:#010x}\n", crc32c::crc32c(body.as_bytes()))
    }

    #[test]
    fn the_first_version_and_another_machine_are_refused_by_name() {
        let path = Path::new("calibration");
        let first = sealed("tierra calibration 1\nmachine = \"this\"\nkey = 48\ncell = 56\n");
        let error = parse(&first, "this", path).unwrap_err().to_string();
        assert!(error.contains("\"tierra calibration 2\""), "{error}");
        let error = parse(&some().text("that \"one\""), "this", path).unwrap_err();
        assert!(error.to_string().contains("another machine"), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let head = "tierra calibration 2\nmachine = \"this\"\nkey near off = 48 plain\n";
        for (line, named) in [
            ("cell far off = 0 plain", "from 1 to 64"),
            ("cell far off = 65 plain", "from 1 to 64"),
            ("cell far off = many plain", "from 1 to 64"),
            ("cell far off = 48 often", "'plain' or 'interleaved'"),
            ("cell far latency=fast = 48 plain", "latency"),
            ("cell far octane = 48 plain", "octane"),
            ("cell away off = 48 plain", "no tier"),
            ("hash near off = 48 plain", "no kind of look-up"),
            ("cell far off 48 plain", "expected a look-up"),
            ("", "expected a look-up"),
        ] {
            let text = sealed(&format!("{head}{line}\n"));
            let error = parse(&text, "this", Path::new("calibration")).unwrap_err();
            let said = error.to_string();
            assert!(said.contains(named) && said.contains("line 4"), "{said}");
        }
    }
}
