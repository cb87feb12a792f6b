//! The promise of `tierra completions` and `tierra man`: they name every command and every flag, in what shells and man read.
#![cfg(feature = "cli")]

mod binary;

use std::process::{Command, Stdio};

use binary::tierra;

/// The commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = tierra(["--help"]).well().out;
    let listed = help.split("Commands:\n").nth(1).unwrap();
    let listed = listed.split("\n\n").next().unwrap().lines();
    // The lines of a long description have no name.
    let named = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = named.map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

/// The long flags of a command.
fn flags(command: &str) -> Vec<String> {
    let help = tierra([command, "--help"]).well().out;
    let lines = help.lines().map(str::trim_start);
    let flags = lines.filter(|line| line.starts_with('-'));
    let flags =
        flags.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
    flags
        .map(|flag| flag.trim_end_matches(',').to_owned())
        .collect()
}

#[test]
fn shells_are_told_of_every_command() {
    let commands = commands();
    assert!(commands.iter().any(|name| name == "serve") && commands.len() > 15);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = tierra(["completions", shell]).well().out;
        for name in &commands {
            assert!(script.contains(name), "{shell}: {name}");
        }
        assert!(script.contains("max-connections"), "{shell}");
    }
    tierra(["completions", "cmd"]).with_status(2, &["bash", "zsh", "fish"]);
    tierra(["completions"]).with_status(2, &["SHELL"]);
}

/// As bash asks when somebody presses Tab.
#[test]
fn bash_completes_commands_flags_and_values() {
    let script = tierra(["completions", "bash"]).well().out;
    let complete = |words: &str, at: usize| {
        let ask = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD={at}; _tierra tierra \"${{COMP_WORDS[$COMP_CWORD]}}\" \"${{COMP_WORDS[$((COMP_CWORD-1))]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        );
        let mut bash = Command::new("bash");
        // Not a login shell, and nothing of the user's.
        let bash = bash.args(["--norc", "--noprofile", "-c", &ask]);
        let told = bash.stderr(Stdio::inherit()).output().unwrap();
        String::from_utf8(told.stdout).unwrap()
    };
    assert_eq!(complete("tierra se", 1), "serve\n");
    assert_eq!(complete("tierra serve --max", 2), "--max-connections\n");
    assert!(complete("tierra completions ''", 2).contains("zsh\n"));
}

#[test]
fn pages_name_every_flag() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().to_str().unwrap();
    tierra(["man", "--out", dir]).well();
    let whole = tierra(["man"]).well().out;
    for name in commands() {
        assert!(whole.contains(&format!("tierra\\-{name}(1)")), "{name}");
        let page = tierra(["man", &name]).well().out;
        let file = scratch.path().join(format!("tierra-{name}.1"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), page);
        for flag in flags(&name) {
            assert!(page.contains(&flag.replace('-', "\\-")), "{name} {flag}");
        }
    }
    let file = scratch.path().join("tierra.1");
    assert_eq!(std::fs::read_to_string(file).unwrap(), whole);
    let pages = std::fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(pages, 1 + commands().len());
    tierra(["man", "nosuch"]).with_status(2, &["no command of this name"]);
    tierra(["man", "--out", "/nosuch/dir"]).with_error(&["/nosuch/dir"]);
}
