//! Running one experiment: measure, judge, write, show.

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
use crate::view::View;

/// Runs an experiment and writes `NAME.json`, `NAME.csv` and `NAME.svg` to `out`.
///
/// # Errors
/// Whatever stops the experiment, an answer that differs between two contenders included; nothing is
/// written then.
pub fn run(
    experiment: &dyn Experiment,
    lab: &Lab,
    machine: &Machine,
    out: &Path,
) -> Result<Results, LabError> {
    // Asked before the first second is spent, not after the last.
    let old = Results::replaced(out, experiment.name(), lab.is_quick())?;
    println!("{}: {}", experiment.name(), experiment.about());
    if let Some(doubt) = machine.doubt() {
        println!("Beware: {doubt}.");
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
    figure::write(
        &Results::path(out, experiment.name(), "svg"),
        &results,
        experiment.views(),
        experiment.curves(),
    )?;
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

/// Tables of the views and of the bars.
fn shown(results: &Results, views: &[View]) -> String {
    let rows: Vec<Row> = results.rows.iter().chain(&results.paper).cloned().collect();
    let mut text = String::new();
    for view in views {
        let lines = view.lines(&rows);
        if lines.len() > 1 {
            text.push_str(&format!("\n{}\n{}", view.title, aligned(&lines)));
        }
    }
    if !results.bars.is_empty() {
        text.push_str(&format!("\n{}", bars_table(&results.bars)));
    }
    text
}

/// Bars as a table: what, bar, measured, met.
pub fn bars_table(bars: &[Bar]) -> String {
    let mut lines = vec![["what", "bar", "measured", ""].map(str::to_owned).to_vec()];
    lines.extend(bars.iter().map(|bar| bar.cells().to_vec()));
    aligned(&lines)
}
