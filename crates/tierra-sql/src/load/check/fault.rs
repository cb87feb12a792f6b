//! The faults of a damaged file.

/// Bytes to which packed data of any length may unpack.
pub(super) const UNPACKED_LEAST: u64 = 1 << 16;
/// The most bytes that LZ4 unpacks from one byte.
pub(super) const LZ4_RATIO: u64 = 256;
/// The most bytes that Zstandard unpacks from one byte: four bytes may stand for a block of 128 KiB.
pub(super) const ZSTD_RATIO: u64 = 1 << 15;

/// Why a file cannot be read.
#[derive(Debug)]
pub(in crate::load) enum Fault {
    Io(std::io::Error),
    Damaged(String),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Fault::Damaged("it is cut short".to_string()),
            _ => Fault::Io(error),
        }
    }
}

pub(super) fn damaged<T>(message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Damaged(message.into()))
}
