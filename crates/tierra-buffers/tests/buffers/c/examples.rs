//! Promise: the examples, of which one is in C, do what they say.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{compiler, root, run};

/// The example that `cargo run --example` runs.
#[path = "../../../examples/buffers.rs"]
#[allow(dead_code, reason = "it has a main function")]
mod example;

#[test]
fn the_rust_example_does_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    example::run(&dir.path().join("db")).unwrap();
}

/// Where this build put libtierra_buffers.so.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let mut folders = deps.ancestors().skip(1).take(2);
    let is_there = |folder: &&Path| folder.join("libtierra_buffers.so").exists();
    folders.find(is_there).unwrap().to_owned()
}

#[test]
fn the_c_example_does_what_it_says() {
    let Some(mut compiler) = compiler() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (program, library) = (dir.path().join("buffers"), library());
    compiler
        .arg(root().join("examples/buffers.c"))
        .arg("-o")
        .arg(&program);
    run(compiler.arg("-L").arg(&library).arg("-ltierra_buffers"));
    let mut program = Command::new(program);
    let told = run(program
        .env("LD_LIBRARY_PATH", &library)
        .arg(dir.path().join("db")));
    println!("{told}");
    let expected = [
        "100000 values, 1 staged",
        "far: static, 99999 values in ",
        "b: dynamic, 99999 values in ",
        "random: 100000 values in 99 blocks, read from far/static\n",
        "random: sum 104905000, by packed blocks 104905000\n",
        "random: at 99999, 0, 4711: 49, -50, -39\n",
        "sequential: 100000 values in 99 blocks, read from far/static\n",
        "sequential: sum 104905000, by packed blocks 104905000\n",
        "sequential: at 99999, 0, 4711: 49, -50, -39\n",
        "used after it was deleted: error 2: handle 2 is not a buffer: it was closed or deleted\n",
    ];
    for part in expected {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}
