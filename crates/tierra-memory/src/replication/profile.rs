//! What every composition takes in every situation, measured on this machine and kept as a file.
//!
//! ```text
//! random 3 4 = SF+PF:1831 SF:1902 basic:6804          (tenths of nanoseconds)
//! transaction sequential 3 1048576 = ..
//! ```
//! between the lines that every [`MeasuredFile`] has. One file is for one kind of memory: pools of the kind that
//! it was measured on.
//!
//! Invariant: only a whole file that this machine wrote is used; any other affects nothing but how fast
//! writes are.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::composition::Composition;
use super::switch::{MethodTree, Situation, class_bytes, size_class};
use crate::machine::{MeasuredFile, MeasuredFileError};

const FILE: MeasuredFile = MeasuredFile {
    what: "replication profile",
    version: 1,
    len_max: 4 << 20,
};
/// A composition this much slower than the best, in hundredths, is as good as the best if it saves a switch
/// between neighbours.
const AS_GOOD_PERCENT: u64 = 101;

/// What was measured: tenths of nanoseconds per write, of each composition in each situation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    cells: BTreeMap<Situation, Vec<(Composition, u64)>>,
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
    pub fn switch(&self) -> MethodTree {
        let fallback = MethodTree::uncalibrated();
        let mut before: Option<(Situation, Composition)> = None;
        MethodTree::of(|situation| {
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

    /// Reads a profile; `None` where there is none.
    ///
    /// # Errors
    /// [`MeasuredFileError`] where it must not be used.
    pub fn read(path: &Path) -> Result<Option<Profile>, MeasuredFileError> {
        let known: BTreeMap<String, Composition> = Composition::all()
            .into_iter()
            .map(|composition| (composition.to_string(), composition))
            .collect();
        let cells = FILE.read(path, |line| cell(line, &known))?;
        Ok(cells.map(|cells| {
            let mut profile = Profile::default();
            for (situation, times) in cells {
                for (composition, tenths_ns) in times {
                    profile.add(situation, composition, tenths_ns);
                }
            }
            profile
        }))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The system's; a profile that was there before stays.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = String::new();
        for (situation, cell) in &self.cells {
            let times: Vec<String> = cell
                .iter()
                .map(|(composition, tenths_ns)| format!("{composition}:{tenths_ns}"))
                .collect();
            let line = format!("{} = {}\n", key(situation), times.join(" "));
            text.push_str(&line);
        }
        FILE.write(path, &text)
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

type Cell = (Situation, Vec<(Composition, u64)>);

fn cell(line: &str, known: &BTreeMap<String, Composition>) -> Result<Cell, String> {
    let (situation, times) = line
        .split_once(" = ")
        .and_then(|(key, times)| Some((situation(key)?, times)))
        .ok_or_else(|| format!("{line:?} is no measurement"))?;
    let time = |time: &str| {
        time.rsplit_once(':')
            .and_then(|(name, tenths)| Some((*known.get(name)?, tenths.parse().ok()?)))
            .ok_or_else(|| format!("{time:?} is no method's time"))
    };
    let times = times.split(' ').map(time).collect::<Result<_, _>>()?;
    Ok((situation, times))
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
    use std::fs;

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
        assert_eq!(
            chosen(3, 9),
            MethodTree::uncalibrated().choose(random(3, 9))
        );
    }

    #[test]
    fn what_was_written_is_read_and_none_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("profile");
        assert_eq!(Profile::read(&path).unwrap(), None);
        profile().write(&path).unwrap();
        assert_eq!(Profile::read(&path).unwrap(), Some(profile()));
        assert_ne!(profile().switch(), MethodTree::uncalibrated());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("profile");
        for (line, named) in [
            ("random 3 4 = SF:7x", "no method's time"),
            ("random 3 4 = SF+XY:7", "no method's time"),
            ("random 3 = SF:7", "no measurement"),
            ("often 3 4 = SF:7", "no measurement"),
            ("random 3 4 SF:7", "no measurement"),
        ] {
            FILE.write(&path, &format!("{line}\n")).unwrap();
            let error = Profile::read(&path).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("line 3"), "{error}");
        }
    }

    /// A planted bug: what was measured elsewhere, or for another Tierra, would be the worst choice here.
    #[test]
    fn a_stale_profile_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("profile");
        profile().write(&path).unwrap();
        let ours = fs::read_to_string(&path).unwrap();
        let body = &ours[..ours.find("crc32c = ").unwrap()];
        let machine = body.lines().nth(1).unwrap();
        for (stale, named) in [
            (
                body.replace(machine, "machine = \"that one\""),
                "another machine (that one)",
            ),
            (body.replace("profile 1\n", "profile 0\n"), "of version 0"),
        ] {
            assert_ne!(stale, body);
            let crc = crc32c::crc32c(stale.as_bytes());
            fs::write(&path, format!("{stale}crc32c = {crc:#010x}\n")).unwrap();
            let error = Profile::read(&path).unwrap_err().to_string();
            let path = path.display().to_string();
            assert!(error.contains(named) && error.contains(&path), "{error}");
        }
        fs::write(&path, &ours).unwrap();
        assert_eq!(Profile::read(&path).unwrap(), Some(profile()));
    }
}
