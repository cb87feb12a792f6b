//! The text of the directory file: what a database's directory records about the database.
//!
//! ```text
//! tierra database 1                                      the kind of file, and the format's version
//! sequence 7                                             counts the versions of the file
//! id 0123456789abcdef0123456789abcdef                    the database
//! was fedcba9876543210fedcba9876543210                   only while an adoption is not finished
//! state ready                                            or `creating`, `restoring`, `salvaging`
//! lineage 0123456789abcdef                               the newest mark, or `none`
//! tier far 0123456789abcdef there in-place far.pool      name, pool's id, state, access, path
//! tier b fedcba9876543210 adding auto /mnt/pmem/a pool
//! crc32c 1a2b3c4d                                        of everything before this line
//! ```
//!
//! A path is relative if the pool lies inside the directory. It ends with its line, and may contain any other byte.
//!
//! Invariant: `parse(encode(f)) == f`. What `parse` accepts names every tier once, and its relative paths stay inside the
//! directory.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::manifest::DatabaseId;
use crate::spec::replicas::TIERS_MOST;
use crate::storage::access::Access;

/// The format that is written, and the only one that is read.
const VERSION: u32 = 1;
/// A longer file is invalid: this holds 64 tiers with the longest paths that Linux accepts.
pub(super) const LEN_MAX: u64 = 1 << 19;

/// The state of the database's creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreationState {
    /// The creation has not finished: nothing was ever stored.
    Creating,
    /// It is being restored from a backup, which has not finished: nothing else was ever stored.
    Restoring,
    /// A salvage into it has not finished: nothing else was ever stored.
    Salvaging,
    Ready,
}

/// What is known of a tier besides its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TierState {
    There,
    /// Its pool may not exist, and no manifest may name it.
    Adding,
    /// Its pool still names another directory, which no longer exists.
    Taken,
}

/// A tier in the directory file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TierLine {
    pub(crate) name: String,
    pub(crate) pool_id: u64,
    pub(crate) state: TierState,
    /// How scans reach its blocks.
    pub(crate) access: Access,
    /// Relative to the directory, or absolute.
    pub(crate) path: PathBuf,
}

/// One version of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryFile {
    pub(crate) sequence: u64,
    pub(crate) database: DatabaseId,
    /// The former id, which pools being adopted may still have.
    pub(crate) former: Option<DatabaseId>,
    pub(crate) state: CreationState,
    /// The last lineage mark of the newest manifest. A manifest without it is not the newest.
    pub(crate) lineage: Option<u64>,
    pub(crate) tiers: Vec<TierLine>,
}

/// A fault of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Written by another version of Tierra.
    Version(u32),
    /// In that line, counted from 1.
    Line(usize, String),
}

impl DirectoryFile {
    /// The file of a database that is about to be created.
    pub(crate) fn new(database: DatabaseId) -> DirectoryFile {
        DirectoryFile {
            sequence: 0,
            database,
            former: None,
            state: CreationState::Creating,
            lineage: None,
            tiers: Vec::new(),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut head = format!(
            "tierra database {VERSION}\nsequence {}\nid {:032x}\n",
            self.sequence, self.database.0
        );
        // Writing to a string never fails.
        if let Some(former) = self.former {
            let _ = writeln!(head, "was {:032x}", former.0);
        }
        let state = match self.state {
            CreationState::Creating => "creating",
            CreationState::Restoring => "restoring",
            CreationState::Salvaging => "salvaging",
            CreationState::Ready => "ready",
        };
        let _ = writeln!(head, "state {state}");
        let _ = match self.lineage {
            Some(mark) => writeln!(head, "lineage {mark:016x}"),
            None => writeln!(head, "lineage none"),
        };
        let mut bytes = head.into_bytes();
        for tier in &self.tiers {
            let state = match tier.state {
                TierState::There => "there",
                TierState::Adding => "adding",
                TierState::Taken => "taken",
            };
            bytes.extend(
                format!(
                    "tier {} {:016x} {state} {} ",
                    tier.name, tier.pool_id, tier.access
                )
                .into_bytes(),
            );
            bytes.extend(tier.path.as_os_str().as_bytes());
            bytes.push(b'\n');
        }
        let crc = crc32c::crc32c(&bytes);
        bytes.extend(format!("crc32c {crc:08x}\n").into_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<DirectoryFile, Fault> {
        let Some((lines, check)) = split_check(bytes) else {
            return Err(Fault::Line(
                1,
                "it does not end with a check line".to_owned(),
            ));
        };
        let mut lines = Lines {
            rest: lines,
            number: 0,
        };
        let version = lines.text("tierra database ")?;
        let version = lines.number(version)?;
        if version != VERSION {
            return Err(Fault::Version(version));
        }
        let sequence = lines.text("sequence ")?;
        let sequence = lines.number(sequence)?;
        let id = lines.text("id ")?;
        let database = DatabaseId(lines.hex(id, 32)?);
        let former = match lines.is_next("was ") {
            true => {
                let former = lines.text("was ")?;
                Some(DatabaseId(lines.hex(former, 32)?))
            }
            false => None,
        };
        let state = match lines.text("state ")? {
            "creating" => CreationState::Creating,
            "restoring" => CreationState::Restoring,
            "salvaging" => CreationState::Salvaging,
            "ready" => CreationState::Ready,
            other => {
                return Err(lines.fault(format!(
                    "{other:?} is none of ready, creating and restoring"
                )));
            }
        };
        let lineage = match lines.text("lineage ")? {
            "none" => None,
            // At most 64 bits, because of its length.
            mark => Some(lines.hex(mark, 16)? as u64),
        };
        let mut tiers: Vec<TierLine> = Vec::new();
        while !lines.rest.is_empty() {
            let line = lines.bytes("tier ")?;
            let tier = lines.tier(line)?;
            if tiers.len() == TIERS_MOST || tiers.iter().any(|other| is_clash(other, &tier)) {
                return Err(lines.fault(format!(
                    "tier {:?} comes twice, or is one too many",
                    tier.name
                )));
            }
            tiers.push(tier);
        }
        if tiers.is_empty() {
            return Err(lines.fault("it names no tier".to_owned()));
        }
        let found = crc32c::crc32c(&bytes[..bytes.len() - CHECK_BYTES]);
        lines.number += 1;
        if lines.hex(check, 8)? != u128::from(found) {
            return Err(lines.fault(format!(
                "its check is {check}, that of its lines is {found:08x}"
            )));
        }
        Ok(DirectoryFile {
            sequence,
            database,
            former,
            state,
            lineage,
            tiers,
        })
    }
}

fn is_clash(one: &TierLine, other: &TierLine) -> bool {
    one.name == other.name || one.pool_id == other.pool_id || one.path == other.path
}

/// `crc32c 1a2b3c4d\n`
const CHECK_BYTES: usize = 16;

/// The text before the last line, and the checksum in the last line.
fn split_check(bytes: &[u8]) -> Option<(&[u8], &str)> {
    let at = bytes.len().checked_sub(CHECK_BYTES)?;
    let (lines, check) = bytes.split_at(at);
    let check = check.strip_prefix(b"crc32c ")?.strip_suffix(b"\n")?;
    Some((lines, std::str::from_utf8(check).ok()?))
}

/// The lines that are left to read.
struct Lines<'a> {
    rest: &'a [u8],
    /// Number of the line read last, from 1.
    number: usize,
}

impl<'a> Lines<'a> {
    fn is_next(&self, word: &str) -> bool {
        self.rest.starts_with(word.as_bytes())
    }

    /// The rest of a line that begins with this word.
    fn bytes(&mut self, word: &str) -> Result<&'a [u8], Fault> {
        self.number += 1;
        let missing = || Fault::Line(self.number, format!("there is no `{}`", word.trim_end()));
        let end = self
            .rest
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or_else(missing)?;
        let line = self.rest[..end]
            .strip_prefix(word.as_bytes())
            .ok_or_else(missing)?;
        self.rest = &self.rest[end + 1..];
        Ok(line)
    }

    fn text(&mut self, word: &str) -> Result<&'a str, Fault> {
        let bytes = self.bytes(word)?;
        std::str::from_utf8(bytes).map_err(|_| self.fault("it is no text".to_owned()))
    }

    fn fault(&self, what: String) -> Fault {
        Fault::Line(self.number, what)
    }

    fn number<T: std::str::FromStr>(&self, text: &str) -> Result<T, Fault> {
        let is_plain = text == "0" || !text.starts_with(['0', '+']);
        let number = text.parse().ok().filter(|_| is_plain);
        number.ok_or_else(|| self.fault(format!("{text:?} is no number")))
    }

    /// A number of exactly this many lower-case digits.
    fn hex(&self, text: &str, digits: usize) -> Result<u128, Fault> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_hex = text.len() == digits && text.bytes().all(is_digit);
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number.ok_or_else(|| self.fault(format!("{text:?} is no number of {digits} digits")))
    }

    fn tier(&self, line: &[u8]) -> Result<TierLine, Fault> {
        let mut words = line.splitn(5, |byte| *byte == b' ');
        let mut word = || {
            let word = words.next().unwrap_or_default();
            std::str::from_utf8(word).unwrap_or_default()
        };
        let (name, pool_id, state, access) = (word(), word(), word(), word());
        let path = Path::new(OsStr::from_bytes(words.next().unwrap_or_default()));
        if !super::is_tier_name(name) {
            return Err(self.fault(format!("{name:?} cannot name a tier")));
        }
        let state = match state {
            "there" => TierState::There,
            "adding" => TierState::Adding,
            "taken" => TierState::Taken,
            other => return Err(self.fault(format!("tier {name:?} cannot be {other:?}"))),
        };
        let access = access
            .parse()
            .map_err(|error| self.fault(format!("tier {name:?}: {error}")))?;
        if !is_path(path) {
            let path = path.display();
            return Err(self.fault(format!("`{path}` cannot be the path of a pool")));
        }
        Ok(TierLine {
            name: name.to_owned(),
            pool_id: self.hex(pool_id, 16)? as u64,
            state,
            access,
            path: path.to_owned(),
        })
    }
}

/// Whether a path can be stored: absolute, or inside the directory.
pub(super) fn is_path(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let stays = || {
        path.components()
            .all(|part| matches!(part, Component::Normal(_)))
    };
    !bytes.is_empty()
        && !bytes.contains(&b'\n')
        && !bytes.contains(&0)
        && (path.is_absolute() || stays())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tierra_memory::CopyMethod;

    fn some() -> DirectoryFile {
        let tier = |name: &str, pool_id, state, access, path: &[u8]| TierLine {
            name: name.to_owned(),
            pool_id,
            state,
            access,
            path: Path::new(OsStr::from_bytes(path)).to_owned(),
        };
        DirectoryFile {
            sequence: 7,
            database: DatabaseId(1 << 100 | 5),
            former: None,
            state: CreationState::Ready,
            lineage: Some(3),
            tiers: vec![
                tier("far", 1, TierState::There, Access::InPlace, b"far.pool"),
                tier(
                    "b",
                    2,
                    TierState::Adding,
                    Access::Framed(CopyMethod::Direct),
                    b"/mnt/a pool \xff",
                ),
                tier("c", u64::MAX, TierState::Taken, Access::Auto, b"deep/er/c"),
            ],
        }
    }

    fn resealed(text: &[u8]) -> Vec<u8> {
        let mut bytes = text.to_vec();
        let crc = crc32c::crc32c(&bytes);
        bytes.extend(format!("crc32c {crc:08x}\n").into_bytes());
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let all = [
            some(),
            DirectoryFile {
                former: Some(DatabaseId(9)),
                lineage: None,
                state: CreationState::Creating,
                sequence: u64::MAX,
                ..some()
            },
            DirectoryFile {
                state: CreationState::Restoring,
                ..some()
            },
            DirectoryFile {
                state: CreationState::Salvaging,
                ..some()
            },
        ];
        for file in all {
            assert_eq!(DirectoryFile::parse(&file.encode()), Ok(file));
        }
    }

    #[test]
    fn no_damaged_byte_and_no_cut_is_believed() {
        let bytes = some().encode();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(
                    DirectoryFile::parse(&damaged).is_err(),
                    "byte {at}, bit {bit}"
                );
            }
            assert!(DirectoryFile::parse(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn what_cannot_be_is_named_with_its_line() {
        let bytes = some().encode();
        let text = &bytes[..bytes.len() - CHECK_BYTES];
        let find = |part: &str| {
            text.windows(part.len())
                .position(|at| at == part.as_bytes())
        };
        for (from, to, line, named) in [
            ("sequence 7", "sequence 07", 2, "no number"),
            ("sequence 7", "sequence -7", 2, "no number"),
            ("id 0000", "id 00", 3, "32 digits"),
            ("state ready", "state done", 4, "none of ready, creating"),
            ("lineage 0", "lineage x", 5, "16 digits"),
            ("tier far ", "tier f/r ", 6, "cannot name a tier"),
            (
                "there in-place far.pool",
                "gone in-place far.pool",
                6,
                "cannot be \"gone\"",
            ),
            ("far.pool", "../far.pool", 6, "cannot be the path"),
            ("far.pool", "./far.pool", 6, "cannot be the path"),
            ("in-place far.pool", "in-place ", 6, "cannot be the path"),
            ("in-place far", "swapped far", 6, "'swapped' is none of"),
            ("tier b ", "tier far ", 7, "comes twice"),
            ("0000000000000002", "0000000000000001", 7, "comes twice"),
            (
                "/mnt/a pool ",
                "far.pool\ntier d 0000000000000009 there auto x",
                7,
                "comes twice",
            ),
            ("lineage 0", "tier 0", 5, "there is no `lineage`"),
        ] {
            let at = find(from).expect(from);
            let wrong = [&text[..at], to.as_bytes(), &text[at + from.len()..]].concat();
            match DirectoryFile::parse(&resealed(&wrong)) {
                Err(Fault::Line(found, what)) => {
                    assert!(
                        found == line && what.contains(named),
                        "{to}: {found}: {what}"
                    );
                }
                other => panic!("{to}: {other:?}"),
            }
        }
        let newer = [b"tierra database 2\n", &text[18..]].concat();
        assert_eq!(
            DirectoryFile::parse(&resealed(&newer)),
            Err(Fault::Version(2))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_what_they_say(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for bytes in [resealed(&bytes), bytes] {
                if let Ok(file) = DirectoryFile::parse(&bytes) {
                    prop_assert_eq!(file.encode(), bytes);
                }
            }
        }
    }
}
