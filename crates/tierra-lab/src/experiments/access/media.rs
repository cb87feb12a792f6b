//! Where the data lies: in memory, near or emulated far, and in a file on the disk, whose pages the system has or has not.
//!
//! Invariant: the data is the same everywhere, and a sample begins with empty frames, so that each block is fetched from its medium.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::Advice;
use tempfile::TempDir;
use tierra_memory::emulation::{self, FarMemory};

use super::modes::{AUTO, FAR, Mode, NEAR, ON_DISK};
use crate::contender::Tierra;
use crate::dataset::TableFile;
use crate::error::{At, Context, LabError};
use crate::lab::{self, Lab};

/// Bytes of the frames.
pub(super) const FRAME_BYTES: u64 = 64 << 20;

/// Where the data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// A file in memory, as near memory is.
    Near,
    /// The same, while one server's Optane modules are emulated with all of their bandwidth.
    Far,
    /// A file on the disk that is in the page cache.
    WarmFile,
    /// A file on the disk that is not.
    ColdFile,
}

impl Medium {
    pub(super) const ALL: [Medium; 4] = [
        Medium::Near,
        Medium::Far,
        Medium::WarmFile,
        Medium::ColdFile,
    ];

    /// Its name in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Medium::Near => "near",
            Medium::Far => "emulated optane",
            Medium::WarmFile => "file, in the page cache",
            Medium::ColdFile => "file, on disk",
        }
    }

    /// The modes that are compared there.
    pub(super) const fn modes(self) -> &'static [Mode] {
        match self {
            Medium::Near => &NEAR,
            Medium::Far => &FAR,
            Medium::WarmFile | Medium::ColdFile => &ON_DISK,
        }
    }

    /// Those of them that `auto` chooses from, as a scan reads by default.
    pub(super) fn fixed(self) -> impl Iterator<Item = Mode> {
        let of_default = |mode: &&Mode| mode.is_plain() && **mode != AUTO;
        self.modes().iter().filter(of_default).copied()
    }

    const fn emulated(self) -> Option<FarMemory> {
        match self {
            Medium::Far => Some(FarMemory::OPTANE.whole()),
            _ => None,
        }
    }
}

/// The database in memory and the one on the disk.
pub(super) struct Stores {
    memory: Store,
    disk: Store,
    // Removed last.
    _in_memory: TempDir,
}

struct Store {
    folder: PathBuf,
    /// `None` while it is opened again.
    tierra: Option<Tierra>,
}

impl Stores {
    /// Two empty databases, of which nothing is copied near.
    pub(super) fn create(lab: &Lab) -> Result<Stores, LabError> {
        let in_memory = lab.folder_in_memory()?;
        Ok(Stores {
            memory: Store::create(in_memory.path().join("db"))?,
            disk: Store::create(lab.folder("access-disk")?.join("db"))?,
            _in_memory: in_memory,
        })
    }

    /// Loads a table into both.
    pub(super) fn load(&self, file: &TableFile) -> Result<(), LabError> {
        for store in [&self.memory, &self.disk] {
            store.tierra().load(file)?;
        }
        Ok(())
    }

    /// Waits for the work behind the loads, and for what was written to be on the disk: only such pages leave the page cache.
    pub(super) fn settle(&self) -> Result<(), LabError> {
        for store in [&self.memory, &self.disk] {
            store.tierra().settle()?;
        }
        let pool = self.disk.pool();
        File::open(&pool).and_then(|file| file.sync_all()).at(&pool)
    }

    /// The database of a medium.
    pub(super) fn of(&self, medium: Medium) -> &Tierra {
        self.store(medium).tierra()
    }

    /// Makes a medium ready for a sample in a mode.
    pub(super) fn prepare(
        &mut self,
        lab: &Lab,
        medium: Medium,
        mode: Mode,
    ) -> Result<(), LabError> {
        if medium == Medium::ColdFile {
            self.disk.forget_pages()?;
        }
        let tierra = self.of(medium);
        tierra.database().frames().set(FRAME_BYTES);
        tierra.database().frames().clear();
        set(lab, tierra, mode)
    }

    /// Runs something while what stands for a medium is emulated.
    pub(super) fn during<T>(
        &mut self,
        medium: Medium,
        run: impl FnOnce(&mut Stores) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        emulation::set(medium.emulated()).by("the emulation", "emulating")?;
        let done = run(self);
        emulation::set(None).by("the emulation", "ending it")?;
        done
    }

    fn store(&self, medium: Medium) -> &Store {
        match medium {
            Medium::Near | Medium::Far => &self.memory,
            Medium::WarmFile | Medium::ColdFile => &self.disk,
        }
    }
}

impl Store {
    fn create(folder: PathBuf) -> Result<Store, LabError> {
        let tierra = Some(Tierra::create_far(&folder)?);
        Ok(Store { folder, tierra })
    }

    fn tierra(&self) -> &Tierra {
        self.tierra
            .as_ref()
            .expect("a database that could not be opened again ended the experiment")
    }

    fn pool(&self) -> PathBuf {
        self.folder.join("far.pool")
    }

    /// Has the system drop the pool's pages. It keeps those that are mapped, so the database is closed meanwhile.
    fn forget_pages(&mut self) -> Result<(), LabError> {
        self.tierra = None;
        forget(&self.pool())?;
        self.tierra = Some(Tierra::open_far(&self.folder)?);
        Ok(())
    }
}

fn forget(path: &Path) -> Result<(), LabError> {
    let file = File::open(path).at(path)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(std::io::Error::from)
        .at(path)
}

fn set(lab: &Lab, tierra: &Tierra, mode: Mode) -> Result<(), LabError> {
    let Mode {
        access,
        lines,
        helper_blocks,
        is_alone,
    } = mode;
    let threads = if is_alone { 1 } else { lab::threads() };
    for sql in [
        format!("SET tierra.access = '{access}'"),
        format!("SET tierra.prefetch_lines = {lines}"),
        format!("SET tierra.helper_blocks = {helper_blocks}"),
        format!("SET tierra.threads = {threads}"),
    ] {
        let done = lab.runtime().block_on(tierra.session().sql(&sql));
        done.map(drop)
            .by(Tierra::ENGINE, format!("running {sql}"))?;
    }
    Ok(())
}
