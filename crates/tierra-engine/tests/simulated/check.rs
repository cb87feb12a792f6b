//! The promise, checked on what a power cut left: by which of the tiers the database is opened, what has to be there then,
//! and that all copies are equal after it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tierra_engine::{Database, OpenError, ScrubOptions};
use tierra_memory::simulation::{Image, Limits, Report, Trace};

use super::program::name_second;
use super::{SECOND, State, Step, folder, open, options, rows, state};

/// What is done with an image of two tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Both are there. Once everything is put right, each is enough alone as far as its tables have copies there.
    Both,
    /// The pool of the other is gone. By number.
    Alone(usize),
    /// The pool of the other is away, rows are appended, and it comes back.
    Back(usize),
}

impl Scenario {
    pub(crate) const ALL: [Scenario; 5] = [
        Scenario::Both,
        Scenario::Alone(0),
        Scenario::Alone(1),
        Scenario::Back(0),
        Scenario::Back(1),
    ];
}

/// Where images of two tiers are made, and directories that name both or one.
pub(crate) struct Images {
    pools: [PathBuf; 2],
    both: PathBuf,
    alone: [PathBuf; 2],
    _dir: TempDir,
}

impl Images {
    pub(crate) fn new() -> Images {
        let dir = folder();
        let path = |name: &str| dir.path().join(name);
        let images = Images {
            pools: [path("far.pool"), path("b.pool")],
            both: path("both"),
            alone: [path("far"), path("b")],
            _dir: dir,
        };
        for dir in [&images.both, &images.alone[0], &images.alone[1]] {
            std::fs::create_dir(dir).unwrap();
        }
        for dir in [&images.both, &images.alone[0]] {
            let line = format!("{}\n", images.pools[0].display());
            std::fs::write(dir.join("far.path"), line).unwrap();
        }
        for dir in [&images.both, &images.alone[1]] {
            name_second(dir, &images.pools[1]);
        }
        images
    }

    /// Cuts the power of both.
    pub(crate) fn explore(
        &self,
        trace: &Trace,
        limits: &Limits,
        scenario: Scenario,
        steps: &[Step],
    ) -> Report {
        self.explore_by(trace, limits, |image| self.check(image, scenario, steps))
    }

    /// The same, judged otherwise.
    pub(crate) fn explore_by(
        &self,
        trace: &Trace,
        limits: &Limits,
        check: impl FnMut(&Image<'_>) -> Result<(), String>,
    ) -> Report {
        trace.explore_pools(&self.pools, limits, check).unwrap()
    }

    /// What is wrong with an image.
    pub(crate) fn check(
        &self,
        image: &Image<'_>,
        scenario: Scenario,
        steps: &[Step],
    ) -> Result<(), String> {
        let near = near(image, steps);
        match scenario {
            Scenario::Both => self.check_both(image, near),
            Scenario::Alone(tier) => self.check_alone(image, near, tier).map(drop),
            Scenario::Back(tier) => self.check_back(image, near, tier),
        }
    }

    fn check_both(&self, image: &Image<'_>, near: &[Step]) -> Result<(), String> {
        let database = match open(&self.both, &image.recorder) {
            Ok(database) => database,
            Err(_) if image.acknowledged == 0 => return Ok(()),
            Err(error) => return Err(error),
        };
        let found = state(&database)?;
        is_one_of(&found, near)?;
        self.heal_and_compare(image, database, &found)
    }

    /// What is found with one tier alone, if that is enough.
    fn check_alone(
        &self,
        image: &Image<'_>,
        near: &[Step],
        tier: usize,
    ) -> Result<Option<State>, String> {
        let found = open(&self.alone[tier], &image.recorder).and_then(|database| state(&database));
        // It has to have both what was acknowledged and what was under way.
        let is_enough = near.iter().all(|step| step.alone[tier]);
        match found {
            Ok(found) => is_one_of(&found, near).map(|()| Some(found)),
            Err(error) if is_enough => Err(format!("tier {tier} alone: {error}")),
            Err(_) => Ok(None),
        }
    }

    fn check_back(&self, image: &Image<'_>, near: &[Step], tier: usize) -> Result<(), String> {
        let Some(mut found) = self.check_alone(image, near, tier)? else {
            return Ok(());
        };
        let alone = open(&self.alone[tier], &image.recorder)?;
        for (name, rows_now) in &mut found {
            let table = alone.table(name).ok_or("a table that was there is gone")?;
            let appended = table.append(&[rows(*rows_now..*rows_now + 1)]);
            appended.map_err(|error| error.to_string())?;
            *rows_now += 1;
        }
        drop(alone);
        match Database::open(&self.both, &options(&image.recorder)) {
            Ok(database) => {
                let now = state(&database)?;
                if now != found {
                    return Err(format!(
                        "{found:?} was shown, with both tiers it is {now:?}"
                    ));
                }
                self.heal_and_compare(image, database, &found)
            }
            // The one that was away was the first to publish what was not acknowledged: it is refused, for they have
            // gone different ways.
            Err(OpenError::Diverged { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Everything is put right: no copy is damaged, and each tier in which all tables have copies has all of it.
    fn heal_and_compare(
        &self,
        image: &Image<'_>,
        database: Arc<Database>,
        found: &State,
    ) -> Result<(), String> {
        let text = |error: tierra_engine::TableError| error.to_string();
        database.wait_for_near_copies().map_err(text)?;
        let scrub = |only_verify| {
            let options = ScrubOptions {
                only_verify,
                ..ScrubOptions::default()
            };
            database.scrub(&options, |_| {}).map_err(text)
        };
        let repaired = scrub(false)?;
        if !repaired.lost.is_empty() {
            return Err(format!("{:?} is lost", repaired.lost));
        }
        let left = scrub(true)?.damaged_copies;
        if left > 0 {
            return Err(format!(
                "{left} copies are damaged after they were repaired"
            ));
        }
        let tables = database.tables();
        let has_all = |tier: &str| {
            let in_tier = |name: &String| {
                let table = database.table(name);
                table.is_some_and(|table| table.replicas().table.iter().any(|of| of == tier))
            };
            !tables.is_empty() && tables.iter().all(in_tier)
        };
        let enough = ["far", SECOND].map(has_all);
        drop(database);
        for tier in (0..2).filter(|&tier| enough[tier]) {
            let alone = open(&self.alone[tier], &image.recorder)
                .and_then(|database| state(&database))
                .map_err(|error| format!("tier {tier} alone, once it was healed: {error}"))?;
            if alone != *found {
                return Err(format!("tier {tier} alone has {alone:?} of {found:?}"));
            }
        }
        Ok(())
    }
}

/// The state found in a database of one tier is that of the step acknowledged or of the next.
pub(crate) fn check_one(dir: &Path, image: &Image<'_>, steps: &[Step]) -> Result<(), String> {
    match open(dir, &image.recorder) {
        Ok(database) => is_one_of(&state(&database)?, near(image, steps)),
        // Cut before there was a database.
        Err(_) if image.acknowledged == 0 => Ok(()),
        Err(error) => Err(error),
    }
}

/// The step that was acknowledged, and the next.
fn near<'a>(image: &Image<'_>, steps: &'a [Step]) -> &'a [Step] {
    let acknowledged = image.acknowledged as usize;
    &steps[acknowledged..steps.len().min(acknowledged + 2)]
}

fn is_one_of(found: &State, near: &[Step]) -> Result<(), String> {
    match near.iter().any(|step| step.state == *found) {
        true => Ok(()),
        false => {
            let near: Vec<&State> = near.iter().map(|step| &step.state).collect();
            Err(format!("{found:?} is none of {near:?}"))
        }
    }
}
