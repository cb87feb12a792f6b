//! Every image that a power cut could leave, opened and judged.
//!
//! The moment with the most images is just before a fence: what was stored since the last one may be
//! there or not, and after it some of it is certain. So a trace is cut before each of its fences, and at
//! its end. What differs among the images of one cut is the version of each line that is not clean. Most
//! of these lines recovery never reads (a load's extents, which no manifest names yet), so they are left
//! as they are: lines get versions when recovery reads them, each version is a branch, and the tree of
//! branches is walked. Where it is larger than the limit, images are drawn from a seed instead.
//!
//! Invariant: no image is opened twice at one cut, and where a cut is counted as exhaustive, recovery
//! has seen every combination of versions that it could tell apart.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::power::{Power, bytes_of};
use super::random::Random;
use super::recorder::{Recorder, Touched};
use super::trace::{Event, Trace, Words};
use crate::LINE_BYTES;

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

/// What a power cut left, in a file, for recovery to be run on.
#[derive(Debug)]
pub struct Image<'a> {
    /// The pool's file.
    pub path: &'a Path,
    /// The last step that the program had been told was done: its effects must be there. Those of the
    /// next step may be, whole.
    pub acknowledged: u64,
    /// Goes into [`PoolOptions::recorder`](crate::PoolOptions::recorder) when the pool is opened.
    pub recorder: Recorder,
}

/// An image that broke the promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// How many of the trace's events had happened.
    pub events: usize,
    /// The last step acknowledged by then.
    pub acknowledged: u64,
    /// Where the lines lie that were newer than what was certainly durable, in whole or in part.
    pub kept_lines: Vec<u64>,
    /// What was wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "power cut after event {} (step {} acknowledged), lines at {:?} kept: {}",
            self.events, self.acknowledged, self.kept_lines, self.what
        )
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
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        file.write_all_at(&self.initial, 0)?;
        let mut explorer = Explorer {
            power: Power::new(self),
            file,
            path: path.to_owned(),
            file_bytes: self.initial.len() as u64,
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
type Choices = BTreeMap<u32, Words>;

/// A pseudo-line behind all others, whose version is the file's length.
const LENGTH: u32 = u32::MAX;

struct Explorer<C> {
    power: Power,
    file: File,
    path: PathBuf,
    /// The length the file has now.
    file_bytes: u64,
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
        for line in self.power.take_changed() {
            self.write_line(line, &self.power.oldest(line))?;
        }
        let mut seen = HashSet::new();
        let mut read = Vec::new();
        if self.walk(&mut seen, &mut read)? {
            self.report.exhaustive_cuts += 1;
        } else {
            self.draw(&mut seen, &mut read)?;
        }
        Ok(())
    }

    /// Walks the tree of branches. `false` if it is larger than the limit. Fills in what was opened and
    /// which lines were read.
    fn walk(&mut self, seen: &mut HashSet<Choices>, read: &mut Vec<u32>) -> io::Result<bool> {
        let mut versions: HashMap<u32, Option<Rc<[Words]>>> = HashMap::new();
        let mut todo = vec![Choices::new()];
        while let Some(choices) = todo.pop() {
            let lines = self.open(&choices)?;
            // Lines decided at their durable version count as decided, but are not written again.
            let undecided: Vec<u32> = lines
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
    fn draw(&mut self, seen: &mut HashSet<Choices>, read: &mut Vec<u32>) -> io::Result<()> {
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

    fn oldest(&self, line: u32) -> Words {
        match line {
            LENGTH => length(self.power.len_bytes().0),
            _ => self.power.oldest(line),
        }
    }

    fn newest(&self, line: u32) -> Words {
        match line {
            LENGTH => length(self.power.len_bytes().1),
            _ => self.power.newest(line),
        }
    }

    fn any_version(&mut self, line: u32) -> Words {
        match line {
            LENGTH if self.random.below(2) == 0 => self.oldest(line),
            LENGTH => self.newest(line),
            _ => self.power.any_version(line, &mut self.random),
        }
    }

    fn versions(&self, line: u32, most: usize) -> Option<Vec<Words>> {
        match line {
            LENGTH => Some(vec![self.oldest(line), self.newest(line)]),
            _ => self.power.versions(line, most),
        }
    }

    /// Has `check` judge one image, and puts the file back. Returns the lines that may have had another
    /// version and were read, in the order of their reading.
    fn open(&mut self, choices: &Choices) -> io::Result<Vec<u32>> {
        let kept = self.kept(choices);
        let len_bytes = kept.get(&LENGTH).unwrap_or(&self.oldest(LENGTH))[0];
        if len_bytes != self.file_bytes {
            self.file.set_len(len_bytes)?;
            self.file_bytes = len_bytes;
        }
        let lines = kept.iter().filter(|(line, _)| **line != LENGTH);
        let lines: Vec<(u32, Words)> = lines.map(|(line, words)| (*line, *words)).collect();
        for (line, words) in &lines {
            self.write_line(*line, words)?;
        }
        let image = Image {
            path: &self.path,
            acknowledged: self.acknowledged,
            recorder: self.recorder.clone(),
        };
        let judged = (self.check)(&image);
        self.report.images += 1;
        if let Err(what) = judged {
            self.report.violations.push(Violation {
                events: self.events,
                acknowledged: self.acknowledged,
                kept_lines: kept
                    .keys()
                    .map(|line| u64::from(*line) * LINE_BYTES as u64)
                    .collect(),
                what,
            });
        }
        let touched = self.recorder.take_touched();
        // Recovery may have grown the file.
        self.file.set_len(self.file_bytes)?;
        for (line, _) in &lines {
            self.write_line(*line, &self.power.oldest(*line))?;
        }
        self.undo(&touched)?;
        Ok(self.read_lines(&touched))
    }

    /// Takes back what recovery, or what came after it, wrote.
    fn undo(&self, touched: &Touched) -> io::Result<()> {
        let durable = self.power.durable();
        for range in &touched.written {
            let end = range.end.min(self.file_bytes).min(durable.len() as u64);
            if range.start < end {
                let bytes = &durable[range.start as usize..end as usize];
                self.file.write_all_at(bytes, range.start)?;
            }
        }
        Ok(())
    }

    fn read_lines(&self, touched: &Touched) -> Vec<u32> {
        let (least, most) = self.power.len_bytes();
        let mut lines = Vec::new();
        // Whoever opens a file asks for its length.
        lines.extend((least != most).then_some(LENGTH));
        let mut known = HashSet::new();
        for range in &touched.read {
            let first = range.start / LINE_BYTES as u64;
            let end = range.end.div_ceil(LINE_BYTES as u64);
            let pending = self.power.pending(first as u32, end as u32);
            lines.extend(pending.filter(|line| known.insert(*line)));
        }
        lines
    }

    fn write_line(&self, line: u32, words: &Words) -> io::Result<()> {
        let at = u64::from(line) * LINE_BYTES as u64;
        if at >= self.file_bytes {
            // Beyond the end that this image has.
            return Ok(());
        }
        self.file.write_all_at(&bytes_of(words), at)
    }
}

fn length(len_bytes: u64) -> Words {
    let mut words = Words::default();
    words[0] = len_bytes;
    words
}
