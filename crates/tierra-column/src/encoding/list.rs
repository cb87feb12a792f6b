//! The list of encodings.

/// A chunk's physical format. Its place in the list is its number on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// Values as they are, at the type's own width; any type.
    Plain,
    /// One base and one width for the chunk: the fastest random access.
    Static,
    /// A width for each mini-block of 64 values: outliers cost only their neighbours.
    Dynamic,
    /// A base and a width for each block of 1,024 values.
    FrameOfReference,
    /// Differences of neighbours: for sorted values. Filters decode it.
    Delta,
    /// Codes of the column's dictionary.
    Dictionary,
    /// A width for each mini-block of 128 values.
    Dynamic128,
    /// A width for each mini-block of 128 values, and exceptions apart. Filters decode it.
    FastPfor,
    /// Runs of equal values.
    Rle,
    /// Bytes compressed by LZ4. Every read decompresses it, as it does with those that follow.
    Lz4,
    /// LZ4 for speed.
    Lz4Fast,
    /// LZ4 for size.
    Lz4High,
    /// Bytes compressed by Snappy.
    Snappy,
}

impl Encoding {
    /// Every encoding, in the order of their tags. One that is not here cannot be opened, parsed or chosen.
    pub const ALL: [Encoding; 13] = [
        Encoding::Plain,
        Encoding::Static,
        Encoding::Dynamic,
        Encoding::FrameOfReference,
        Encoding::Delta,
        Encoding::Dictionary,
        Encoding::Dynamic128,
        Encoding::FastPfor,
        Encoding::Rle,
        Encoding::Lz4,
        Encoding::Lz4Fast,
        Encoding::Lz4High,
        Encoding::Snappy,
    ];

    /// The number that it is stored as.
    pub fn tag(self) -> u8 {
        self as u8
    }

    /// The encoding stored as `tag`, if there is one.
    pub fn of_tag(tag: u8) -> Option<Encoding> {
        Encoding::ALL
            .into_iter()
            .find(|encoding| encoding.tag() == tag)
    }
}
