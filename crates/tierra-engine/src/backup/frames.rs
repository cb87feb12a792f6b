//! Frames: runs of bytes cut into pieces of 1 MiB, each with a checksum, and compressed if that makes it shorter.
//!
//! A frame that is as long as what it holds is not compressed. The checksum is of the frame as it is stored, so it is compared
//! before anything is unpacked. The whole run has one, too, of its bytes as they were.
//!
//! Invariant: the frames of a run lie one behind the other. What is unpacked has exactly the length that it should have.

use std::ops::Range;

use super::Compression;

/// Bytes of a frame before it is compressed; the last one of a run may have fewer.
pub(super) const FRAME_BYTES: usize = 1 << 20;
/// Faster levels save little less on what is packed already.
const ZSTD_LEVEL: i32 = 3;

/// A frame of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) stored_bytes: u32,
    /// Of the frame as it is stored.
    pub(super) crc: u32,
}

/// A run of bytes and its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Offset of its first frame in the file.
    pub(super) at: u64,
    pub(super) len_bytes: u64,
    /// Of all of its bytes.
    pub(super) crc: u32,
    pub(super) frames: Vec<Frame>,
}

/// A frame's place.
pub(super) struct Place {
    /// Offset in the file.
    pub(super) at: u64,
    /// The bytes of the run that it holds.
    pub(super) range: Range<usize>,
    pub(super) frame: Frame,
}

impl Run {
    /// Its frames with their places.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let mut next = self.at;
        let frames = self.frames.iter().enumerate();
        frames.map(move |(number, frame)| {
            let at = next;
            next += u64::from(frame.stored_bytes);
            let first = number * FRAME_BYTES;
            let end = (first + FRAME_BYTES).min(self.len_bytes as usize);
            Place {
                at,
                range: first..end,
                frame: *frame,
            }
        })
    }
}

/// A frame to be written.
pub(super) struct Packed {
    pub(super) bytes: Vec<u8>,
    /// Of the bytes before they were compressed.
    pub(super) raw_crc: u32,
    pub(super) raw_bytes: usize,
    pub(super) frame: Frame,
}

/// The frame of at most [`FRAME_BYTES`]. They are read once, so its checksums are of what is written even if a page of them is
/// lost or repaired meanwhile.
pub(super) fn pack(raw: &[u8], compression: Compression) -> Packed {
    debug_assert!(!raw.is_empty() && raw.len() <= FRAME_BYTES);
    let copy = raw.to_vec();
    let (raw_crc, raw_bytes) = (crc32c::crc32c(&copy), copy.len());
    let shorter = match compression {
        Compression::None => None,
        // A frame that cannot be compressed is stored as it is.
        Compression::Zstd => zstd::bulk::compress(&copy, ZSTD_LEVEL).ok(),
    };
    let shorter = shorter.filter(|shorter| shorter.len() < raw_bytes);
    let crc = shorter.as_deref().map_or(raw_crc, crc32c::crc32c);
    let bytes = shorter.unwrap_or(copy);
    Packed {
        frame: Frame {
            stored_bytes: bytes.len() as u32,
            crc,
        },
        bytes,
        raw_crc,
        raw_bytes,
    }
}

/// Unpacks a frame whose checksum is right into `out`, which it has to fill; what is wrong, if it does not.
pub(super) fn unpack(stored: &[u8], out: &mut [u8]) -> Result<(), String> {
    if stored.len() == out.len() {
        out.copy_from_slice(stored);
        return Ok(());
    }
    let unpacked = zstd::bulk::decompress_to_buffer(stored, out);
    match unpacked {
        Ok(len) if len == out.len() => Ok(()),
        Ok(len) => Err(format!("a frame of {} bytes holds only {len}", out.len())),
        Err(error) => Err(format!("a frame cannot be unpacked: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_are_never_longer() {
        let alike = vec![7; FRAME_BYTES];
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 56) as u8
        });
        let noise: Vec<u8> = noise.take(100_000).collect();
        for raw in [&alike[..], &noise, b"x"] {
            for compression in [Compression::None, Compression::Zstd] {
                let packed = pack(raw, compression);
                assert!(packed.bytes.len() <= raw.len());
                assert_eq!(packed.frame.crc, crc32c::crc32c(&packed.bytes));
                assert_eq!(packed.raw_crc, crc32c::crc32c(raw));
                let mut back = vec![0; raw.len()];
                unpack(&packed.bytes, &mut back).unwrap();
                assert!(back == raw);
            }
        }
        assert!(pack(&alike, Compression::Zstd).bytes.len() < 1000);
    }

    #[test]
    fn a_forged_frame_is_an_error() {
        let packed = pack(&[7; 5000], Compression::Zstd).bytes;
        for wrong in [4999, 5001, 6000] {
            assert!(unpack(&packed, &mut vec![0; wrong]).is_err(), "{wrong}");
        }
        assert!(unpack(b"no frame", &mut [0; 100]).is_err());
        assert!(unpack(&[], &mut [0; 100]).is_err());
    }
}
