//! What every composition takes in every situation, measured on this machine and kept as a file.
//!
//! ```text
//! tierra replication profile 1
//! machine = "Some CPU, L1 Data 48K, L2 Unified 1024K, L3 Unified 32768K, 24 GiB"
//! random 3 4 = SF+PF:1831 SF:1902 basic:6804          (tenths of nanoseconds)
//! transaction sequential 3 1048576 = ..
//! crc32c = 0x1a2b3c4d        (of everything before this line)
//! ```
//! One file is for one kind of memory: pools of the kind that it was measured on.
//!
//! Invariant: only a whole file that this machine wrote is believed; any other changes nothing but how fast
//! writes are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::method::Composition;
use super::switch::{Situation, Switch, class_bytes, size_class};
use crate::machine;

const FIRST_LINE: &str = "tierra replication profile 1";
/// A file that is longer is none.
const LEN_MAX: u64 = 4 << 20;
/// A composition this much slower than the best, in hundredths, is as good as the best if it saves a switch
/// between neighbours.
const AS_GOOD_PERCENT: u64 = 101;

/// What was measured: tenths of nanoseconds per write, of each composition in each situation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    cells: BTreeMap<Situation, Vec<(Composition, u64)>>,
}

/// Why a profile is not used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file is there and cannot be read.
    #[error("cannot read the replication profile {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It is cut short, damaged, or something else.
    #[error("ignoring the replication profile {}: {why}; measure it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It was measured elsewhere.
    #[error(
        "ignoring the replication profile {}: it was measured on another machine ({theirs}), this is {ours}; \
         measure it again",
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

impl Profile {
    /// Takes note of a measurement.
    pub(super) fn add(&mut self, situation: Situation, composition: Composition, tenths_ns: u64) {
        let cell = self.cells.entry(situation).or_default();
        cell.push((composition, tenths_ns));
        cell.sort_by_key(|(_, tenths_ns)| *tenths_ns);
    }

    /// Compositions of a situation with tenths of nanoseconds a write takes, the best first; none where
    /// it was not measured.
    pub fn measured(&self, situation: Situation) -> &[(Composition, u64)] {
        self.cells.get(&situation).map_or(&[], Vec::as_slice)
    }

    /// The decision tree: in each situation the best composition, or that of the next shorter writes where it
    /// is as good. Numbers of replicas that were not measured are taken for the nearest that was.
    pub fn switch(&self) -> Switch {
        let fallback = Switch::uncalibrated();
        let mut before: Option<(Situation, Composition)> = None;
        Switch::of(|situation| {
            let Some(cell) = self.nearest(situation) else {
                return fallback.choose(situation);
            };
            let (best, least) = cell[0];
            let shorter = Situation {
                size_class: situation.size_class.wrapping_sub(1),
                ..situation
            };
            let kept = before
                .filter(|(last, _)| *last == shorter)
                .and_then(|(_, composition)| cell.iter().find(|(one, _)| *one == composition))
                .filter(|(_, tenths_ns)| tenths_ns * 100 <= least * AS_GOOD_PERCENT);
            let chosen = kept.map_or(best, |(composition, _)| *composition);
            before = Some((situation, chosen));
            chosen
        })
    }

    fn nearest(&self, situation: Situation) -> Option<&[(Composition, u64)]> {
        let distance = |cell: &Situation| cell.replicas.abs_diff(situation.replicas);
        let alike = self.cells.iter().filter(|(cell, _)| {
            (cell.is_transactional, cell.is_sequential, cell.size_class)
                == (
                    situation.is_transactional,
                    situation.is_sequential,
                    situation.size_class,
                )
        });
        let (_, cell) = alike.min_by_key(|(cell, _)| distance(cell))?;
        (!cell.is_empty()).then_some(cell)
    }

    /// The decision tree of a profile in a file; that of uncalibrated machines where there is none, or, with
    /// a warning, where it must not be used.
    pub fn switch_of(path: &Path) -> Switch {
        match Profile::read(path) {
            Ok(Some(profile)) => profile.switch(),
            Ok(None) => Switch::uncalibrated(),
            Err(error) => {
                tracing::warn!("{error}");
                Switch::uncalibrated()
            }
        }
    }

    /// Reads a profile; `None` where there is none.
    ///
    /// # Errors
    /// [`ProfileError`] where it must not be used.
    pub fn read(path: &Path) -> Result<Option<Profile>, ProfileError> {
        let text = match fs::metadata(path) {
            Ok(found) if found.len() > LEN_MAX => {
                return Err(ProfileError::Damaged {
                    path: path.to_owned(),
                    why: format!("it is {} bytes long", found.len()),
                });
            }
            Ok(_) => fs::read(path),
            Err(error) => Err(error),
        };
        match text {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                parse(&text, &machine::describe(), path).map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ProfileError::Io {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Writes it, for whoever reads it from now on.
    ///
    /// # Errors
    /// The system's; a profile that was there before stays.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        fs::write(&new, self.text(&machine::describe()))?;
        fs::rename(&new, path)
    }

    fn text(&self, machine: &str) -> String {
        let mut text = format!("{FIRST_LINE}\nmachine = {machine:?}\n");
        for (situation, cell) in &self.cells {
            let times: Vec<String> = cell
                .iter()
                .map(|(composition, tenths_ns)| format!("{composition}:{tenths_ns}"))
                .collect();
            let line = format!("{} = {}\n", key(situation), times.join(" "));
            text.push_str(&line);
        }
        let crc = crc32c::crc32c(text.as_bytes());
        writeln!(text, "crc32c = {crc:#010x}").expect("strings can be written to");
        text
    }
}

fn key(situation: &Situation) -> String {
    let transaction = match situation.is_transactional {
        true => "transaction ",
        false => "",
    };
    let pattern = match situation.is_sequential {
        true => "sequential",
        false => "random",
    };
    let bytes = class_bytes(situation.size_class);
    format!("{transaction}{pattern} {} {bytes}", situation.replicas)
}

fn parse(text: &str, machine: &str, path: &Path) -> Result<Profile, ProfileError> {
    let damaged = |why: String| ProfileError::Damaged {
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
    let theirs = body
        .lines()
        .find_map(|line| line.strip_prefix("machine = "))
        .ok_or_else(|| damaged("it names no machine".to_owned()))?;
    if theirs != format!("{machine:?}") {
        return Err(ProfileError::Machine {
            path: path.to_owned(),
            theirs: theirs.trim_matches('"').to_owned(),
            ours: machine.to_owned(),
        });
    }
    let known: BTreeMap<String, Composition> = Composition::all()
        .into_iter()
        .map(|composition| (composition.to_string(), composition))
        .collect();
    let mut profile = Profile::default();
    for line in body.lines().skip(2) {
        let cell = line
            .split_once(" = ")
            .and_then(|(key, times)| Some((situation(key)?, times)))
            .ok_or_else(|| damaged(format!("{line:?} is no measurement")))?;
        for time in cell.1.split(' ') {
            let (composition, tenths_ns) = time
                .rsplit_once(':')
                .and_then(|(name, tenths)| Some((*known.get(name)?, tenths.parse().ok()?)))
                .ok_or_else(|| damaged(format!("{time:?} is no method's time")))?;
            profile.add(cell.0, composition, tenths_ns);
        }
    }
    Ok(profile)
}

fn situation(key: &str) -> Option<Situation> {
    let rest = key.strip_prefix("transaction ");
    let mut words = rest.unwrap_or(key).split(' ');
    let is_sequential = match words.next()? {
        "sequential" => true,
        "random" => false,
        _ => return None,
    };
    let replicas = words.next()?.parse().ok()?;
    let size_class = size_class(words.next()?.parse().ok()?);
    let is_transactional = rest.is_some();
    words.next().is_none().then_some(Situation {
        is_transactional,
        is_sequential,
        replicas,
        size_class,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::Waits;

    const ONCE: Composition = Composition {
        waits: Waits::Once,
        ..Composition::BASIC
    };

    fn random(replicas: usize, size_class: usize) -> Situation {
        Situation {
            is_transactional: false,
            is_sequential: false,
            replicas,
            size_class,
        }
    }

    fn profile() -> Profile {
        let mut profile = Profile::default();
        for (number, composition) in Composition::all().into_iter().enumerate() {
            profile.add(random(1, 0), composition, 2_000 + number as u64 * 50);
            profile.add(random(3, 4), composition, 9_000 - number as u64);
            let sequential = Situation {
                is_transactional: true,
                is_sequential: true,
                ..random(3, 18)
            };
            profile.add(sequential, composition, 1);
        }
        profile
    }

    #[test]
    fn the_best_is_chosen_and_a_neighbour_where_it_is_as_good() {
        let mut profile = Profile::default();
        for (class, once, basic) in [(0, 1_000, 2_000), (1, 1_005, 1_000), (2, 1_020, 1_000)] {
            profile.add(random(3, class), Composition::BASIC, basic);
            profile.add(random(3, class), ONCE, once);
        }
        let switch = profile.switch();
        let chosen = |replicas, class| switch.choose(random(replicas, class));
        assert_eq!(
            [0, 1, 2].map(|class| chosen(3, class)),
            [ONCE, ONCE, Composition::BASIC]
        );
        // Of the nearest that was measured.
        assert_eq!(chosen(8, 0), ONCE);
        assert_eq!(chosen(1, 2), Composition::BASIC);
        // Of none.
        assert_eq!(chosen(3, 9), Switch::uncalibrated().choose(random(3, 9)));
    }

    #[test]
    fn what_was_written_is_read_and_none_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("profile");
        assert_eq!(Profile::read(&path).unwrap(), None);
        profile().write(&path).unwrap();
        assert_eq!(Profile::read(&path).unwrap(), Some(profile()));
        assert_eq!(Profile::switch_of(&path), profile().switch());
        fs::write(&path, "something else").unwrap();
        assert_eq!(Profile::switch_of(&path), Switch::uncalibrated());
    }

    #[test]
    fn a_file_that_was_cut_or_changed_anywhere_is_not_believed() {
        let mut small = Profile::default();
        small.add(random(3, 4), ONCE, 77);
        let text = small.text("this");
        let path = Path::new("profile");
        assert_eq!(parse(&text, "this", path).unwrap(), small);
        for len in 0..text.len() {
            assert!(parse(&text[..len], "this", path).is_err(), "{len}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(parse(&changed, "this", path).is_err(), "{changed}");
        }
        let error = parse(&text, "that", path).unwrap_err().to_string();
        assert!(error.contains("another machine"), "{error}");
        for bad in ["SF:7x", "SF+XY:7", "random 3 = SF:7", "often 3 4 = SF:7"] {
            let body = &text[..text.find("random").unwrap()];
            let line = if bad.contains('=') {
                bad.to_owned()
            } else {
                format!("random 3 4 = {bad}")
            };
            let body = format!("{body}{line}\n");
            let text = format!("{body}crc32c = {:#010x}\n", crc32c::crc32c(body.as_bytes()));
            assert!(
                matches!(
                    parse(&text, "this", path),
                    Err(ProfileError::Damaged { .. })
                ),
                "{bad}"
            );
        }
    }
}
