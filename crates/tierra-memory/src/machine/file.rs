//! Files of what was measured on a machine: text, an entry a line.
//!
//! ```text
//! tierra calibration 2                           what it is, and its version
//! machine = "Some CPU, L1 Data 48K, L2 Unified 1024K, L3 Unified 32768K, 24 GiB"
//! key near off = 48 interleaved                  entries
//! crc32c = 0x1a2b3c4d                            of everything before this line
//! ```
//! Invariant: only a whole file of this version that this machine wrote is used. Any other affects nothing but
//! how fast things are, so callers continue without it, and log that once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::describe;
use crate::directory::Directory;

/// A kind of such files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredFile {
    /// Its name in messages and, behind "tierra", in the first line.
    pub what: &'static str,
    /// What is written, and the only one that is read.
    pub version: u32,
    /// A file that is longer, in bytes, is none.
    pub len_max: u64,
}

/// Why what was measured is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasuredFileError {
    /// The file is there and cannot be read.
    #[error("cannot read the {what} {}: {source}", path.display())]
    Io {
        /// What the file is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It is cut short, damaged, or something else.
    #[error("ignoring the {what} {}: {why}; run `tierra calibrate` again", path.display())]
    Damaged {
        /// What the file is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It was written by an older or a newer Tierra.
    #[error(
        "ignoring the {what} {}: it is of version {theirs}, this Tierra reads version {ours}; run \
         `tierra calibrate` again",
        path.display()
    )]
    Version {
        /// What the file is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Its version.
        theirs: u32,
        /// The one that is read.
        ours: u32,
    },
    /// It was measured elsewhere.
    #[error(
        "ignoring the {what} {}: it was measured on another machine ({theirs}), this is {ours}; run \
         `tierra calibrate` again",
        path.display()
    )]
    Machine {
        /// What the file is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Where it was measured.
        theirs: String,
        /// Where it would be used.
        ours: String,
    },
}

impl MeasuredFile {
    /// The entries of a file; `None` where there is none. `entry` reads a line, or says what is wrong with it.
    ///
    /// # Errors
    /// [`MeasuredFileError`] where it must not be used.
    pub fn read<E>(
        &self,
        path: &Path,
        entry: impl FnMut(&str) -> Result<E, String>,
    ) -> Result<Option<Vec<E>>, MeasuredFileError> {
        let bytes = match fs::metadata(path) {
            Ok(found) if found.len() > self.len_max => {
                return Err(self.damaged(path, format!("it is {} bytes long", found.len())));
            }
            Ok(_) => fs::read(path),
            Err(error) => Err(error),
        };
        match bytes {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                self.parse(&text, &describe(), path, entry).map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(MeasuredFileError::Io {
                what: self.what,
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Writes a file of these lines, each with its line end.
    ///
    /// # Errors
    /// The system's; a file that was there before stays.
    pub fn write(&self, path: &Path, entries: &str) -> io::Result<()> {
        let parts = (
            path.parent(),
            path.file_name().and_then(|name| name.to_str()),
        );
        let (Some(dir), Some(name)) = parts else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let text = self.text(&describe(), entries);
        Directory::new(dir, None).replace(name, text.as_bytes())
    }

    fn text(&self, machine: &str, entries: &str) -> String {
        let MeasuredFile { what, version, .. } = self;
        sealed(&format!(
            "tierra {what} {version}\nmachine = {machine:?}\n{entries}"
        ))
    }

    fn parse<E>(
        &self,
        text: &str,
        machine: &str,
        path: &Path,
        mut entry: impl FnMut(&str) -> Result<E, String>,
    ) -> Result<Vec<E>, MeasuredFileError> {
        let damaged = |why: &str| self.damaged(path, why.to_owned());
        let first = format!("tierra {} ", self.what);
        let version = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix(&first));
        let Some(theirs) = version.and_then(|version| version.parse().ok()) else {
            return Err(damaged(&format!(
                "it does not begin with \"{first}\" and a version"
            )));
        };
        if theirs != self.version {
            return Err(MeasuredFileError::Version {
                what: self.what,
                path: path.to_owned(),
                theirs,
                ours: self.version,
            });
        }
        let end = text.rfind("crc32c = ");
        let body = &text[..end.ok_or_else(|| damaged("it is cut short"))?];
        if text != sealed(body) {
            return Err(damaged("its checksum does not match"));
        }
        let mut lines = body.lines().enumerate().skip(1);
        let theirs = lines
            .next()
            .and_then(|(_, line)| line.strip_prefix("machine = "));
        let theirs = theirs.ok_or_else(|| damaged("it names no machine"))?;
        if theirs != format!("{machine:?}") {
            return Err(MeasuredFileError::Machine {
                what: self.what,
                path: path.to_owned(),
                theirs: theirs.trim_matches('"').to_owned(),
                ours: machine.to_owned(),
            });
        }
        let entry = |(at, line): (usize, &str)| {
            entry(line).map_err(|why| damaged(&format!("line {}: {why}", at + 1)))
        };
        lines.map(entry).collect()
    }

    fn damaged(&self, path: &Path, why: String) -> MeasuredFileError {
        MeasuredFileError::Damaged {
            what: self.what,
            path: path.to_owned(),
            why,
        }
    }
}

/// With the checksum's line.
fn sealed(body: &str) -> String {
    format!("{body}crc32c = {:#010x}\n", crc32c::crc32c(body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: MeasuredFile = MeasuredFile {
        what: "calibration",
        version: 2,
        len_max: 1 << 10,
    };

    fn number(line: &str) -> Result<u32, String> {
        line.parse().map_err(|_| format!("{line:?} is no number"))
    }

    fn parse(text: &str) -> Result<Vec<u32>, MeasuredFileError> {
        FILE.parse(text, "this \"one\"", Path::new("f"), number)
    }

    #[test]
    fn what_was_written_is_read_and_none_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert_eq!(FILE.read(&path, number).unwrap(), None);
        for entries in ["", "7\n", "7\n8\n9\n"] {
            FILE.write(&path, entries).unwrap();
            let right = entries.lines().map(|line| line.parse().unwrap()).collect();
            assert_eq!(FILE.read(&path, number).unwrap(), Some(right));
        }
        fs::write(&path, vec![b' '; FILE.len_max as usize + 1]).unwrap();
        let error = FILE.read(&path, number).unwrap_err().to_string();
        assert!(error.contains("1025 bytes long"), "{error}");
    }

    #[test]
    fn a_file_that_was_cut_or_changed_anywhere_is_not_believed() {
        let text = FILE.text("this \"one\"", "7\n123456\n");
        assert_eq!(parse(&text).unwrap(), [7, 123_456]);
        for len in 0..text.len() {
            assert!(parse(&text[..len]).is_err(), "{len}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(parse(&changed).is_err(), "{changed}");
        }
        let message = parse(&text[..30]).unwrap_err().to_string();
        assert!(message.contains("cut short") && message.contains("tierra calibrate"));
    }

    #[test]
    fn other_versions_and_machines_are_refused_by_name() {
        let older = sealed("tierra calibration 1\nmachine = \"this\"\n7\n");
        let error = parse(&older).unwrap_err().to_string();
        assert!(
            error.contains("calibration f: it is of version 1"),
            "{error}"
        );
        let error = parse(&FILE.text("that", "7\n")).unwrap_err().to_string();
        let named = "another machine (that), this is this \"one\"";
        assert!(error.contains(named), "{error}");
        let error = parse(&FILE.text("this \"one\"", "7\nx\n")).unwrap_err();
        assert!(
            error.to_string().contains("line 4: \"x\" is no number"),
            "{error}"
        );
    }
}
