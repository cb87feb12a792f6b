//! The shell on a terminal: line editing, history, completion. It continues after errors.

use std::{
    env,
    io::{BufWriter, Write, stdout},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rustyline::{
    CompletionType, Config, Editor, ExternalPrinter, error::ReadlineError, history::DefaultHistory,
};
use tierra::printable_lines;

use super::{Next, Shell, complete::Names};
use crate::cli::{
    CommandError, log,
    script::{Kind, pieces},
};

/// The most statements in the history.
const HISTORY: usize = 10_000;

/// Reads and runs statements until the user leaves.
pub(super) async fn run(shell: &mut Shell, temporary: bool) -> Result<(), CommandError> {
    let config = Config::builder()
        .max_history_size(HISTORY)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .build();
    let mut editor: Editor<Names, DefaultHistory> = Editor::with_config(config)?;
    editor.set_helper(Some(Names::default()));
    // A warning during input is printed above the input line.
    let printer = Arc::new(Mutex::new(editor.create_external_printer()?));
    let history = history_file();
    if let Some(file) = &history {
        // At the first start there is no history.
        let _ = editor.load_history(file);
    }
    eprintln!(
        "Tierra {}; .help shows how to ask.",
        env!("CARGO_PKG_VERSION")
    );
    if temporary {
        eprintln!("This database is temporary; start with --db DIR to keep one.");
    }
    loop {
        if let Some(names) = editor.helper_mut() {
            names.tables = shell.session.tables_and_columns();
        }
        // It blocks this thread. Queries have ended by now, so nothing waits for it.
        let typing = printer.clone();
        log::print_with(Some(Box::new(move |line| {
            let mut printer = typing.lock().unwrap_or_else(PoisonError::into_inner);
            // If the terminal is gone, the shell ends soon.
            let _ = printer.print(line);
        })));
        let typed = editor.readline("tierra> ");
        log::print_with(None);
        let input = match typed {
            Ok(input) => input,
            // Ctrl-C discards the input, Ctrl-D leaves.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        if input.trim().is_empty() {
            continue;
        }
        editor.add_history_entry(input.trim())?;
        if let Some(file) = &history {
            // Written immediately, so that a killed shell keeps its history. A failure is ignored.
            let _ = editor.append_history(file);
        }
        if run_input(shell, &input).await? == Next::Quit {
            break;
        }
    }
    Ok(())
}

async fn run_input(shell: &mut Shell, input: &str) -> Result<Next, CommandError> {
    let mut out = BufWriter::new(stdout());
    for piece in pieces(input) {
        let result = match piece.kind {
            Kind::Command => shell.command(piece.text, &mut out),
            Kind::Statement | Kind::Unfinished => shell
                .statement(piece.text, &mut out)
                .await
                .map(|()| Next::Continue),
        };
        out.flush().map_err(CommandError::Output)?;
        match result {
            Ok(Next::Continue) => {}
            Ok(Next::Quit) => return Ok(Next::Quit),
            // Without the terminal there is no reason to continue.
            Err(CommandError::Output(error)) => return Err(CommandError::Output(error)),
            Err(error) => {
                eprintln!("error: {}", printable_lines(&error.to_string()));
                break;
            }
        }
    }
    Ok(Next::Continue)
}

/// `$TIERRA_HISTORY`, else `.tierra_history` in the home directory.
fn history_file() -> Option<PathBuf> {
    match env::var_os("TIERRA_HISTORY") {
        Some(file) => Some(file.into()),
        None => Some(PathBuf::from(env::var_os("HOME")?).join(".tierra_history")),
    }
}
