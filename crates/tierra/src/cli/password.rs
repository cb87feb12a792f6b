//! Hides passwords of the command line from lists of processes.
//!
//! Every user of a machine can read the arguments of a process (`ps`, `/proc/PID/cmdline`). They are in the memory of the process
//! and can be overwritten there, as Redis and PostgreSQL do to set a title.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;

const FLAG: &[u8] = b"--requirepass";

/// Overwrites the values of `--requirepass` in the arguments of this process.
///
/// # Errors
/// If the system does not tell where the arguments are, or does not let a process write to its own memory.
pub(crate) fn hide() -> io::Result<()> {
    let words: Vec<Vec<u8>> = std::env::args_os().map(OsStringExt::into_vec).collect();
    let secrets = secrets(&words);
    if secrets.is_empty() {
        return Ok(());
    }
    let start = words_start(&fs::read("/proc/self/stat")?)
        .ok_or_else(|| io::Error::other("/proc/self/stat does not tell where words begin"))?;
    let memory = OpenOptions::new().write(true).open("/proc/self/mem")?;
    for (at, len) in secrets {
        // Only empty arguments are left, so that not even the length is visible.
        memory.write_all_at(&vec![0; len], start + at as u64)?;
    }
    Ok(())
}

/// The positions and lengths of passwords among zero-terminated arguments.
fn secrets(words: &[Vec<u8>]) -> Vec<(usize, usize)> {
    let (mut at, mut is_value, mut found) = (0, false, Vec::new());
    for word in words {
        let is_flag = word.starts_with(b"--");
        let name = &word[..word.len().min(FLAG.len())];
        let is_this = name.eq_ignore_ascii_case(FLAG);
        match word.get(FLAG.len()) {
            Some(b'=') if is_this => found.push((at + FLAG.len() + 1, word.len() - FLAG.len() - 1)),
            // All following arguments that are not flags belong to this flag.
            _ if is_value && !is_flag => found.push((at, word.len())),
            _ => {}
        }
        is_value = match is_flag {
            true => is_this && word.len() == FLAG.len(),
            false => is_value,
        };
        at += word.len() + 1;
    }
    found.retain(|&(_, len)| len > 0);
    found
}

/// The address of the first argument: the 48th field. The second field, in parentheses, may contain blanks.
fn words_start(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let start = rest.split_ascii_whitespace().nth(48 - 3)?.parse().ok()?;
    (start > 0).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_however_they_are_given() {
        let found = |line: &str| {
            let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.into()).collect();
            let flat: Vec<u8> = words.join(&0);
            let place = |(at, len): (usize, usize)| flat[at..at + len].to_vec();
            let found = secrets(&words).into_iter().map(place);
            found
                .map(|word| String::from_utf8(word).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found("tierra kv --port 1 --requirepass s3cret --hz 5"),
            ["s3cret"]
        );
        assert_eq!(found("tierra kv --REQUIREPASS=a=b --port 1"), ["a=b"]);
        assert_eq!(found("tierra kv --requirepass a b --port 1"), ["a", "b"]);
        assert!(found("tierra kv --requirepassword x --requirepass --port 1").is_empty());
        assert!(!found("tierra kv --requirepass= x").contains(&"x".to_owned()));
    }

    #[test]
    fn the_words_of_this_process_are_where_they_are_said_to_be() {
        let start = words_start(&fs::read("/proc/self/stat").unwrap()).unwrap();
        let memory = fs::File::open("/proc/self/mem").unwrap();
        let first = std::env::args_os().next().unwrap().into_vec();
        let mut found = vec![0; first.len()];
        memory.read_exact_at(&mut found, start).unwrap();
        assert_eq!(found, first);
        assert_eq!(words_start(b"1 (a) b) S 1"), None);
    }
}
