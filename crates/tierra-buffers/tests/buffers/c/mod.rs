//! Promise: a C program uses buffers by the header alone.

mod calls;
mod examples;
mod header;
mod misuse;

use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The C compiler, unless there is none.
fn compiler() -> Option<Command> {
    let name = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&name);
    match Command::new(&name).arg("--version").output() {
        Ok(_) => {
            command.args([
                "-std=c11",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-O1",
            ]);
            command.arg("-I").arg(root().join("include"));
            Some(command)
        }
        Err(error) => {
            eprintln!("SKIPPED: there is no C compiler ({name}: {error}); set CC, or install one");
            None
        }
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
