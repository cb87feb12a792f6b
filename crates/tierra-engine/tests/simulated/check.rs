//! The promise, checked on what a power cut left: by which of the tiers the database is opened, what has to be there then,
//! and that all copies are equal after it.

use std::sync::Arc;

use tempfile::TempDir;
use tierra_engine::{Database, DatabaseOptions, OpenError, ScrubOptions};
use tierra_memory::simulation::{Image, Limits, Report, Trace};

use super::{POOLS, SECOND, State, Step, folder, options, rows, state};

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

/// Where images are made.
pub(crate) struct Images {
    dir: TempDir,
}

impl Images {
    pub(crate) fn new() -> Images {
        Images { dir: folder() }
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
        let image = self.dir.path().join("image");
        trace.explore_directory(&image, limits, check).unwrap()
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
        let database = open_or_go_on(image)?;
        let found = state(&database)?;
        is_one_of(&found, near)?;
        self.repair_and_compare(image, database, &found)
    }

    /// What is found with one tier alone, if that is enough.
    fn check_alone(
        &self,
        image: &Image<'_>,
        near: &[Step],
        tier: usize,
    ) -> Result<Option<State>, String> {
        let found = self.alone(image, tier, |database| state(database));
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
        self.alone(image, tier, |alone| {
            for (name, rows_now) in &mut found {
                let table = alone.table(name).ok_or("a table that was there is gone")?;
                let appended = table.append(&[rows(*rows_now..*rows_now + 1)]);
                appended.map_err(|error| error.to_string())?;
                *rows_now += 1;
            }
            Ok(())
        })?;
        match Database::open(image.path, &options(&image.recorder)) {
            Ok(database) => {
                let now = state(&database)?;
                // Where nothing was written, nothing was decided on.
                if found.is_empty() {
                    is_one_of(&now, near)?;
                    found = now.clone();
                }
                if now != found {
                    return Err(format!(
                        "{found:?} was shown, with both tiers it is {now:?}"
                    ));
                }
                self.repair_and_compare(image, database, &found)
            }
            // The one that was away was the first to publish what was not acknowledged: it is refused, for they have
            // gone different ways.
            Err(OpenError::Diverged { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What `look` finds while the other tier is away.
    fn alone<T>(
        &self,
        image: &Image<'_>,
        tier: usize,
        look: impl FnOnce(&Arc<Database>) -> Result<T, String>,
    ) -> Result<T, String> {
        let other = image.path.join(POOLS[1 - tier]);
        let away = self.dir.path().join("away");
        let is_there = other.exists();
        if is_there {
            std::fs::rename(&other, &away).map_err(|error| error.to_string())?;
        }
        let degraded = DatabaseOptions {
            degraded: true,
            ..options(&image.recorder)
        };
        let opened = Database::open(image.path, &degraded).map_err(|error| error.to_string());
        let found = opened.and_then(|database| {
            let found = look(&database);
            database.close();
            found
        });
        if is_there {
            std::fs::rename(&away, &other).map_err(|error| error.to_string())?;
        }
        found
    }

    /// Everything is put right: no copy is damaged, and each tier in which all tables have copies has all of it.
    fn repair_and_compare(
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
            let alone = self
                .alone(image, tier, |database| state(database))
                .map_err(|error| format!("tier {tier} alone, once it was repaired: {error}"))?;
            if alone != *found {
                return Err(format!("tier {tier} alone has {alone:?} of {found:?}"));
            }
        }
        Ok(())
    }
}

/// The state found in a database of one tier is that of the step acknowledged or of the next.
pub(crate) fn check_one(image: &Image<'_>, steps: &[Step]) -> Result<(), String> {
    let database = open_or_go_on(image)?;
    is_one_of(&state(&database)?, near(image, steps))
}

/// Opens what lies there; a creation that was cut short goes on.
fn open_or_go_on(image: &Image<'_>) -> Result<Arc<Database>, String> {
    let opened = match image.acknowledged {
        0 => Database::open_or_create(image.path, &options(&image.recorder)),
        _ => Database::open(image.path, &options(&image.recorder)),
    };
    opened.map_err(|error| error.to_string())
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
