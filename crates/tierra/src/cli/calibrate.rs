//! `tierra calibrate`: what look-ups gain from taking turns on this machine, measured and remembered.

use std::path::PathBuf;

use clap::Args;
use tierra_engine::{Calibration, Effort, Measured};
use tierra_interleave::Execution;
use tierra_memory::emulation::{self, FarMemory};

use super::open::OpenOptions;
use super::text_table::{Side, TextTable};
use super::{CommandError, progress};

/// What `tierra calibrate` takes.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory of the database; look-ups take turns as measured from when it is opened next
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Measure under this emulated far memory, too; by default that of `tierra.toml`
    #[arg(long, value_name = "MEMORY")]
    emulate: Option<FarMemory>,
    /// Measure on less data and fewer times: for a first impression
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    open: OpenOptions,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let Arguments {
        db,
        emulate,
        quick,
        open,
    } = arguments;
    let effort = if *quick { Effort::QUICK } else { Effort::FULL };
    let database = open.open_to_calibrate(db)?;
    let mut fars = vec![None];
    fars.extend(emulate.or(emulation::current()).map(Some));
    let bar = progress::steps_bar("calibrating", effort.steps(fars.len()));
    let measured = database.engine().calibrate(effort, &fars, || bar.inc(1));
    bar.finish_and_clear();
    let measured = measured.map_err(Box::new)?;
    for far in &fars {
        if let Some(far) = far {
            println!("\nwith {far} emulated:");
        }
        let of_far = measured.iter().filter(|measured| measured.far == *far);
        print!("{}", table(of_far));
    }
    let path = Calibration::of(&measured).write(db);
    let path = path.map_err(|source| CommandError::File {
        action: "write the calibration into",
        path: db.clone(),
        source,
    })?;
    println!("\nnanoseconds a look-up; written to {}", path.display());
    Ok(())
}

fn table<'m>(measured: impl Iterator<Item = &'m Measured>) -> TextTable {
    let sizes: Vec<_> = Measured::sizes().collect();
    let heads: Vec<_> = sizes.iter().map(|size| format!("in {size}s")).collect();
    let columns = [
        ("look-up", Side::Left),
        ("tier", Side::Left),
        ("plain", Side::Right),
    ];
    let columns = columns.into_iter();
    let columns = columns.chain(heads.iter().map(|head| (head.as_str(), Side::Right)));
    let columns = columns.chain([("chosen", Side::Left), ("measured on", Side::Left)]);
    let mut table = TextTable::new(columns);
    for measured in measured {
        let ns = |ns: f64| format!("{ns:.1}");
        let of_size = |size| {
            let mut ways = measured.interleaved_ns.iter();
            let way = ways.find(|way| way.0 == size);
            way.map_or(String::new(), |way| ns(way.1))
        };
        let chosen = match (measured.execution(), measured.interleaved_ns.len()) {
            (Execution::Plain, _) => "plain".to_owned(),
            (Execution::Interleaved, 1) => "interleaved".to_owned(),
            (Execution::Interleaved, _) => format!("in {}s", measured.best().0),
        };
        let mut row = vec![
            measured.kind.to_string(),
            measured.speed.to_string(),
            ns(measured.plain_ns),
        ];
        row.extend(sizes.iter().copied().map(of_size));
        row.extend([chosen, measured.place.clone()]);
        table.push(row);
    }
    table
}
