//! The bytes of a manifest: little-endian integers of fixed width; strings and lists follow their count.
//!
//! Invariant: for any input, a [`Decoder`] never reads past its bytes and never allocates more than they could hold. A count is
//! accepted only if that many items of their least size still fit.

use super::ManifestError;

/// Counters are smaller: a table's id shares a word with an extent's kind, which takes a byte.
pub(crate) const COUNTER_END: u64 = 1 << 56;

/// Appends values to a growing body.
#[derive(Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// An empty field that the format reserves and this build does not use.
    pub(crate) fn none(&mut self) {
        self.u8(0);
    }

    /// The number of items of the list that follows.
    pub(crate) fn count(&mut self, items: usize) {
        self.u32(
            u32::try_from(items).expect("the catalogue bounds every list far below 2^32 items"),
        );
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads values back, in the order in which they were written.
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// An error that names the current position.
    pub(crate) fn fault(&self, what: impl Into<String>) -> ManifestError {
        ManifestError::Malformed {
            at: self.at,
            what: what.into(),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ManifestError> {
        let end = self
            .at
            .checked_add(len)
            .filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.fault(format!(
                "{len} more bytes were expected, {} are left",
                self.bytes.len() - self.at
            )));
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ManifestError> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ManifestError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(
            bytes.try_into().expect("take returned four bytes"),
        ))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ManifestError> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(
            bytes.try_into().expect("take returned eight bytes"),
        ))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, ManifestError> {
        let bytes = self.take(16)?;
        Ok(u128::from_le_bytes(
            bytes.try_into().expect("take returned sixteen bytes"),
        ))
    }

    /// Rejects by name a field that [`Encoder::none`] left empty.
    pub(crate) fn none(&mut self, what: &str) -> Result<(), ManifestError> {
        match self.u8()? {
            0 => Ok(()),
            found => Err(ManifestError::Unknown {
                what: format!("{what} of kind {found}"),
            }),
        }
    }

    /// A counter. Values that counting one by one cannot have reached are rejected, so that counting on never overflows.
    pub(crate) fn counter(&mut self) -> Result<u64, ManifestError> {
        let counted = self.u64()?;
        if counted >= COUNTER_END {
            return Err(self.fault(format!("nothing was ever counted up to {counted}")));
        }
        Ok(counted)
    }

    /// The number of items of a list whose items take at least `least_bytes` each.
    pub(crate) fn count(&mut self, least_bytes: usize) -> Result<usize, ManifestError> {
        let count = self.u32()? as usize;
        let left = self.bytes.len() - self.at;
        if count > left / least_bytes.max(1) {
            return Err(self.fault(format!(
                "a list claims {count} items, {left} bytes are left"
            )));
        }
        Ok(count)
    }

    /// A counted list whose items take at least `least_bytes` each.
    pub(crate) fn list<T>(
        &mut self,
        least_bytes: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, ManifestError>,
    ) -> Result<Vec<T>, ManifestError> {
        let count = self.count(least_bytes)?;
        (0..count).map(|_| item(self)).collect()
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], ManifestError> {
        let len = self.count(1)?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<String, ManifestError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| self.fault("a name is not UTF-8"))
    }

    /// Fails unless everything was read.
    pub(crate) fn finish(self) -> Result<(), ManifestError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            left => Err(self.fault(format!("{left} bytes follow the end"))),
        }
    }
}
