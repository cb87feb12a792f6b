//! C++20 coroutines: `peers/cpp/binary_search.cpp`, compiled by clang if it is installed, and run in this process on the same
//! array and pages as ours.

use std::fs;
use std::path::Path;
use std::process::Command;

use libloading::Library;
use tierra_interleave::GroupSize;

use crate::error::{At, Context, LabError};

const SOURCE: &str = include_str!("../../peers/cpp/binary_search.cpp");
const FUNCTION: &str = "tierra_peer_binary_search";
/// The compilers to try; the first is the paper's and known to work.
const COMPILERS: [&str; 2] = ["clang++-19", "clang++"];

/// `array, size, values, count, ranks, group, chained`
type Search = unsafe extern "C" fn(*const u32, usize, *const u32, usize, *mut usize, usize, bool);

/// How the peer's lookups are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// A loop resumes them in turn.
    Looped,
    /// Each resumes the next, with a tail call, as in the paper.
    Chained,
}

impl Schedule {
    /// Both.
    pub const ALL: [Schedule; 2] = [Schedule::Looped, Schedule::Chained];
}

/// The compiled peer.
#[derive(Debug)]
pub struct Coroutines {
    search: Search,
    version: String,
    /// Keeps `search` mapped.
    _library: Library,
}

impl Coroutines {
    /// The contender's name in results.
    pub const NAME: &str = "C++20 coroutines";

    /// Compiles the peer into `folder`; `None` if there is no clang.
    ///
    /// # Errors
    /// A clang that cannot compile or load it.
    pub fn compile(folder: &Path) -> Result<Option<Coroutines>, LabError> {
        let Some((compiler, version)) = COMPILERS
            .into_iter()
            .find_map(|compiler| Some((compiler, version(compiler)?)))
        else {
            return Ok(None);
        };
        let (source, object) = (folder.join("search.cpp"), folder.join("search.so"));
        fs::write(&source, SOURCE).at(&source)?;
        let compiled = Command::new(compiler)
            .args([
                "-O3",
                "-std=c++20",
                "-march=native",
                "-shared",
                "-fPIC",
                "-o",
            ])
            .args([&object, &source])
            .output()
            .by(compiler, "starting")?;
        if !compiled.status.success() {
            let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
            return Err(said).by(compiler, "compiling the C++ peer");
        }
        // SAFETY: the object was compiled from the source above, whose only code that runs on loading
        // or unloading clears and frees lists of its own.
        let library = unsafe { Library::new(&object) }.by(Self::NAME, "loading")?;
        // SAFETY: the source defines a function of that name, and `Search` repeats its signature:
        // pointers, `size_t` as usize, `bool`; `int32_t` and u32 have one size and alignment.
        let search = *unsafe { library.get::<Search>(FUNCTION) }.by(Self::NAME, "loading")?;
        Ok(Some(Coroutines {
            search,
            version,
            _library: library,
        }))
    }

    /// The compiler's first line about itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The place of the last value not above each key, or 0. The peer reads values as signed.
    ///
    /// # Panics
    /// If there are more keys than places, or nothing to search.
    pub fn search(
        &self,
        schedule: Schedule,
        group: GroupSize,
        sorted: &[u32],
        keys: &[u32],
        ranks: &mut [usize],
    ) {
        assert!(!sorted.is_empty() && keys.len() <= ranks.len());
        // SAFETY: the function reads `sorted.len()` and `keys.len()` values, writes as many ranks as there
        // are keys, and asks for a size of at least 1 and a group of 1 to 64; both were just checked or
        // are of the types' nature. It keeps no pointer.
        unsafe {
            (self.search)(
                sorted.as_ptr(),
                sorted.len(),
                keys.as_ptr(),
                keys.len(),
                ranks.as_mut_ptr(),
                group.get(),
                schedule == Schedule::Chained,
            );
        }
    }
}

fn version(compiler: &str) -> Option<String> {
    let said = Command::new(compiler).arg("--version").output().ok()?;
    let first = String::from_utf8_lossy(&said.stdout)
        .lines()
        .next()?
        .to_owned();
    said.status.success().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sorted::{Sorted, check};

    #[test]
    fn finds_every_value_with_every_group() {
        let folder = tempfile::tempdir().unwrap();
        // Without clang there is nothing to test.
        let Some(peer) = Coroutines::compile(folder.path()).unwrap() else {
            return;
        };
        let array = Sorted::new(1 << 12).unwrap();
        for len in [1, 2, 3, 1000] {
            let sorted = &array.values(1 << 12)[..len];
            let keys: Vec<u32> = (0..len as u32).rev().collect();
            for (group, schedule) in [1, 7, 64].into_iter().flat_map(|group| {
                Schedule::ALL.map(|schedule| (GroupSize::new(group).unwrap(), schedule))
            }) {
                let mut ranks = vec![usize::MAX; len];
                peer.search(schedule, group, sorted, &keys, &mut ranks);
                check(Coroutines::NAME, &keys, &ranks).unwrap();
                peer.search(schedule, group, sorted, &[], &mut ranks);
            }
        }
    }
}
