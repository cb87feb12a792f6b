//! Runs one experiment: measure, judge, write, show.

use std::path::Path;

use crate::bar::Bar;
use crate::error::LabError;
use crate::experiments::Experiment;
use crate::figure;
use crate::lab::Lab;
use crate::machine::Machine;
use crate::results::{Results, SCHEMA};
use crate::row::Row;
use crate::table::aligned;
use crate::verdict;
use crate::view::View;

/// Starts each peer that the experiment's bars need, on both media, and ends it.
///
/// # Errors
/// The first that does not start: it is told before hours are spent without it.
pub fn check_peers(experiment: &dyn Experiment, lab: &Lab) -> Result<(), LabError> {
    for peer in experiment.peers() {
        let in_memory = lab.folder_in_memory().ok();
        for folder in [Some(lab.passing_folder()?), in_memory]
            .into_iter()
            .flatten()
        {
            (peer.start)(folder.path()).map_err(|why| LabError::NoPeer {
                name: peer.name,
                why,
            })?;
        }
    }
    Ok(())
}

/// Runs an experiment and writes `NAME.json`, `NAME.csv` and `NAME.svg` to `out`.
///
/// # Errors
/// Any error of the experiment, including answers that differ between two contenders, and results that may not be replaced. Then
/// nothing is written.
pub fn run(
    experiment: &dyn Experiment,
    lab: &Lab,
    machine: &Machine,
    out: &Path,
) -> Result<Results, LabError> {
    // Checked before the experiment runs, not after.
    let (name, is_timed) = (experiment.name(), experiment.is_timed());
    let old = Results::replaced(out, name, lab.is_quick(), machine, is_timed)?;
    println!("{}: {}", experiment.name(), experiment.about());
    if let Some(why) = machine.why_not_counted(is_timed) {
        println!("This result will not count: {why}.");
    }
    let measured = experiment.run(lab)?;
    let parameters = lab.parameters().and(measured.parameters);
    let results = Results {
        schema: SCHEMA,
        name: experiment.name().to_owned(),
        about: experiment.about().to_owned(),
        quick: lab.is_quick(),
        machine: machine.clone(),
        tier: measured.tier,
        parameters,
        bars: experiment.bars(&measured.rows),
        rows: measured.rows,
        paper: experiment.paper(),
    };
    results.write(out)?;
    experiment.written(lab);
    draw_results(experiment, &results, out)?;
    print!("{}", shown(&results, experiment.views()));
    let written = Results::path(out, experiment.name(), "json");
    match old {
        Some(old) => println!(
            "{} replaces results of {}",
            written.display(),
            old.machine.date
        ),
        None => println!("{} written", written.display()),
    }
    println!();
    Ok(results)
}

/// The tables of a folder's `NAME.json`, under its name and origin.
///
/// # Errors
/// There are no such results.
pub fn show(experiment: &dyn Experiment, folder: &Path) -> Result<String, LabError> {
    let results = Results::read(&Results::path(folder, experiment.name(), "json"))?;
    let origin = verdict::origin(&results.machine);
    let tables = tables(&results, experiment.views());
    Ok(format!("{} ({origin})\n{tables}", results.name))
}

/// Writes `NAME.csv` and `NAME.svg` of a folder again, from its `NAME.json`.
///
/// # Errors
/// There are no such results, or a file cannot be written.
pub fn draw(experiment: &dyn Experiment, folder: &Path) -> Result<(), LabError> {
    let results = Results::read(&Results::path(folder, experiment.name(), "json"))?;
    results.write_csv(folder)?;
    draw_results(experiment, &results, folder)
}

fn draw_results(
    experiment: &dyn Experiment,
    results: &Results,
    folder: &Path,
) -> Result<(), LabError> {
    figure::write(
        &Results::path(folder, experiment.name(), "svg"),
        results,
        experiment.views(),
        experiment.curves(),
    )
}

/// Tables of the views and of the bars.
fn shown(results: &Results, views: &[View]) -> String {
    let mut text = tables(results, views);
    if !results.bars.is_empty() {
        if results.quick {
            text.push_str(&format!("\n{QUICK}\n"));
        }
        text.push_str(&format!("\n{}", bars_table(&results.bars)));
    }
    text
}

/// Tables of the views.
fn tables(results: &Results, views: &[View]) -> String {
    let rows: Vec<Row> = results.rows.iter().chain(&results.paper).cloned().collect();
    let mut text = String::new();
    for view in views {
        let grid = view.grid(&rows);
        if !grid.categories.is_empty() {
            let table = aligned(&view.lines(&grid));
            text.push_str(&format!("\n{}\n{table}", view.titled(&grid)));
        }
    }
    text
}

/// The note on bars of a quick run.
const QUICK: &str = "This was a quick run; its bars are stated for full scale.";

/// Bars as a table: what, bar, measured, met.
pub fn bars_table(bars: &[Bar]) -> String {
    if bars.is_empty() {
        return "No bar is set.\n".to_owned();
    }
    let mut lines = vec![["what", "bar", "measured", ""].map(str::to_owned).to_vec()];
    lines.extend(bars.iter().map(|bar| bar.cells().to_vec()));
    aligned(&lines)
}
