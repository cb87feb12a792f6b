//! `tierra calibrate`: how many look-ups should take turns on this machine, measured and remembered.

use std::path::PathBuf;

use clap::Args;
use tierra_engine::{CALIBRATION_STEPS, Calibration};

use super::{CommandError, progress};

/// What `tierra calibrate` takes.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory of the database; look-ups take turns as measured from when it is opened next
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
}

/// Runs the command.
pub(crate) fn run(Arguments { db }: &Arguments) -> Result<(), CommandError> {
    let bar = progress::steps_bar("calibrating", CALIBRATION_STEPS);
    let measured = Calibration::measure(db, || bar.inc(1));
    bar.finish_and_clear();
    let calibration = measured.map_err(Box::new)?;
    let path = calibration.write(db).map_err(|source| CommandError::File {
        action: "write the calibration into",
        path: db.clone(),
        source,
    })?;
    println!(
        "keys {} at a time, cells {} at a time: written to {}",
        calibration.key,
        calibration.cell,
        path.display()
    );
    Ok(())
}
