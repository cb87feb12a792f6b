//! The path of a pool that is about to be opened: its lock, its medium, and the validation of its header and superblock.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::PoolError;
use super::layout::{
    FIRST_EXTENT, GRAIN_BYTES, HeaderFault, LineBytes, PoolHeader, SuperblockSlot, VERSION,
};
use super::medium::{Medium, choose};
use super::options::PoolOptions;
use super::superblock::Publication;
use crate::LINE_BYTES;

/// A path, to say where something went wrong while there is no pool yet.
pub(super) struct PoolPath<'a>(pub(super) &'a Path);

impl PoolPath<'_> {
    pub(super) fn io(&self, doing: &'static str, source: io::Error) -> PoolError {
        PoolError::Io {
            path: self.0.to_owned(),
            doing,
            source,
        }
    }

    pub(super) fn not_a_pool(&self, what: &'static str) -> PoolError {
        PoolError::NotAPool {
            path: self.0.to_owned(),
            what,
        }
    }

    /// There is no room for even one extent.
    pub(super) fn full(&self, capacity_bytes: u64) -> PoolError {
        PoolError::Full {
            path: self.0.to_owned(),
            wanted_bytes: FIRST_EXTENT + GRAIN_BYTES,
            used_bytes: 0,
            capacity_bytes,
        }
    }

    pub(super) fn medium_of(
        &self,
        file: &File,
        options: &PoolOptions,
    ) -> Result<Box<dyn Medium>, PoolError> {
        match &options.recorder {
            _ if options.read_only => {
                choose::read_only(file).map_err(|e| self.io("find out its file system", e))
            }
            Some(recorder) => Ok(choose::recorded(recorder)),
            None => choose::detect(file, options.flush, options.emulate_dax)
                .map_err(|e| self.io("find out its file system", e)),
        }
    }

    pub(super) fn damaged(&self, what: &'static str) -> PoolError {
        PoolError::Damaged {
            path: self.0.to_owned(),
            what,
        }
    }

    /// One pool, one user. The lock goes with the file descriptor, hence with the process.
    pub(super) fn lock(&self, file: &File) -> Result<(), PoolError> {
        self.lock_as(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Whether the path names this file, and not another one that came into its place.
    pub(super) fn names(&self, file: &File) -> io::Result<bool> {
        let (named, open) = (std::fs::metadata(self.0)?, file.metadata()?);
        Ok((named.dev(), named.ino()) == (open.dev(), open.ino()))
    }

    /// Shared with others who only read it.
    pub(super) fn lock_to_read(&self, file: &File) -> Result<(), PoolError> {
        self.lock_as(file, FlockOperation::NonBlockingLockShared)
    }

    fn lock_as(&self, file: &File, how: FlockOperation) -> Result<(), PoolError> {
        match flock(file, how) {
            Ok(()) => Ok(()),
            Err(Errno::WOULDBLOCK) => Err(PoolError::InUse {
                path: self.0.to_owned(),
            }),
            Err(error) => Err(self.io("lock the pool", error.into())),
        }
    }

    /// A line of a file. One that the medium cannot read any more is as good as damaged, and so is one behind the end.
    pub(super) fn read_line(&self, file: &File, offset: u64) -> Result<LineBytes, PoolError> {
        let mut line = [0; LINE_BYTES];
        match file.read_exact_at(&mut line, offset) {
            Ok(()) => Ok(line),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok([0; LINE_BYTES]),
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                Ok([0xFF; LINE_BYTES])
            }
            Err(source) => Err(self.io("read the pool's header", source)),
        }
    }

    /// The pool's id, by its header's line or that of its twin. A newer version is accepted if its line is valid, or both
    /// say so.
    pub(super) fn check_headers(&self, lines: &[LineBytes; 2]) -> Result<u64, PoolError> {
        let found = lines.each_ref().map(PoolHeader::decode);
        let newer = match found {
            [
                Err(HeaderFault::Newer { version, .. }),
                Err(HeaderFault::Newer { version: twin, .. }),
            ] if version == twin => Some(version),
            _ => found.iter().find_map(|one| match one {
                Err(HeaderFault::Newer { version, is_valid }) if *is_valid => Some(*version),
                _ => None,
            }),
        };
        match (newer, found) {
            (Some(found), _) => Err(PoolError::NewerFormat {
                path: self.0.to_owned(),
                found,
                supported: VERSION,
            }),
            (None, [Ok(header), _] | [_, Ok(header)]) => Ok(header.pool_id),
            (None, [Err(HeaderFault::Magic), Err(HeaderFault::Magic)]) => {
                Err(self.not_a_pool("it begins with other bytes"))
            }
            _ => Err(self.damaged("its header fails its checksum, and so does the header's twin")),
        }
    }

    /// The current publication, which is the slot with the higher sequence, or the one asked for. Lines are by slot and by twin.
    pub(super) fn check_slots(
        &self,
        lines: &[[LineBytes; 2]; 2],
        id: u64,
        at_version: Option<u64>,
    ) -> Result<Publication, PoolError> {
        let slots = [0, 1].map(|index| {
            let twins = lines[index]
                .each_ref()
                .map(|line| SuperblockSlot::decode(line, index, id));
            if twins[0] != twins[1] {
                tracing::info!(
                    pool = %self.0.display(), slot = index,
                    "a publication was cut short, or one copy of a slot is damaged; the other is used"
                );
            }
            // A publication that was cut short between both is the first one's.
            twins.into_iter().flatten().max_by_key(|slot| slot.sequence)
        });
        let mut whole: Vec<SuperblockSlot> = slots.into_iter().flatten().collect();
        whole.sort_unstable_by_key(|slot| slot.sequence);
        if let Some(version) = at_version {
            let current = whole.iter().rfind(|slot| slot.version == version);
            let found = || whole.iter().map(|slot| slot.version).collect();
            return match current {
                Some(current) => Ok(Publication::new(slots, *current)),
                None => Err(PoolError::NoVersion {
                    path: self.0.to_owned(),
                    version,
                    found: found(),
                }),
            };
        }
        match whole[..] {
            [_, newer] => Ok(Publication::new(slots, newer)),
            [slot] => Err(PoolError::LostPublication {
                path: self.0.to_owned(),
                version: slot.version,
            }),
            _ => Err(self.damaged("no copy of its superblock can be read")),
        }
    }
}
