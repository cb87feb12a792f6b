//! A file restored as a backup, and the database used as far as it lets itself.
//!
//! Invariant: a file is refused, and leaves nothing, or it becomes a database that keeps the promises of every database.

use std::fs;

use tierra_engine::{Backup, BackupOptions, Database, DatabaseOptions, RestoreOptions};
use tierra_memory::faults::Stop;

use crate::database;

/// A backup of [`database::base`].
///
/// # Errors
/// Where it cannot be made.
pub fn of_base() -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let dir = database::scratch_dir().join("backed-up");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("far.pool"), database::base())?;
    let database = Database::open(&dir, &database::options())?;
    database.wait_for_near_copies()?;
    let file = dir.join("backup");
    database.backup(&file, &BackupOptions::default(), |_| {})?;
    drop(database);
    let bytes = fs::read(file)?;
    fs::remove_dir_all(dir)?;
    Ok(bytes)
}

/// A backup with every kind of structure, to mutate parts of. `seeds.rs` makes it.
pub fn base() -> &'static [u8] {
    include_bytes!("../seeds/backup/tables")
}

/// Checks and restores the file, reads all tables, writes to them, and opens the database again.
///
/// # Panics
/// Where the invariant does not hold.
pub fn restore_and_use(bytes: &[u8]) {
    let dir = database::scratch_dir();
    let (file, restored) = (dir.join("backup"), dir.join("restored"));
    fs::write(&file, bytes).expect("room for a small file");
    let Ok(backup) = Backup::open(&file) else {
        return;
    };
    let checked = backup.check(&Stop::default(), |_| {});
    let options = DatabaseOptions {
        capacity_bytes: Some(4 << 20),
        ..database::options()
    };
    let made = backup.restore(&restored, &options, &RestoreOptions::default(), |_| {});
    match made {
        Err(_) => assert!(!restored.exists(), "it was refused, and something is left"),
        Ok(_) => {
            checked.expect("what was restored matches its checksums");
            let opened = Database::open(&restored, &database::options());
            let opened = opened.expect("what was restored opens");
            database::use_tables(opened, &restored);
            fs::remove_dir_all(&restored).expect("a directory of this process");
        }
    }
}
