//! What is wrong with a file.

/// Bytes that anything packed may unpack to, however short it is.
pub(super) const UNPACKED_LEAST: u64 = 1 << 16;
/// What LZ4 makes of a byte, at most.
pub(super) const LZ4_RATIO: u64 = 256;
/// What Zstandard makes of a byte, at most: four bytes may stand for a block of 128 KiB.
pub(super) const ZSTD_RATIO: u64 = 1 << 15;

/// What is wrong with a file.
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
