//! The files of a directory and their names, and what a power cut could leave of both.
//!
//! What a file holds is certain once it was synced, which names there are once the directory was. Before that:
//!
//! - A name's last steps have happened or not, each on its own, but steps on one name in their order. A rename has
//!   happened or not: it never leaves both names, or neither.
//! - A file holds what was certain, or what was written since: nothing of it, a part, zeros in its place, or all.
//!
//! File systems with a journal keep more order than that, so what survives this survives them.
//!
//! Invariant: at the beginning the directory is there and empty. A pool's file is one like others until the pool is
//! made; from then on `power.rs` says what it holds.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::random::Random;
use crate::recording::FileStep;

/// Names, and the numbers of the files that they name.
type Names = BTreeMap<String, usize>;

/// What a name leads to in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Bytes(Rc<[u8]>),
    /// The file of the pool of this number.
    Pool(u8),
}

/// One state that a power cut could leave the directory in.
pub(super) type Variant = BTreeMap<String, Content>;

/// Which files of it are pools', and of which.
pub(super) fn pools_of(files: &Variant) -> impl Iterator<Item = (String, u8)> + '_ {
    files.iter().filter_map(|(name, content)| match content {
        Content::Pool(pool) => Some((name.clone(), *pool)),
        Content::Bytes(_) => None,
    })
}

/// A change of names that is not certain.
#[derive(Debug)]
struct Change {
    unbound: Option<String>,
    bound: Option<(String, usize)>,
}

impl Change {
    fn names(&self) -> impl Iterator<Item = &String> {
        let bound = self.bound.as_ref().map(|(name, _)| name);
        self.unbound.iter().chain(bound)
    }

    fn touches(&self, other: &Change) -> bool {
        self.names().any(|name| other.names().any(|of| of == name))
    }

    fn apply(&self, names: &mut Names) {
        if let Some(name) = &self.unbound {
            names.remove(name);
        }
        if let Some((name, file)) = &self.bound {
            names.insert(name.clone(), *file);
        }
    }
}

#[derive(Debug, Default)]
struct File {
    /// Whose file it is, and whether the pool is made.
    pool: Option<(u8, bool)>,
    durable: Rc<[u8]>,
    /// What was written since it was synced.
    since: Vec<Rc<[u8]>>,
}

impl File {
    fn latest(&self) -> Content {
        match self.pool {
            Some((pool, true)) => Content::Pool(pool),
            _ => Content::Bytes(self.since.last().unwrap_or(&self.durable).clone()),
        }
    }

    fn contents(&self) -> Vec<Content> {
        if let Some((pool, true)) = self.pool {
            return vec![Content::Pool(pool)];
        }
        let mut contents = vec![Content::Bytes(self.durable.clone())];
        for bytes in &self.since {
            let half = &bytes[..bytes.len() / 2];
            let zeros = vec![0; bytes.len()];
            for version in [bytes.clone(), half.into(), zeros.into()] {
                if !contents.contains(&Content::Bytes(version.clone())) {
                    contents.push(Content::Bytes(version));
                }
            }
        }
        contents
    }
}

/// A directory at one moment of a trace.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: Vec<File>,
    /// What the running program sees.
    now: Names,
    durable: Names,
    /// From the durable names to those of now.
    changes: Vec<Change>,
}

impl Files {
    pub(super) fn apply(&mut self, step: &FileStep) {
        match step {
            FileStep::Created { name, pool } => {
                self.files.push(File {
                    pool: pool.map(|pool| (pool, false)),
                    ..File::default()
                });
                let file = self.files.len() - 1;
                self.change(None, Some((name.clone(), file)));
            }
            FileStep::Written { name, bytes } => {
                if let Some(file) = self.named(name) {
                    file.since.push(bytes.as_slice().into());
                }
            }
            FileStep::Synced { name } => {
                if let Some(file) = self.named(name)
                    && let Some(latest) = file.since.pop()
                {
                    file.durable = latest;
                    file.since.clear();
                }
            }
            FileStep::Renamed { from, to } => {
                if let Some(&file) = self.now.get(from) {
                    self.change(Some(from.clone()), Some((to.clone(), file)));
                }
            }
            FileStep::Removed { name } => self.change(Some(name.clone()), None),
            FileStep::DirectorySynced => {
                self.durable.clone_from(&self.now);
                self.changes.clear();
            }
        }
    }

    /// The pool is made: its file is its affair now.
    pub(super) fn pool_made(&mut self, made: u8) {
        let pools = self.files.iter_mut().filter_map(|file| file.pool.as_mut());
        for (pool, is_made) in pools {
            *is_made |= *pool == made;
        }
    }

    /// What a process that is killed now leaves.
    pub(super) fn now(&self) -> Variant {
        let named = self.now.iter();
        named
            .map(|(name, &file)| (name.clone(), self.files[file].latest()))
            .collect()
    }

    /// Every state, the durable one first, each once; or so many of them that were drawn, and `false`.
    pub(super) fn variants(&self, most: usize, random: &mut Random) -> (Vec<Variant>, bool) {
        /// Changes of which all combinations are tried.
        const MAX_CHANGES: usize = 8;
        let mut all = self.changes.len() <= MAX_CHANGES;
        let mut names: Vec<Names> = Vec::new();
        let mut add = |found: Names| {
            if !names.contains(&found) {
                names.push(found);
            }
        };
        if all {
            for chosen in 0..1u32 << self.changes.len() {
                let chosen = |at: usize| chosen >> at & 1 == 1;
                if self.is_possible(chosen) {
                    add(self.names_with(chosen));
                }
            }
        } else {
            for end in 0..=self.changes.len() {
                add(self.names_with(|at| at < end));
            }
            for _ in 0..most {
                let bits = random.next();
                let chosen = |at: usize| bits >> (at % 64) & 1 == 1;
                if self.is_possible(chosen) {
                    add(self.names_with(chosen));
                }
            }
        }
        let mut variants: Vec<Variant> = Vec::new();
        for names in &names {
            let mut made = vec![Variant::new()];
            for (name, &file) in names {
                let contents = self.files[file].contents();
                let with = |variant: &Variant| {
                    let contents = contents.clone().into_iter();
                    let named = contents.map(|content| (name.clone(), content));
                    let variant = variant.clone();
                    named.map(move |named| {
                        let mut variant = variant.clone();
                        variant.extend([named]);
                        variant
                    })
                };
                made = made.iter().flat_map(with).collect::<Vec<Variant>>();
                all &= made.len() <= most;
                thin_out(&mut made, most, random);
            }
            variants.extend(made);
        }
        all &= variants.len() <= most;
        thin_out(&mut variants, most, random);
        (variants, all)
    }

    /// Whether these changes alone can have happened: of those to one name, the first ones.
    fn is_possible(&self, chosen: impl Fn(usize) -> bool) -> bool {
        let changes = self.changes.iter().enumerate();
        let mut chosen_ones = changes.filter(|(at, _)| chosen(*at));
        chosen_ones.all(|(at, change)| {
            let mut before = self.changes[..at].iter().enumerate();
            before.all(|(earlier, of)| chosen(earlier) || !of.touches(change))
        })
    }

    fn names_with(&self, chosen: impl Fn(usize) -> bool) -> Names {
        let mut names = self.durable.clone();
        let changes = self.changes.iter().enumerate();
        let chosen = changes.filter(|(at, _)| chosen(*at));
        chosen.for_each(|(_, change)| change.apply(&mut names));
        names
    }

    fn named(&mut self, name: &str) -> Option<&mut File> {
        let file = *self.now.get(name)?;
        self.files.get_mut(file)
    }

    fn change(&mut self, unbound: Option<String>, bound: Option<(String, usize)>) {
        let change = Change { unbound, bound };
        change.apply(&mut self.now);
        self.changes.push(change);
    }
}

/// Leaves the first, and of the others some that are drawn.
fn thin_out(variants: &mut Vec<Variant>, most: usize, random: &mut Random) {
    while variants.len() > most.max(1) {
        let at = 1 + random.below(variants.len() as u64 - 1) as usize;
        variants.swap_remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(steps: &[FileStep]) -> Files {
        let mut files = Files::default();
        steps.iter().for_each(|step| files.apply(step));
        files
    }

    /// Every variant as text, `.` for a zero byte, sorted.
    fn found(files: &Files) -> Vec<String> {
        let (variants, all) = files.variants(100, &mut Random::new(1));
        assert!(all);
        let text = |(name, content): (&String, &Content)| match content {
            Content::Bytes(bytes) => {
                let text = String::from_utf8_lossy(bytes).replace('\0', ".");
                format!("{name}={text}")
            }
            Content::Pool(pool) => format!("{name}:{pool}"),
        };
        let texts = variants
            .iter()
            .map(|variant| variant.iter().map(text).collect::<Vec<_>>().join(" "));
        let mut found: Vec<String> = texts.collect();
        found.sort_unstable();
        found
    }

    fn new_file(name: &str, bytes: &[u8]) -> Vec<FileStep> {
        vec![FileStep::created(name), FileStep::written(name, bytes)]
    }

    #[test]
    fn what_was_not_synced_may_be_there_in_part_or_not_at_all() {
        let mut steps = new_file("a", b"1234");
        let unsynced = ["", "a=", "a=....", "a=12", "a=1234"];
        assert_eq!(found(&files(&steps)), unsynced);
        steps.push(FileStep::synced("a"));
        assert_eq!(found(&files(&steps)), ["", "a=1234"]);
        steps.push(FileStep::DirectorySynced);
        assert_eq!(found(&files(&steps)), ["a=1234"]);
        steps.push(FileStep::removed("a"));
        assert_eq!(found(&files(&steps)), ["", "a=1234"]);
    }

    #[test]
    fn a_name_without_content_is_found_where_the_file_is_not_synced() {
        let mut steps = new_file("a", b"1234");
        steps.push(FileStep::DirectorySynced);
        assert_eq!(found(&files(&steps)), ["a=", "a=....", "a=12", "a=1234"]);
    }

    #[test]
    fn a_file_that_is_replaced_is_the_old_one_or_the_new_one() {
        let mut steps = new_file("a", b"1");
        steps.extend([FileStep::synced("a"), FileStep::DirectorySynced]);
        steps.extend(new_file("n", b"2"));
        steps.extend([FileStep::synced("n"), FileStep::renamed("n", "a")]);
        assert_eq!(found(&files(&steps)), ["a=1", "a=1 n=2", "a=2"]);
        steps.push(FileStep::DirectorySynced);
        assert_eq!(found(&files(&steps)), ["a=2"]);
    }

    #[test]
    fn steps_on_different_names_happen_in_any_order() {
        let mut steps = Vec::new();
        for name in ["a", "b"] {
            steps.extend(new_file(name, b""));
            steps.push(FileStep::synced(name));
        }
        assert_eq!(found(&files(&steps)), ["", "a=", "a= b=", "b="]);
    }

    #[test]
    fn a_pools_file_is_its_own_affair_once_it_is_made() {
        let (name, pool) = ("p".to_owned(), Some(3));
        let mut files = files(&[FileStep::Created { name, pool }]);
        assert_eq!(found(&files), ["", "p="]);
        files.pool_made(3);
        assert_eq!(found(&files), ["", "p:3"]);
        files.apply(&FileStep::DirectorySynced);
        files.apply(&FileStep::removed("p"));
        assert_eq!(found(&files), ["", "p:3"]);
    }
}
