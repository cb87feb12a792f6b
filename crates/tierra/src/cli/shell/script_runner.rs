//! Runs a script up to its end or its first error.

use std::io::{BufWriter, stdout};

use super::{Next, Shell};
use crate::cli::{
    CommandError, ScriptPosition,
    script::{Kind, pieces},
};

/// Runs `script`; `name` is its name in errors.
pub(super) async fn run(shell: &mut Shell, name: &str, script: &str) -> Result<(), CommandError> {
    let mut out = BufWriter::new(stdout().lock());
    for piece in pieces(script) {
        let result = match piece.kind {
            Kind::Command => shell.command(piece.text, &mut out),
            // The last statement needs no semicolon.
            Kind::Statement | Kind::Unfinished => shell
                .statement(piece.text, &mut out)
                .await
                .map(|()| Next::Continue),
        };
        let next = result.map_err(|source| CommandError::InScript {
            place: ScriptPosition {
                script: name.to_owned(),
                line: piece.line,
            },
            source: Box::new(source),
        })?;
        if next == Next::Quit {
            break;
        }
    }
    std::io::Write::flush(&mut out).map_err(CommandError::Output)
}
