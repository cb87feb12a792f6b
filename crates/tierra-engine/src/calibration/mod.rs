//! Group sizes measured on this machine, kept as a file in the database's directory.
//!
//! ```text
//! tierra calibration 1
//! machine = "Some CPU, L1 Data 48K, L2 Unified 1024K, L3 Unified 32768K, 24 GiB"
//! key = 48
//! cell = 56
//! crc32c = 0x1a2b3c4d        (of everything before this line)
//! ```
//!
//! Invariant: only a whole file that this machine wrote is believed; any other changes nothing but
//! how fast look-ups are, so the database opens without it, and says so once.

mod machine;
mod measure;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tierra_interleave::{GroupSize, ParseGroupSizeError};

pub use measure::{CALIBRATION_STEPS, CalibrateError};

const FILE: &str = "calibration";
const FIRST_LINE: &str = "tierra calibration 1";
/// A file that is longer is none.
const LEN_MAX: u64 = 4096;

/// How many look-ups of each kind take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// Of keys in a near index.
    pub key: GroupSize,
    /// Of cells: a code in the far pool, then a value in a near dictionary.
    pub cell: GroupSize,
}

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
    /// It is cut short, damaged, or something else.
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
    pub(crate) fn of(dir: &Path) -> Calibration {
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
        let mut text = format!(
            "{FIRST_LINE}\nmachine = {machine:?}\nkey = {}\ncell = {}\n",
            self.key, self.cell
        );
        let crc = crc32c::crc32c(text.as_bytes());
        writeln!(text, "crc32c = {crc:#010x}").expect("strings can be written to");
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
    let value = |name: &str| {
        let value = body.lines().find_map(|line| {
            let (key, value) = line.split_once(" = ")?;
            (key == name).then_some(value)
        });
        value.ok_or_else(|| damaged(format!("it has no {name}")))
    };
    let theirs = value("machine")?;
    if theirs != format!("{machine:?}") {
        return Err(CalibrationError::Machine {
            path: path.to_owned(),
            theirs: theirs.trim_matches('"').to_owned(),
            ours: machine.to_owned(),
        });
    }
    let size = |name: &str| {
        value(name)?
            .parse()
            .map_err(|error: ParseGroupSizeError| damaged(format!("{name}: {error}")))
    };
    Ok(Calibration {
        key: size("key")?,
        cell: size("cell")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(key: usize, cell: usize) -> Calibration {
        Calibration {
            key: GroupSize::new(key).unwrap(),
            cell: GroupSize::new(cell).unwrap(),
        }
    }

    #[test]
    fn what_was_written_is_read_and_none_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Calibration::read(dir.path()).unwrap(), None);
        assert_eq!(Calibration::of(dir.path()), Calibration::default());
        for calibration in [sizes(1, 64), sizes(40, 24)] {
            calibration.write(dir.path()).unwrap();
            assert_eq!(Calibration::read(dir.path()).unwrap(), Some(calibration));
            assert_eq!(Calibration::of(dir.path()), calibration);
        }
        fs::write(dir.path().join(FILE), vec![b' '; LEN_MAX as usize + 1]).unwrap();
        assert!(Calibration::read(dir.path()).is_err());
    }

    #[test]
    fn a_file_that_was_cut_or_changed_anywhere_is_not_believed() {
        let text = sizes(40, 24).text("this");
        let path = Path::new("calibration");
        assert_eq!(parse(&text, "this", path).unwrap(), sizes(40, 24));
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

    #[test]
    fn another_machine_and_sizes_out_of_range_are_refused_by_name() {
        let path = Path::new("calibration");
        let error = parse(&sizes(40, 24).text("that \"one\""), "this", path).unwrap_err();
        assert!(error.to_string().contains("another machine"), "{error}");
        for bad in ["0", "65", "many"] {
            let text = sizes(40, 24)
                .text("this")
                .replace("key = 40", &format!("key = {bad}"));
            let body = &text[..text.find("crc32c").unwrap()];
            let text = format!("{body}crc32c = {:#010x}\n", crc32c::crc32c(body.as_bytes()));
            let error = parse(&text, "this", path).unwrap_err().to_string();
            assert!(
                error.contains("from 1 to 64") && error.contains("key"),
                "{error}"
            );
        }
    }
}
