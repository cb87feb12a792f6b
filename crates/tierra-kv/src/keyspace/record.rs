//! A record: one key and its value in one run of bytes, so that one fetch gets everything.
//!
//! ```text
//!  │ kind: 2 │ expires: 1 │ key bytes: 29 │ value bytes: 32 │ expiry, if it expires: 64 │ key │ value │
//! ```
//!
//! A string's value is its bytes. A small hash or sorted set is [packed](super::packed) into its record; a large
//! one is a table of records of its own, one a field or member, and its record's value says which.
//! Numbers are little-endian. The expiry is in milliseconds since 1970.

/// Bytes of every record's beginning.
pub(super) const HEADER_BYTES: usize = 8;
/// Bytes of the expiry, if there is one.
pub(super) const EXPIRY_BYTES: usize = 8;
/// The longest key, one byte under Redis's 512 MiB.
pub const KEY_BYTES_MAX: usize = (1 << 29) - 1;

/// What a record's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A string; also the value of a field, or the score of a member.
    Bytes = 0,
    PackedHash = 1,
    PackedSet = 2,
    /// The number of a large hash or sorted set.
    Large = 3,
}

/// The first eight bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) form: Form,
    pub(super) expires: bool,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
}

const EXPIRES: u32 = 4;
const KEY_SHIFT: u32 = 3;

impl Header {
    #[inline(always)]
    pub(super) fn read(bytes: &[u8; HEADER_BYTES]) -> Header {
        let word = u64::from_le_bytes(*bytes);
        let low = word as u32;
        Header {
            form: match low & 3 {
                0 => Form::Bytes,
                1 => Form::PackedHash,
                2 => Form::PackedSet,
                _ => Form::Large,
            },
            expires: low & EXPIRES != 0,
            key_bytes: (low >> KEY_SHIFT) as usize,
            value_bytes: (word >> 32) as usize,
        }
    }

    #[inline(always)]
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        debug_assert!(self.key_bytes <= KEY_BYTES_MAX);
        let expires = if self.expires { EXPIRES } else { 0 };
        let low = self.form as u32 | expires | (self.key_bytes as u32) << KEY_SHIFT;
        (u64::from(low) | (self.value_bytes as u64) << 32).to_le_bytes()
    }

    /// Where the key begins.
    #[inline(always)]
    pub(super) fn key_at(self) -> usize {
        HEADER_BYTES + if self.expires { EXPIRY_BYTES } else { 0 }
    }

    /// Where the value begins.
    #[inline(always)]
    pub(super) fn value_at(self) -> usize {
        self.key_at() + self.key_bytes
    }

    /// Bytes of the whole record.
    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        self.value_at() + self.value_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_what_it_writes() {
        for form in [Form::Bytes, Form::PackedHash, Form::PackedSet, Form::Large] {
            for expires in [false, true] {
                for (key_bytes, value_bytes) in
                    [(0, 0), (KEY_BYTES_MAX, 1 << 29), (17, u32::MAX as usize)]
                {
                    let header = Header {
                        form,
                        expires,
                        key_bytes,
                        value_bytes,
                    };
                    assert_eq!(Header::read(&header.to_bytes()), header);
                    assert_eq!(
                        header.bytes(),
                        8 + 8 * usize::from(expires) + key_bytes + value_bytes
                    );
                }
            }
        }
    }
}
