//! The list of encodings. A new one goes to its end, because an encoding's place is its number on disk.

/// Hands the list to a macro: of each encoding what it is for, its name and its [`Format`](super::format::Format).
macro_rules! encodings {
    ($make:ident) => {
        $make! {
            /// Values as they are, at the type's own width; any type.
            Plain => plain::FORMAT,
            /// One base and one width for the chunk: the fastest random access.
            Static => static_packing::FORMAT,
            /// A width for each mini-block of 64 values: outliers cost only their neighbours.
            Dynamic => dynamic::FORMAT,
            /// A base and a width for each block of 1,024 values.
            FrameOfReference => frame_of_reference::FORMAT,
            /// Differences of neighbours: for sorted values. Filters decode it.
            Delta => delta::FORMAT,
            /// Codes of the column's dictionary.
            Dictionary => dictionary::FORMAT,
            /// A width for each mini-block of 128 values.
            Dynamic128 => dynamic128::FORMAT,
            /// A width for each mini-block of 128 values, and exceptions apart. Filters decode it.
            FastPfor => fastpfor::FORMAT,
            /// Runs of equal values.
            Rle => rle::FORMAT,
            /// Bytes compressed by LZ4. Every read decompresses it, as it does with the next three.
            Lz4 => lz4::FORMAT,
            /// LZ4 for speed.
            Lz4Fast => lz4::FAST,
            /// LZ4 for size.
            Lz4High => lz4::HIGH,
            /// Bytes compressed by Snappy.
            Snappy => snappy::FORMAT,
            /// Strings without the bytes that they share with the one before: for sorted strings.
            Front => front::FORMAT,
            /// Strings as codes of a byte, each of which stands for up to eight bytes.
            Fsst => fsst::FORMAT,
            /// Strings without prefixes that many of their block have.
            Prefix => prefix::FORMAT,
        }
    };
}
pub(super) use encodings;

/// Makes the enum.
macro_rules! list {
    ($($(#[$meta:meta])* $encoding:ident => $format:path,)*) => {
        /// A chunk's physical format. Its place in the list is its number on disk.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Encoding {
            $($(#[$meta])* $encoding,)*
        }

        impl Encoding {
            /// Every encoding, in the order of their tags.
            pub const ALL: [Encoding; [$(Encoding::$encoding),*].len()] = [$(Encoding::$encoding),*];
        }
    };
}
encodings!(list);

impl Encoding {
    /// The number that it is stored as.
    pub fn tag(self) -> u8 {
        self as u8
    }

    /// The encoding stored as `tag`, if there is one.
    pub fn of_tag(tag: u8) -> Option<Encoding> {
        Encoding::ALL.get(usize::from(tag)).copied()
    }
}
