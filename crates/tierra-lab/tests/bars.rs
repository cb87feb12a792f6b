//! The promise: `bars` fails when a bar is missed, when a sample is missing, and when a results file
//! claims what its samples do not say. Shown on planted faults, so that the check is known to bite.

use std::fs;
use std::path::Path;

use tierra_lab::bar::Bar;
use tierra_lab::error::LabError;
use tierra_lab::experiments::{Experiment, Measured};
use tierra_lab::lab::Lab;
use tierra_lab::machine::Machine;
use tierra_lab::results::{Results, Tier};
use tierra_lab::row::{Row, find};
use tierra_lab::run::run;
use tierra_lab::verdict::verdicts;
use tierra_lab::view::{Unit, View};

/// Two contenders with fixed times: ours takes half of theirs.
struct Race;

const VIEWS: [View; 1] = [View {
    title: "time",
    category: "query",
    series: "engine",
    value: "time_ns",
    per: None,
    unit: Unit::Nanoseconds,
    mean: false,
}];

impl Experiment for Race {
    fn name(&self) -> &'static str {
        "race"
    }

    fn about(&self) -> &'static str {
        "who is faster?"
    }

    fn run(&self, _: &Lab) -> Result<Measured, LabError> {
        let row = |engine: &str, samples| {
            Row::new()
                .text("query", "q")
                .text("engine", engine)
                .samples("time", "ns", samples)
        };
        let rows = vec![
            row("ours", vec![40, 50, 60]),
            row("theirs", vec![90, 100, 900]),
        ];
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new(),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let time = |engine| find(rows, &[("engine", engine)])?.value("time_ns");
        let ratio = time("ours")
            .zip(time("theirs"))
            .map(|(ours, theirs)| ours / theirs);
        vec![Bar::at_most("ours over theirs", 0.9, ratio)]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

fn measured(folder: &Path) -> Results {
    let lab = Lab::new(false, folder).unwrap();
    run(&Race, &lab, &quiet_machine(), folder).unwrap()
}

/// This machine as if nothing else had run on it.
fn quiet_machine() -> Machine {
    Machine {
        build: "release".to_owned(),
        load_at_start: Some(0.25),
        ..Machine::record(None, Some(0.0))
    }
}

/// The verdict after `change` has been made to the results file's text.
fn met_after(change: impl Fn(String) -> String) -> bool {
    let folder = tempfile::tempdir().unwrap();
    measured(folder.path());
    let path = folder.path().join("race.json");
    let before = fs::read_to_string(&path).unwrap();
    let after = change(before.clone());
    fs::write(&path, after).unwrap();
    verdicts(folder.path(), &[&Race]).unwrap()[0].is_met()
}

#[test]
fn a_run_leaves_json_csv_and_svg() {
    let folder = tempfile::tempdir().unwrap();
    let results = measured(folder.path());
    assert_eq!(results.bars[0].measured, Some(0.5));
    for extension in ["json", "csv", "svg"] {
        assert!(
            folder
                .path()
                .join("race")
                .with_extension(extension)
                .exists()
        );
    }
}

#[test]
fn honest_results_are_met() {
    assert!(met_after(|text| text));
}

#[test]
fn slower_samples_miss_the_bar() {
    assert!(!met_after(
        |text| text.replace("[40, 50, 60]", "[400, 500, 600]")
    ));
}

#[test]
fn a_missing_row_misses_the_bar() {
    assert!(!met_after(|text| text.replace("\"theirs\"", "\"nobody\"")));
}

#[test]
fn claims_that_the_samples_do_not_bear_out_are_caught() {
    assert!(!met_after(
        |text| text.replace("\"measured\": 0.5", "\"measured\": 0.4")
    ));
    // Faster samples than the recorded bar says: met, but not what was recorded.
    assert!(!met_after(|text| text.replace("[40, 50, 60]", "[4, 5, 6]")));
}

#[test]
fn a_result_of_a_busy_machine_or_of_a_quick_run_does_not_count() {
    let busy = |text: String| text.replace("\"load_at_start\": 0.25", "\"load_at_start\": 0.5");
    assert!(!met_after(busy));
    let unknown = |text: String| text.replace("\"load_at_start\": 0.25", "\"load_at_start\": null");
    assert!(!met_after(unknown));
    assert!(!met_after(
        |text| text.replace("\"quick\": false", "\"quick\": true")
    ));
}

#[test]
fn a_run_of_a_busy_machine_leaves_results_that_count() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(false, folder.path()).unwrap();
    let busy = Machine {
        load_at_start: Some(3.0),
        ..quiet_machine()
    };
    let on = |machine: &Machine| run(&Race, &lab, machine, folder.path());
    on(&busy).unwrap();
    on(&quiet_machine()).unwrap();
    assert!(matches!(
        on(&busy),
        Err(LabError::NotCountedOverCounted { .. })
    ));
    assert_eq!(
        verdicts(folder.path(), &[&Race]).unwrap()[0].why_not_counted,
        None
    );
}

#[test]
fn what_a_result_was_measured_on_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let results = measured(folder.path());
    let verdicts = verdicts(folder.path(), &[&Race]).unwrap();
    assert_eq!(verdicts[0].why_not_counted, None);
    let origin = &verdicts[0].origin;
    assert!(
        origin.contains(&results.machine.cpu) && origin.contains("load 0.25"),
        "{origin}"
    );
    let commit = results.machine.commit.unwrap();
    assert!(origin.contains(&commit[..9]), "{origin}");
}

#[test]
fn nothing_to_judge_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        verdicts(folder.path(), &[&Race]),
        Err(LabError::NoResults { .. })
    ));
    measured(folder.path());
    assert!(matches!(
        verdicts(folder.path(), &[]),
        Err(LabError::UnknownExperiment { .. })
    ));
}
