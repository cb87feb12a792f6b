//! PMDK's pool sets: `peers/c/pmdk.c`, compiled if libpmemobj is installed, and run as a separate process that reads its
//! updates as lines.
//!
//! Its pools are on tmpfs, treated as persistent memory as PMDK's documentation says (`PMEM_IS_PMEM_FORCE=1`), like ours
//! ([`emulate_dax`](tierra_memory::PoolOptions::emulate_dax)).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::native;
use crate::error::{At, Context, LabError};

const SOURCE: &str = include_str!("../../peers/c/pmdk.c");

/// The compiled peer.
#[derive(Debug)]
pub struct Pmdk {
    program: PathBuf,
    version: String,
}

/// The operation at each position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// A store, made durable.
    Put,
    /// A transaction of one store.
    Transaction,
}

impl Pmdk {
    /// The contender's name in results.
    pub const NAME: &str = "PMDK";
    /// The package that it needs.
    pub const PACKAGE: &str = "libpmemobj-dev";

    /// Compiles the peer into `folder`; `None` if libpmemobj or a C compiler is missing.
    ///
    /// # Errors
    /// A compiler that cannot compile it.
    pub fn compile(folder: &Path) -> Result<Option<Pmdk>, LabError> {
        let program = native::compile(folder, "pmdk", SOURCE, "libpmemobj.h", &["-lpmemobj"])?;
        Ok(program.map(|program| Pmdk {
            program,
            version: version(),
        }))
    }

    /// The version of the package.
    pub fn version(&self) -> &str {
        &self.version
    }
}

fn version() -> String {
    let asked = Command::new("pkg-config")
        .args(["--modversion", "libpmemobj"])
        .output();
    asked.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// A pool set with an array, in a process of its own.
#[derive(Debug)]
pub struct PoolSet {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The master, then the replicas.
    files: Vec<PathBuf>,
    /// The position of the array in each.
    array_offset: u64,
}

impl PoolSet {
    /// Makes a pool set of a master and replicas, each of `pool_bytes`, in `folder`, with an array of zeros. Positions are read
    /// from the file of that name.
    ///
    /// # Errors
    /// PMDK's error.
    pub fn create(
        pmdk: &Pmdk,
        folder: &Path,
        positions: &Path,
        replicas: usize,
        (pool_bytes, elements): (u64, usize),
    ) -> Result<PoolSet, LabError> {
        let files: Vec<PathBuf> = (0..=replicas)
            .map(|copy| folder.join(format!("{replicas}-{copy}.pool")))
            .collect();
        let parts: Vec<String> = files
            .iter()
            .map(|file| format!("{}M {}\n", pool_bytes >> 20, file.display()))
            .collect();
        let set = folder.join(format!("{replicas}.set"));
        fs::write(&set, format!("PMEMPOOLSET\n{}", parts.join("REPLICA\n"))).at(&set)?;
        let mut command = Command::new(&pmdk.program);
        command
            .args([&set, positions])
            .arg(elements.to_string())
            .env("PMEM_IS_PMEM_FORCE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().by(Pmdk::NAME, "starting")?;
        let commands = process.stdin.take().expect("piped above");
        let answers = BufReader::new(process.stdout.take().expect("piped above"));
        let mut pool_set = PoolSet {
            process,
            commands,
            answers,
            files,
            array_offset: 0,
        };
        let ready = pool_set.answer()?;
        let offset = ready
            .strip_prefix("ready ")
            .and_then(|rest| rest.split(' ').next()?.parse().ok());
        pool_set.array_offset = offset.ok_or(ready).by(Pmdk::NAME, "making a pool set")?;
        Ok(pool_set)
    }

    /// Stores `value` at `count` positions from `from` on, and returns the time in nanoseconds.
    ///
    /// # Errors
    /// PMDK's error.
    pub fn update(
        &mut self,
        what: Update,
        from: usize,
        count: usize,
        value: u32,
    ) -> Result<u64, LabError> {
        let command = match what {
            Update::Put => "put",
            Update::Transaction => "tx",
        };
        writeln!(self.commands, "{command} {from} {count} {value}")
            .and_then(|()| self.commands.flush())
            .by(Pmdk::NAME, "being told what to update")?;
        let answer = self.answer()?;
        answer
            .parse()
            .map_err(|_| answer)
            .by(Pmdk::NAME, "updating")
    }

    fn answer(&mut self) -> Result<String, LabError> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .by(Pmdk::NAME, "answering")?;
        let line = line.trim().to_owned();
        match line.is_empty() || line.starts_with("error") {
            true => Err(format!("it answered {line:?}")).by(Pmdk::NAME, "answering"),
            false => Ok(line),
        }
    }

    /// Checks that every copy has `value` at each position.
    ///
    /// # Errors
    /// [`LabError::AnswersDiffer`], and files that cannot be read.
    pub fn check(&self, positions: &[u32], value: u32) -> Result<(), LabError> {
        use std::os::unix::fs::FileExt;
        for path in &self.files {
            let file = fs::File::open(path).at(path)?;
            for &position in positions {
                let mut bytes = [0; 4];
                let at = self.array_offset + u64::from(position) * 4;
                file.read_exact_at(&mut bytes, at).at(path)?;
                if u32::from_ne_bytes(bytes) != value {
                    return Err(LabError::AnswersDiffer {
                        what: format!("the integer at {position}"),
                        left: Pmdk::NAME.to_owned(),
                        right: path.display().to_string(),
                        detail: format!("{} instead of {value}", u32::from_ne_bytes(bytes)),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Drop for PoolSet {
    fn drop(&mut self) {
        // It has no other work; its files are removed here.
        let _ = self.process.kill();
        let _ = self.process.wait();
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
    }
}
