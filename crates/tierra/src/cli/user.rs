//! `tierra user NAME`: the line of a user for `tierra serve --users`.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use rustyline::{
    Completer, Editor, Helper, Hinter, Validator,
    highlight::{CmdKind, Highlighter},
    history::MemHistory,
};

use super::CommandError;

/// The arguments of `tierra user`.
#[derive(Args)]
pub(crate) struct UserArguments {
    /// The user's name
    name: String,
    /// The user may only read
    #[arg(long)]
    read_only: bool,
}

/// Shows stars in place of what is typed.
#[derive(Completer, Helper, Hinter, Validator)]
struct Stars;

impl Highlighter for Stars {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> std::borrow::Cow<'l, str> {
        "*".repeat(line.chars().count()).into()
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &UserArguments) -> Result<(), CommandError> {
    let password = match io::stdin().is_terminal() {
        true => ask()?,
        false => {
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line);
            read.map_err(CommandError::Output)?;
            line.trim_end_matches(['\n', '\r']).to_owned()
        }
    };
    if password.is_empty() {
        return Err(CommandError::User("the password is empty".to_owned()));
    }
    let verifier = tierra_postgres::verifier(&password).map_err(CommandError::Output)?;
    let key = key(&arguments.name).ok_or_else(|| {
        CommandError::User("the name is empty, or has characters that cannot be seen".to_owned())
    })?;
    let value = match arguments.read_only {
        true => format!("{{ verifier = \"{verifier}\", read-only = true }}"),
        false => format!("\"{verifier}\""),
    };
    writeln!(io::stdout(), "{key} = {value}").map_err(CommandError::Output)
}

/// Asks for the password twice.
fn ask() -> Result<String, CommandError> {
    let mut editor =
        Editor::<Stars, MemHistory>::with_history(rustyline::Config::default(), MemHistory::new())?;
    editor.set_helper(Some(Stars));
    let password = editor.readline("password: ")?;
    match editor.readline("again: ")? == password {
        true => Ok(password),
        false => Err(CommandError::User("the passwords differ".to_owned())),
    }
}

/// The name as a key of TOML.
fn key(name: &str) -> Option<String> {
    if name.is_empty() || name.contains(char::is_control) {
        return None;
    }
    let is_bare = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    Some(match is_bare {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_keys() {
        assert_eq!(key("alice").as_deref(), Some("alice"));
        assert_eq!(key("é b\"").as_deref(), Some("\"é b\\\"\""));
        assert_eq!(key("a\n"), None);
    }
}
