//! Results of an experiment on disk: `NAME.json` with everything, `NAME.csv` with the rows.
//!
//! The JSON file is the record: any program can recompute bars from its raw samples years later. Files appear whole (written
//! under a temporary name, then renamed). A quick run never replaces a full one, and one that does not count none that does.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bar::Bar;
use crate::error::{At, LabError};
use crate::json;
use crate::machine::Machine;
use crate::row::{Cell, Row};

/// Version of the file's layout.
pub const SCHEMA: u32 = 1;

/// The medium of the measured memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// The real memory.
    Real,
    /// DRAM with added latency and a bandwidth limit.
    Emulated,
    /// Computed by a model, not measured.
    Simulated,
}

/// One experiment's record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The experiment.
    pub name: String,
    /// The question it answers.
    pub about: String,
    /// Whether it was a quick run, which tests the experiment and is not a result.
    pub quick: bool,
    /// The machine and the time.
    pub machine: Machine,
    /// The medium of the memory.
    pub tier: Tier,
    /// Scale, threads, seed, repetitions and so on.
    pub parameters: Row,
    /// One row per measured point.
    pub rows: Vec<Row>,
    /// The papers' values, under the same keys as the corresponding rows.
    pub paper: Vec<Row>,
    /// The bars.
    pub bars: Vec<Bar>,
}

impl Results {
    /// The path of an experiment's results in a folder, with that extension.
    pub fn path(folder: &Path, name: &str, extension: &str) -> PathBuf {
        folder.join(name).with_extension(extension)
    }

    /// Reads and checks one results file.
    pub fn read(path: &Path) -> Result<Results, LabError> {
        #[derive(Deserialize)]
        struct Layout {
            schema: u32,
        }
        let malformed = |source| LabError::Malformed {
            path: path.to_owned(),
            source,
        };
        let text = fs::read_to_string(path).at(path)?;
        // The version is checked first: a newer layout should be reported as such, not as a missing field.
        let Layout { schema } = serde_json::from_str(&text).map_err(malformed)?;
        if schema != SCHEMA {
            return Err(LabError::Schema {
                path: path.to_owned(),
                found: schema,
                expected: SCHEMA,
            });
        }
        serde_json::from_str(&text).map_err(malformed)
    }

    /// Why they do not count, in a few words; `None` if they do.
    pub fn why_not_counted(&self, is_timed: bool) -> Option<String> {
        match self.quick {
            true => Some("a quick run, while bars are stated for full scale".to_owned()),
            false => self.machine.why_not_counted(is_timed),
        }
    }

    /// Checks that results of this kind may be written into the folder; returns those they would replace. `machine` is that of the
    /// new ones.
    pub fn replaced(
        folder: &Path,
        name: &str,
        quick: bool,
        machine: &Machine,
        is_timed: bool,
    ) -> Result<Option<Results>, LabError> {
        let path = Results::path(folder, name, "json");
        if !path.exists() {
            return Ok(None);
        }
        let old = match Results::read(&path) {
            Ok(old) => old,
            // Unreadable results are no loss.
            Err(LabError::Malformed { .. } | LabError::Schema { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if quick && !old.quick {
            return Err(LabError::QuickOverFull { path });
        }
        let why = machine.why_not_counted(is_timed);
        if let Some(why) = why.filter(|_| old.why_not_counted(is_timed).is_none()) {
            return Err(LabError::NotCountedOverCounted { path, why });
        }
        Ok(Some(old))
    }

    /// Writes the JSON and CSV files.
    pub fn write(&self, folder: &Path) -> Result<(), LabError> {
        fs::create_dir_all(folder).at(folder)?;
        let path = Results::path(folder, &self.name, "json");
        let json = json::row_per_line(self).map_err(|source| LabError::Malformed {
            path: path.clone(),
            source,
        })?;
        write_whole(&path, &json)?;
        self.write_csv(folder)
    }

    /// Writes the CSV file alone.
    pub fn write_csv(&self, folder: &Path) -> Result<(), LabError> {
        write_whole(&Results::path(folder, &self.name, "csv"), &csv(&self.rows))
    }
}

/// Writes a temporary file, then renames it: a reader sees the old file or the new one.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), LabError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    fs::write(&aside, text).at(&aside)?;
    fs::rename(&aside, path).at(path)
}

/// The rows as comma-separated values: a column per key of any row, samples as a list in one cell.
fn csv(rows: &[Row]) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in rows.iter().flat_map(Row::cells) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let quoted = |text: String| {
        if text.contains([',', '"', '\n']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    };
    let headings = keys.iter().map(|&key| quoted(key.to_owned()));
    let mut text = headings.collect::<Vec<_>>().join(",");
    text.push('\n');
    for row in rows {
        let cells: Vec<String> = keys
            .iter()
            .map(|key| {
                row.get(key)
                    .map_or_else(String::new, |cell: &Cell| quoted(cell.to_string()))
            })
            .collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example(name: &str, quick: bool) -> Results {
        Results {
            schema: SCHEMA,
            name: name.to_owned(),
            about: "an example".to_owned(),
            quick,
            machine: Machine::record(None, None),
            tier: Tier::Real,
            parameters: Row::new().count("seed", 1),
            rows: vec![
                Row::new()
                    .text("query", "a, \"b\"")
                    .samples("time", "ns", vec![1, 2, 3]),
                Row::new()
                    .text("query", "c")
                    .count("stored_bytes", 9)
                    .text("near, fresh", "d"),
            ],
            paper: Vec::new(),
            bars: vec![Bar::at_most("ratio", 1.0, Some(0.5))],
        }
    }

    #[test]
    fn written_results_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let results = example("x", false);
        results.write(folder.path()).unwrap();
        let path = Results::path(folder.path(), "x", "json");
        assert_eq!(Results::read(&path).unwrap(), results);
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .contains("\"time_ns\": [1, 2, 3], ")
        );
        let csv = fs::read_to_string(Results::path(folder.path(), "x", "csv")).unwrap();
        assert_eq!(
            csv,
            "query,time_ns,time_median_ns,time_q1_ns,time_q3_ns,stored_bytes,\"near, fresh\"\n\
             \"a, \"\"b\"\"\",1 2 3,2,1.5,2.5,,\nc,,,,,9,d\n"
        );
    }

    #[test]
    fn a_quick_run_replaces_no_full_one() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine {
            load_at_start: Some(0.0),
            ..Machine::record(None, None)
        };
        let replaced = |quick| Results::replaced(folder.path(), "x", quick, &machine, true);
        assert!(replaced(true).unwrap().is_none());
        example("x", true).write(folder.path()).unwrap();
        assert!(replaced(true).unwrap().is_some());
        example("x", false).write(folder.path()).unwrap();
        assert!(replaced(false).unwrap().is_some());
        assert!(matches!(
            replaced(true),
            Err(LabError::QuickOverFull { .. })
        ));
    }

    #[test]
    fn a_run_that_does_not_count_replaces_none_that_does() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = example("x", false);
        results.machine.build = "release".to_owned();
        let mut write = |load| {
            results.machine.load_at_start = Some(load);
            results.write(folder.path()).unwrap();
            results.machine.clone()
        };
        let busy = write(0.5);
        let replaced = |machine: &Machine, is_timed| {
            Results::replaced(folder.path(), "x", false, machine, is_timed).map(|old| old.is_some())
        };
        assert!(replaced(&busy, true).unwrap());
        let quiet = write(0.1);
        assert!(replaced(&quiet, true).unwrap());
        let refused = replaced(&busy, true).unwrap_err().to_string();
        assert!(refused.contains("load 0.50 when it began"), "{refused}");
        assert!(replaced(&busy, false).unwrap(), "counts have no time");
    }

    #[test]
    fn another_schema_is_named_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        fs::write(&path, r#"{"schema": 9}"#).unwrap();
        assert!(matches!(
            Results::read(&path),
            Err(LabError::Schema { found: 9, .. })
        ));
        fs::write(&path, "{").unwrap();
        assert!(matches!(
            Results::read(&path),
            Err(LabError::Malformed { .. })
        ));
    }
}
