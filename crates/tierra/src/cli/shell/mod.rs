//! `tierra sql`: an interactive shell on a terminal, otherwise a runner of scripts.

mod complete;
mod ddl;
mod dot;
mod interactive;
mod script_runner;

use std::{
    fs,
    io::{IsTerminal, Read, Write, stdin},
    path::PathBuf,
    time::Instant,
};

use clap::Args;
use tierra::{
    Database, printable_lines,
    sql::{Outcome, Session, Work},
};

use super::{
    CommandError,
    format::{Format, write_rows},
    interrupt::Interrupt,
    open::OpenOptions,
    text_table::{Side, TextTable},
    units::{Bytes, Count, Time},
};
use dot::Dot;

/// The arguments of `tierra sql`.
#[derive(Args)]
pub(crate) struct ShellArguments {
    /// Database directory; by default a temporary database that is removed at the end
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Create the database if there is none
    #[arg(long, requires = "db")]
    create: bool,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Run these statements and leave
    #[arg(
        short,
        long,
        value_name = "SQL",
        conflicts_with = "file",
        allow_hyphen_values = true
    )]
    command: Option<String>,
    /// Run the statements of this file and leave; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    open: OpenOptions,
}

/// Runs the command.
pub(crate) async fn run(arguments: &ShellArguments) -> Result<(), CommandError> {
    // The script is read before anything is opened: a missing script must not leave a new database.
    let script = script(arguments)?;
    let mut temporary = None;
    let database = match &arguments.db {
        Some(dir) if arguments.create => arguments.open.open_or_create(dir)?,
        Some(dir) => arguments.open.open(dir)?,
        None => {
            let dir = tempfile::tempdir()
                .map_err(|e| CommandError::file("create", std::env::temp_dir(), e))?;
            let database = arguments.open.open_or_create(dir.path())?;
            // Named after the database, so that it is dropped, and the directory removed, later.
            temporary = Some(dir);
            database
        }
    };
    let session = database.session()?;
    let mut shell = Shell {
        database,
        session,
        interrupt: Interrupt::watch()?,
        format: arguments.format,
        timer: script.is_none(),
    };
    let result = match script {
        Some((name, text)) => script_runner::run(&mut shell, &name, &text).await,
        None => interactive::run(&mut shell, temporary.is_some()).await,
    };
    drop(shell);
    drop(temporary);
    result
}

/// The script to run and its name in errors; `None` for an interactive shell.
fn script(arguments: &ShellArguments) -> Result<Option<(String, String)>, CommandError> {
    let standard_input = || -> Result<Option<(String, String)>, CommandError> {
        let mut text = String::new();
        stdin()
            .read_to_string(&mut text)
            .map_err(|e| CommandError::file("read", "standard input", e))?;
        Ok(Some(("standard input".to_owned(), text)))
    };
    match (&arguments.command, &arguments.file) {
        (Some(text), _) => Ok(Some(("command line".to_owned(), text.clone()))),
        (None, Some(path)) if path.as_os_str() == "-" => standard_input(),
        (None, Some(path)) => {
            let text = fs::read_to_string(path).map_err(|e| CommandError::file("read", path, e))?;
            Ok(Some((path.display().to_string(), text)))
        }
        (None, None) if !stdin().is_terminal() => standard_input(),
        (None, None) => Ok(None),
    }
}

/// An open database, and the format of its answers.
struct Shell {
    session: Session,
    database: Database,
    interrupt: Interrupt,
    format: Format,
    /// Whether the time of each statement is shown.
    timer: bool,
}

/// Whether to continue after a command.
#[derive(PartialEq, Eq)]
enum Next {
    Continue,
    Quit,
}

impl Shell {
    /// Runs one statement and prints its result. Ctrl-C stops it.
    async fn statement(&self, sql: &str, out: &mut impl Write) -> Result<(), CommandError> {
        let start = Instant::now();
        let run = async {
            match self.session.sql(sql).await? {
                Outcome::Rows(mut rows) => {
                    let count = write_rows(self.format, &mut rows, out).await?;
                    Ok((Some(count), rows.work()))
                }
                Outcome::Done(done) => {
                    // Programs that read CSV or JSON want rows only.
                    if self.format == Format::Table {
                        writeln!(out, "{done}").map_err(CommandError::Output)?;
                    }
                    Ok((None, Work::default()))
                }
            }
        };
        // Dropping the statement stops its query and undoes what it has not committed.
        let ended = self.interrupt.stops(run).await;
        let (rows, work) = ended.map_err(|error| match dot::meant(sql) {
            Some(command) => {
                CommandError::DotCommand(format!("'{sql}' is no SQL; write {command}"))
            }
            None => error,
        })?;
        if self.timer {
            // The result is printed before its time.
            out.flush().map_err(CommandError::Output)?;
            eprintln!("{}", timing(rows, start, work));
        }
        Ok(())
    }

    /// Runs a dot command.
    fn command(&mut self, line: &str, out: &mut impl Write) -> Result<Next, CommandError> {
        let text = match Dot::parse(line).map_err(CommandError::DotCommand)? {
            Dot::Quit => return Ok(Next::Quit),
            Dot::Help => dot::help(),
            Dot::Tables => self.tables(),
            Dot::Schema(table) => self.schema(table.as_deref())?,
            Dot::Format(None) => format!("{:?}", self.format).to_lowercase(),
            Dot::Timer(None) => (if self.timer { "on" } else { "off" }).to_owned(),
            Dot::Format(Some(format)) => {
                self.format = format;
                return Ok(Next::Continue);
            }
            Dot::Timer(Some(timer)) => {
                self.timer = timer;
                return Ok(Next::Continue);
            }
        };
        writeln!(out, "{}", printable_lines(text.trim_end())).map_err(CommandError::Output)?;
        Ok(Next::Continue)
    }

    fn tables(&self) -> String {
        let engine = self.database.engine();
        let mut table = TextTable::new([
            ("table", Side::Left),
            ("columns", Side::Right),
            ("rows", Side::Right),
            ("packed", Side::Right),
            ("tail rows", Side::Right),
            ("tail", Side::Right),
        ]);
        for name in engine.tables() {
            // Another session may have dropped it since.
            if let Some(found) = engine.table(&name) {
                let snapshot = found.snapshot();
                table.push(vec![
                    name,
                    Count(found.spec().columns.len() as u64).to_string(),
                    Count(snapshot.rows()).to_string(),
                    Bytes(snapshot.stored_bytes()).to_string(),
                    Count(snapshot.tail_rows()).to_string(),
                    Bytes(snapshot.tail_bytes()).to_string(),
                ]);
            }
        }
        table.to_string()
    }

    fn schema(&self, table: Option<&str>) -> Result<String, CommandError> {
        let engine = self.database.engine();
        let names = match table {
            Some(name) => vec![name.to_owned()],
            None => engine.tables(),
        };
        let mut statements = Vec::new();
        for name in names {
            match engine.table(&name) {
                Some(found) => {
                    statements.push(ddl::create_statement(found.spec(), &found.replicas()))
                }
                None => {
                    let message = format!("there is no table '{name}'; .tables lists them");
                    return Err(CommandError::DotCommand(message));
                }
            }
        }
        Ok(statements.join("\n"))
    }
}

fn timing(rows: Option<u64>, start: Instant, work: Work) -> String {
    let time = Time(start.elapsed());
    let rows = match rows {
        Some(1) => "1 row in ".to_owned(),
        Some(rows) => format!("{} rows in ", Count(rows)),
        None => String::new(),
    };
    match (work.bytes_near, work.bytes_far) {
        (0, 0) => format!("{rows}{time}"),
        (near, far) => {
            let (near, far) = (Bytes(near), Bytes(far));
            format!("{rows}{time}; read {near} near, {far} far")
        }
    }
}
