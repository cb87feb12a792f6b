//! Peers in C, compiled when their experiment runs, by any installed C compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{At, Context, LabError};

/// The compilers to try.
const COMPILERS: [&str; 3] = ["cc", "gcc", "clang"];

/// Compiles `source` in `folder`, named `name`, with more arguments; `None` if there is no compiler, or no header of
/// that name.
///
/// # Errors
/// A source that the compiler refuses.
pub(super) fn compile(
    folder: &Path,
    name: &str,
    source: &str,
    header: &str,
    more: &[&str],
) -> Result<Option<PathBuf>, LabError> {
    let Some(compiler) = COMPILERS.into_iter().find(|one| runs(one, &["--version"])) else {
        return Ok(None);
    };
    let (probe, input) = (
        folder.join("probe.c"),
        folder.join(name).with_extension("c"),
    );
    fs::write(&probe, format!("#include <{header}>\n")).at(&probe)?;
    fs::write(&input, source).at(&input)?;
    if !runs(compiler, &["-fsyntax-only", &probe.to_string_lossy()]) {
        return Ok(None);
    }
    let object = folder.join(name);
    let compiled = Command::new(compiler)
        .args(["-O3", "-march=native", "-o"])
        .args([&object, &input])
        .args(more)
        .output()
        .by(compiler, "starting")?;
    if !compiled.status.success() {
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        return Err(said).by(compiler, format!("compiling the C peer {name}"));
    }
    Ok(Some(object))
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}
