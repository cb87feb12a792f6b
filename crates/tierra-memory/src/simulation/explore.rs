//! Every image that a power cut could leave, opened and checked.
//!
//! The moment with the most images is just before a fence: what was stored since the last one may be
//! there or not, and after it some of it is certain. So a trace is cut before each of its fences, and at
//! its end. What differs among the images of one cut is the version of each line that is not clean. Most
//! of these lines recovery never reads (a load's extents, which no manifest names yet), so they are left
//! as they are: lines get versions when recovery reads them, each version is a branch, and the tree of
//! branches is walked. Where it is larger than the limit, images are drawn from a seed instead. A directory that is
//! recorded has few states at a time: each of them is gone through, and the tree is walked in each.
//!
//! Invariant: no image is opened twice at one cut, and where a cut is counted as exhaustive, recovery
//! has seen every combination of versions that it could tell apart.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::disk::{Disk, Folder};
use super::files::{Content, Variant, pools_of};
use super::power::{Power, bytes_of};
use super::trace::Trace;
use crate::LINE_BYTES;
use crate::random::Random;
use crate::recording::{Event, LineOf, LineRange, Recorder, Touched, Words};

/// How far to look.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Images of one cut. Where there are more, this many are drawn.
    pub images_per_cut: usize,
    /// What they are drawn from.
    pub seed: u64,
    /// Images that may break the promise before the search ends.
    pub violations: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            images_per_cut: 200,
            seed: 0x7E44A,
            violations: 10,
        }
    }
}

/// What a power cut left, in a file for each pool, for recovery to be run on. Recovery may write to the
/// pools, remove files and make new ones; files that it writes to past a recorded pool it puts back.
#[derive(Debug)]
pub struct Image<'a> {
    /// The directory, if that is explored ([`Trace::explore_directory`]); else the first pool's file. Where the others are, says
    /// the caller of [`Trace::explore_pools`].
    pub path: &'a Path,
    /// The last step that was acknowledged to the program: its effects must be there. Those of the
    /// next step may be, whole.
    pub acknowledged: u64,
    /// Goes into [`PoolOptions::recorder`](crate::PoolOptions::recorder) when the first pool is opened; that of others is
    /// [`Recorder::of_pool`] of it.
    pub recorder: Recorder,
}

/// An image that broke the promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// How many of the trace's events had happened.
    pub events: usize,
    /// The last step acknowledged by then.
    pub acknowledged: u64,
    /// Where the lines lie that were newer than what was certainly durable, in whole or in part: the
    /// number of the pool, and the place in it.
    pub kept_lines: Vec<(usize, u64)>,
    /// What lay in the directory: names, and how many bytes they have, or the number of their pool.
    pub files: Vec<String>,
    /// What was wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "power cut after event {} (step {} acknowledged), lines at {:?} kept",
            self.events, self.acknowledged, self.kept_lines
        )?;
        if !self.files.is_empty() {
            write!(f, ", files {:?}", self.files)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What was looked at and found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Moments at which the power was cut.
    pub cuts: u64,
    /// Those at which recovery saw every image that it could tell apart.
    pub exhaustive_cuts: u64,
    /// Images that recovery was run on.
    pub images: u64,
    /// Those that broke the promise.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Adds what was found elsewhere.
    pub fn add(&mut self, other: Report) {
        self.cuts += other.cuts;
        self.exhaustive_cuts += other.exhaustive_cuts;
        self.images += other.images;
        self.violations.extend(other.violations);
    }
}

impl Trace {
    /// Cuts the power at every moment worth it, and has `check` run recovery on what could be left, in
    /// a file made at `path`. `check` says what is wrong with an image.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn explore(
        &self,
        path: &Path,
        limits: &Limits,
        check: impl FnMut(&Image<'_>) -> Result<(), String>,
    ) -> io::Result<Report> {
        self.explore_pools(&[path], limits, check)
    }

    /// [`Trace::explore`] of several pools, which lose their power at the same moment. `paths` says by number
    /// where their files are made; before a pool was made there is none.
    ///
    /// # Errors
    /// Those of writing the files; [`io::ErrorKind::InvalidInput`] if there are more pools than paths.
    pub fn explore_pools(
        &self,
        paths: &[impl AsRef<Path>],
        limits: &Limits,
        check: impl FnMut(&Image<'_>) -> Result<(), String>,
    ) -> io::Result<Report> {
        let pools = usize::from(self.pools());
        let disks = paths
            .iter()
            .take(pools)
            .map(|path| Disk::empty(path.as_ref()));
        let disks = disks.collect::<io::Result<Vec<Disk>>>()?;
        if disks.len() < pools.max(1) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{pools} pools were recorded, {} paths given", paths.len()),
            ));
        }
        self.explore_on(disks, None, limits, check)
    }

    /// Cuts the power of a directory that was recorded ([`Directory`](crate::directory::Directory)) and of all pools in it. It is
    /// made anew at `path`, which is [`Image::path`]; pools that were recorded by number alone are not in it.
    ///
    /// # Errors
    /// Those of writing the files.
    pub fn explore_directory(
        &self,
        path: &Path,
        limits: &Limits,
        check: impl FnMut(&Image<'_>) -> Result<(), String>,
    ) -> io::Result<Report> {
        let folder = Folder::new(path)?;
        let disks = (0..self.pools()).map(|pool| Disk::empty(&folder.parked(pool)));
        let disks = disks.collect::<io::Result<Vec<Disk>>>()?;
        self.explore_on(disks, Some(folder), limits, check)
    }

    fn explore_on(
        &self,
        disks: Vec<Disk>,
        folder: Option<Folder>,
        limits: &Limits,
        check: impl FnMut(&Image<'_>) -> Result<(), String>,
    ) -> io::Result<Report> {
        let mut explorer = Explorer {
            power: Power::new(),
            disks,
            folder,
            files: Variant::new(),
            limits: *limits,
            random: Random::new(limits.seed),
            recorder: Recorder::of_reads(self.durability),
            check,
            acknowledged: 0,
            events: 0,
            report: Report::default(),
        };
        // Whether there may be an image that was not seen at the last cut.
        let mut news = false;
        for (index, event) in self.events.iter().enumerate() {
            if event.is_barrier() && std::mem::take(&mut news) {
                explorer.cut(index)?;
                if explorer.report.violations.len() >= limits.violations {
                    return Ok(explorer.report);
                }
            }
            match event {
                Event::Acknowledged(step) => {
                    explorer.acknowledged = *step;
                    news = true;
                }
                Event::Store(_)
                | Event::Streamed { .. }
                | Event::Scribbled(_)
                | Event::Made { .. }
                | Event::File(_)
                | Event::Grown { .. } => news = true,
                _ => {}
            }
            explorer.power.apply(event);
        }
        explorer.cut(self.events.len())?;
        Ok(explorer.report)
    }
}

/// Which version of which line an image has; all others are as they are durable.
type Choices = BTreeMap<LineOf, Words>;

/// A pseudo-line behind all others of a pool, whose version is the file's length.
const LENGTH: u32 = u32::MAX;

struct Explorer<C> {
    power: Power,
    /// By number of the pool.
    disks: Vec<Disk>,
    /// Where images of the directory are made, if it is explored, and what they hold.
    folder: Option<Folder>,
    files: Variant,
    limits: Limits,
    random: Random,
    recorder: Recorder,
    check: C,
    acknowledged: u64,
    events: usize,
    report: Report,
}

impl<C: FnMut(&Image<'_>) -> Result<(), String>> Explorer<C> {
    /// Looks at the images of this moment.
    fn cut(&mut self, events: usize) -> io::Result<()> {
        self.events = events;
        self.report.cuts += 1;
        for pool in self.power.take_made() {
            let len_bytes = self.power.len_bytes(pool).0;
            self.disks[usize::from(pool)].make(self.power.durable(pool), len_bytes)?;
        }
        for line in self.power.take_changed() {
            self.write_line(line, &self.power.oldest(line))?;
        }
        let (variants, mut all) = match &self.folder {
            None => (vec![Variant::new()], true),
            Some(_) => {
                let most = self.limits.images_per_cut;
                self.power.files().variants(most, &mut self.random)
            }
        };
        for files in variants {
            self.recorder
                .name_pools(pools_of(&files), self.disks.len() as u8);
            self.files = files;
            let mut seen = HashSet::new();
            let mut read = Vec::new();
            if !self.walk(&mut seen, &mut read)? {
                all = false;
                self.draw(&mut seen, &mut read)?;
            }
        }
        self.report.exhaustive_cuts += u64::from(all);
        Ok(())
    }

    /// Walks the tree of branches. `false` if it is larger than the limit. Fills in what was opened and
    /// which lines were read.
    fn walk(&mut self, seen: &mut HashSet<Choices>, read: &mut Vec<LineOf>) -> io::Result<bool> {
        let mut versions: HashMap<LineOf, Option<Rc<[Words]>>> = HashMap::new();
        let mut todo = vec![Choices::new()];
        while let Some(choices) = todo.pop() {
            let lines = self.open(&choices)?;
            // Lines decided at their durable version count as decided, but are not written again.
            let undecided: Vec<LineOf> = lines
                .iter()
                .copied()
                .filter(|line| !choices.contains_key(line))
                .collect();
            read.extend(lines);
            read.sort_unstable();
            read.dedup();
            seen.insert(self.kept(&choices));
            let mut decided = choices;
            for line in undecided {
                let most = self.limits.images_per_cut;
                let of_line = versions
                    .entry(line)
                    .or_insert_with(|| self.versions(line, most).map(Rc::from))
                    .clone();
                let Some(of_line) = of_line else {
                    return Ok(false);
                };
                if seen.len() + todo.len() + of_line.len() - 1 > most {
                    return Ok(false);
                }
                for version in &of_line[1..] {
                    let mut branch = decided.clone();
                    branch.insert(line, *version);
                    todo.push(branch);
                }
                decided.insert(line, of_line[0]);
            }
        }
        Ok(true)
    }

    /// Opens images drawn at random up to the limit, of lines known to be read.
    fn draw(&mut self, seen: &mut HashSet<Choices>, read: &mut Vec<LineOf>) -> io::Result<()> {
        let most = self.limits.images_per_cut;
        // Where versions are few, the same image comes up again and again.
        for _ in 0..4 * most {
            if seen.len() >= most {
                break;
            }
            let mut choices = Choices::new();
            let odd = read[self.random.below(read.len() as u64) as usize];
            let style = self.random.below(3);
            for &line in read.iter() {
                let version = match style {
                    0 => self.any_version(line),
                    1 if line != odd => self.newest(line),
                    2 if line != odd => continue,
                    _ => self.any_version(line),
                };
                choices.insert(line, version);
            }
            let choices = self.kept(&choices);
            if !seen.insert(choices.clone()) {
                continue;
            }
            for line in self.open(&choices)? {
                if let Err(at) = read.binary_search(&line) {
                    read.insert(at, line);
                }
            }
        }
        Ok(())
    }

    /// The choices without those that make no difference.
    fn kept(&self, choices: &Choices) -> Choices {
        let differ = choices
            .iter()
            .filter(|(line, version)| **version != self.oldest(**line));
        differ.map(|(line, version)| (*line, *version)).collect()
    }

    fn oldest(&self, line: LineOf) -> Words {
        match line.index {
            LENGTH => length(self.power.len_bytes(line.pool).0),
            _ => self.power.oldest(line),
        }
    }

    fn newest(&self, line: LineOf) -> Words {
        match line.index {
            LENGTH => length(self.power.len_bytes(line.pool).1),
            _ => self.power.newest(line),
        }
    }

    fn any_version(&mut self, line: LineOf) -> Words {
        match line.index {
            LENGTH if self.random.below(2) == 0 => self.oldest(line),
            LENGTH => self.newest(line),
            _ => self.power.any_version(line, &mut self.random),
        }
    }

    fn versions(&self, line: LineOf, most: usize) -> Option<Vec<Words>> {
        match line.index {
            LENGTH => Some(vec![self.oldest(line), self.newest(line)]),
            _ => self.power.versions(line, most),
        }
    }

    /// The pools that there are at this moment.
    fn pools(&self) -> Vec<u8> {
        let all = 0..self.disks.len() as u8;
        all.filter(|&pool| self.power.is_made(pool)).collect()
    }

    /// Has `check` judge one image, and puts the files back. Returns the lines that may have had another
    /// version and were read, in the order of their reading.
    fn open(&mut self, choices: &Choices) -> io::Result<Vec<LineOf>> {
        let kept = self.kept(choices);
        for pool in self.pools() {
            let line = LineOf {
                pool,
                index: LENGTH,
            };
            let len_bytes = kept.get(&line).unwrap_or(&self.oldest(line))[0];
            self.disks[usize::from(pool)].set_len(len_bytes)?;
        }
        let lines = kept.iter().filter(|(line, _)| line.index != LENGTH);
        let lines: Vec<(LineOf, Words)> = lines.map(|(line, words)| (*line, *words)).collect();
        for (line, words) in &lines {
            self.write_line(*line, words)?;
        }
        let path = match &self.folder {
            Some(folder) => {
                folder.show(&self.files)?;
                folder.path().to_owned()
            }
            None => self.disks[0].path.clone(),
        };
        let image = Image {
            path: &path,
            acknowledged: self.acknowledged,
            recorder: self.recorder.clone(),
        };
        let judged = (self.check)(&image);
        self.report.images += 1;
        if let Err(what) = judged {
            let kept_lines = kept.keys().map(|line| {
                let at = u64::from(line.index) * LINE_BYTES as u64;
                (usize::from(line.pool), at)
            });
            self.report.violations.push(Violation {
                events: self.events,
                acknowledged: self.acknowledged,
                kept_lines: kept_lines.collect(),
                files: self.files.iter().map(described).collect(),
                what,
            });
        }
        for (line, _) in &lines {
            self.write_line(*line, &self.power.oldest(*line))?;
        }
        let mut read = Vec::new();
        for pool in 0..self.disks.len() as u8 {
            let touched = self.recorder.of_pool(pool.into()).take_touched();
            let disk = &mut self.disks[usize::from(pool)];
            match self.power.is_made(pool) {
                true => {
                    disk.put_back(self.power.durable(pool), &touched)?;
                    self.read_lines(pool, &touched, &mut read);
                }
                false => disk.remove()?,
            }
        }
        Ok(read)
    }

    fn read_lines(&self, pool: u8, touched: &Touched, lines: &mut Vec<LineOf>) {
        let (least, most) = self.power.len_bytes(pool);
        // Opening a file reads its length.
        lines.extend((least != most).then_some(LineOf {
            pool,
            index: LENGTH,
        }));
        let mut known = HashSet::new();
        for range in &touched.read {
            let first = (range.start / LINE_BYTES as u64) as u32;
            let end = range.end.div_ceil(LINE_BYTES as u64) as u32;
            let pending = self.power.pending(LineRange { pool, first, end });
            lines.extend(pending.filter(|line| known.insert(*line)));
        }
    }

    fn write_line(&self, line: LineOf, words: &Words) -> io::Result<()> {
        let at = u64::from(line.index) * LINE_BYTES as u64;
        self.disks[usize::from(line.pool)].write(at, &bytes_of(words))
    }
}

fn described((name, content): (&String, &Content)) -> String {
    match content {
        Content::Bytes(bytes) => format!("{name}: {} bytes", bytes.len()),
        Content::Pool(pool) => format!("{name}: pool {pool}"),
    }
}

fn length(len_bytes: u64) -> Words {
    let mut words = Words::default();
    words[0] = len_bytes;
    words
}
