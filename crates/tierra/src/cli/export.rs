//! `tierra export`: writes a database as a folder of SQL and Parquet, for other versions of Tierra and for other systems.
//!
//! ```text
//! FOLDER/schema.sql       a CREATE TABLE for each table, with its settings
//! FOLDER/TABLE.parquet    its rows
//! ```
//!
//! A byte of a table's name that is no letter, digit, '-' or '_' is written as '%' and two hexadecimal digits. A name that becomes
//! too long for a file ends with '~' and a hash of all of it. All tables are as of one commit.
//!
//! Invariant: the folder has its name when it is complete and durable. It grows as `FOLDER.partial`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tierra::engine::{ScanError, ScanSpec, Snapshot};
use tierra::sql;
use tierra_interleave::Scheduling;

use super::interrupt::Interrupt;
use super::open::OpenOptions;
use super::units::Count;
use super::{CommandError, progress};
use crate::cli::output::tell;

/// The file with the definitions of the tables.
pub(crate) const SCHEMA: &str = "schema.sql";
/// Rows read at a time.
const BATCH_ROWS: usize = 8_192;
/// Of a table's name in that of its file. File systems take 255 bytes.
const NAME_BYTES_MOST: usize = 200;

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct ExportArguments {
    /// Directory of the database, which is only read, and must not be open elsewhere to write
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// The folder to be written, which must be missing or empty
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    open: OpenOptions,
}

/// Runs the command.
pub(crate) fn run(arguments: &ExportArguments) -> Result<(), CommandError> {
    let interrupt = Interrupt::watch()?;
    let open = arguments.open.clone().without_scrubber().or_near_memory(0);
    let database = open.options().read_only(true).open(&arguments.db)?;
    let folder = Folder::create(&arguments.folder)?;
    let (mut schema, mut rows) = (String::new(), 0);
    let snapshots = database.engine().all_snapshots();
    for snapshot in &snapshots {
        let table = snapshot.table();
        // The rows of a damaged table are not all there.
        table
            .check_available()
            .map_err(|why| CommandError::Check(why.to_string()))?;
        schema += &sql::create_table_text(table.spec());
        let replicas = sql::replicas_text(table.spec(), &table.replicas());
        if let Some(alter) = replicas {
            schema += &format!(
                "-- Where its copies lie; for a database that has these tiers:\n-- {alter}\n"
            );
        }
        let file = folder.partial.join(file_of(&table.spec().name));
        write_rows(&file, snapshot, &interrupt)?;
        rows += snapshot.rows();
    }
    let file = folder.partial.join(SCHEMA);
    let written = File::create(&file).and_then(|mut file| {
        file.write_all(schema.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| CommandError::file("write", &file, error))?;
    folder.finish()?;
    tell!(
        "{}: {} tables, {} rows",
        arguments.folder.display(),
        Count(snapshots.len() as u64),
        Count(rows)
    );
    Ok(())
}

/// The name of a table's file.
pub(crate) fn file_of(table: &str) -> String {
    let mut name = String::new();
    for byte in table.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' => name.push(byte.into()),
            other => name += &format!("%{other:02X}"),
        }
    }
    if name.len() > NAME_BYTES_MOST {
        // An escaped byte stays whole.
        let cut = name[..NAME_BYTES_MOST].rfind('%');
        let cut = cut.filter(|at| at + 3 > NAME_BYTES_MOST);
        name.truncate(cut.unwrap_or(NAME_BYTES_MOST));
        name += &format!("~{:016x}", fnv_1a(table.as_bytes()));
    }
    name + ".parquet"
}

/// The 64-bit FNV-1a hash.
fn fnv_1a(bytes: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

/// Writes the rows of a table.
fn write_rows(path: &Path, snapshot: &Snapshot, interrupt: &Interrupt) -> Result<(), CommandError> {
    let parquet = |source| CommandError::Parquet {
        path: path.to_owned(),
        source,
    };
    let damaged = |error: ScanError| CommandError::Check(error.to_string());
    let spec = snapshot.table().spec();
    let bar = progress::rows_bar(&spec.name, snapshot.rows());
    let file = File::create(path).map_err(|error| CommandError::file("write", path, error))?;
    let synced = file
        .try_clone()
        .map_err(|error| CommandError::file("write", path, error))?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let schema = snapshot.table().schema();
    let mut writer =
        ArrowWriter::try_new(file, schema, Some(properties.build())).map_err(parquet)?;
    let scan = snapshot.scan(ScanSpec {
        projection: (0..spec.columns.len()).collect(),
        filters: Vec::new(),
        batch_rows: BATCH_ROWS,
        execution: Scheduling::Auto,
    });
    let mut cursor = scan.cursor();
    while let Some(batch) = cursor.next(&[], 0).map_err(damaged)? {
        interrupt.check()?;
        bar.inc(batch.num_rows() as u64);
        writer.write(&batch).map_err(parquet)?;
    }
    writer.close().map_err(parquet)?;
    bar.finish_and_clear();
    synced
        .sync_all()
        .map_err(|error| CommandError::file("write", path, error))
}

/// A folder that is being written.
struct Folder {
    partial: PathBuf,
    path: PathBuf,
    is_finished: bool,
}

impl Folder {
    fn create(path: &Path) -> Result<Folder, CommandError> {
        let refused = |path: &Path, error| CommandError::file("write", path, error);
        let path = std::path::absolute(path).map_err(|error| refused(path, error))?;
        let is_free = match fs::read_dir(&path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(refused(&path, error)),
        };
        if !is_free {
            let path = path.display();
            return Err(CommandError::Check(format!(
                "{path}: not empty: an export replaces nothing; choose another folder"
            )));
        }
        let mut name = OsString::from(path.file_name().unwrap_or_default());
        name.push(".partial");
        let partial = path.with_file_name(name);
        fs::create_dir(&partial).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => CommandError::Check(format!(
                "{}: there already, from an export that is under way or was killed: remove it if none is",
                partial.display()
            )),
            _ => refused(&partial, error),
        })?;
        Ok(Folder {
            partial,
            path,
            is_finished: false,
        })
    }

    /// Gives the folder its name, durably.
    fn finish(mut self) -> Result<(), CommandError> {
        let sync = |dir: &Path| File::open(dir).and_then(|dir| dir.sync_all());
        let named = sync(&self.partial).and_then(|()| {
            // An empty folder of that name is replaced; one with anything in it is not.
            fs::rename(&self.partial, &self.path)
        });
        named.map_err(|error| CommandError::file("write", &self.path, error))?;
        self.is_finished = true;
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        sync(parent).map_err(|error| CommandError::file("write", parent, error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_finished {
            // The first error is reported.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_names_and_differ() {
        assert_eq!(file_of("orders_2-x"), "orders_2-x.parquet");
        assert_eq!(file_of("a/b.c"), "a%2Fb%2Ec.parquet");
        assert_eq!(file_of("ü%"), "%C3%BC%25.parquet");
        assert_ne!(file_of("a%2F"), file_of("a/"));
        let long = file_of(&"ü".repeat(60));
        assert!(long.len() <= 255, "{long}");
        assert!(
            long.starts_with("%C3%BC") && long.contains("%BC~"),
            "{long}"
        );
        assert_ne!(long, file_of(&"ü".repeat(61)));
    }
}
