//! Steps on a directory that pools lie in, and on the small files beside them.

/// A step on a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileStep {
    /// There is a new, empty file: a pool's, or another.
    Created { name: String, pool: Option<u8> },
    /// A new file got its content.
    Written { name: String, bytes: Vec<u8> },
    /// What a file holds is durable.
    Synced { name: String },
    /// A file has another name.
    Renamed { from: String, to: String },
    /// A name is gone.
    Removed { name: String },
    /// All names are durable.
    DirectorySynced,
}

impl FileStep {
    pub(crate) fn created(name: &str) -> FileStep {
        let (name, pool) = (name.to_owned(), None);
        FileStep::Created { name, pool }
    }

    pub(crate) fn written(name: &str, bytes: &[u8]) -> FileStep {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        FileStep::Written { name, bytes }
    }

    pub(crate) fn synced(name: &str) -> FileStep {
        let name = name.to_owned();
        FileStep::Synced { name }
    }

    pub(crate) fn renamed(from: &str, to: &str) -> FileStep {
        let (from, to) = (from.to_owned(), to.to_owned());
        FileStep::Renamed { from, to }
    }

    pub(crate) fn removed(name: &str) -> FileStep {
        let name = name.to_owned();
        FileStep::Removed { name }
    }

    /// Whether something becomes certain.
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(self, FileStep::Synced { .. } | FileStep::DirectorySynced)
    }
}
