//! What the medium allows: a file that is there as a whole, whose blocks are written and synced one at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::side::{Keys, Side, Writer};
use super::writes::Statement;
use crate::error::{At, Context, LabError};

pub(super) const SYNCED: &str = "a block, written and synced";

/// The file.
pub(super) struct Blocks {
    file: Arc<File>,
    next: Arc<AtomicU64>,
}

impl Blocks {
    const BYTES: u64 = 4096;
    const COUNT: u64 = 4096;

    pub(super) fn create(folder: &Path) -> Result<Blocks, LabError> {
        let path = folder.join("blocks");
        let file = File::create(&path).at(&path)?;
        for block in 0..Blocks::COUNT {
            let zeros = [0; Blocks::BYTES as usize];
            file.write_all_at(&zeros, block * Blocks::BYTES).at(&path)?;
        }
        file.sync_all().at(&path)?;
        Ok(Blocks {
            file: Arc::new(file),
            next: Arc::default(),
        })
    }
}

impl Side for Blocks {
    fn name(&self) -> &'static str {
        SYNCED
    }

    fn session(&self) -> Result<Box<dyn Writer>, LabError> {
        Ok(Box::new(Blocks {
            file: Arc::clone(&self.file),
            next: Arc::clone(&self.next),
        }))
    }

    fn contents(self: Box<Self>) -> Result<Option<[i64; 3]>, LabError> {
        Ok(None)
    }
}

impl Writer for Blocks {
    fn write(&mut self, _: Statement, keys: &mut Keys) -> Result<(), LabError> {
        for id in keys {
            let block = self.next.fetch_add(1, Ordering::Relaxed) % Blocks::COUNT;
            let bytes = [id as u8; Blocks::BYTES as usize];
            let written = self.file.write_all_at(&bytes, block * Blocks::BYTES);
            let synced = written.and_then(|()| self.file.sync_data());
            synced.by(SYNCED, "writing a block")?;
        }
        Ok(())
    }
}
