//! Strings: the value is the bytes.

use super::record::Form;
use super::{Db, Entry, Expiry, Key, MemoryFull};

impl Db {
    /// The bytes of a string.
    #[inline]
    pub fn string(&self, entry: Entry) -> &[u8] {
        debug_assert_eq!(self.heap.header(entry.record).form, Form::Bytes);
        self.heap.value(entry.record)
    }

    /// Makes a key a string, whatever it was.
    ///
    /// # Errors
    /// Where there is no memory for it; the key is what it was.
    pub fn set_string(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        expiry: Expiry,
    ) -> Result<(), MemoryFull> {
        let Some(mut entry) = self.peek(key) else {
            let at_ms = match expiry {
                Expiry::At(at_ms) => Some(at_ms),
                Expiry::Clear | Expiry::Keep => None,
            };
            let record = self
                .heap
                .create(Form::Bytes, key.bytes, value.len(), at_ms)?;
            self.heap.value_mut(record).copy_from_slice(value);
            self.heap.wrote(record, 0, self.heap.header(record).bytes());
            self.put(key, record);
            return Ok(());
        };
        self.use_entry(key, &mut entry, super::WRITE_USES);
        let header = self.heap.header(entry.record);
        let before = self.heap.expiry(entry.record);
        let at_ms = match expiry {
            Expiry::Keep => before,
            Expiry::Clear => None,
            Expiry::At(at_ms) => Some(at_ms),
        };
        if header.form == Form::Bytes && header.expires == at_ms.is_some() {
            let record = self.heap.resize(entry.record, value.len())?;
            self.replace(key, &mut entry, record);
            self.heap.value_mut(record).copy_from_slice(value);
            if let Some(at_ms) = at_ms {
                self.heap.put_off(record, at_ms);
                self.note_expiry(&entry, before, Some(at_ms));
            }
            self.heap.wrote(record, 0, self.heap.header(record).bytes());
            return Ok(());
        }
        // Another kind of value, or another head: a new record in the old one's stead.
        let record = self
            .heap
            .create(Form::Bytes, key.bytes, value.len(), at_ms)?;
        self.heap.value_mut(record).copy_from_slice(value);
        self.heap.wrote(record, 0, self.heap.header(record).bytes());
        let old = entry.record;
        self.replace(key, &mut entry, record);
        self.note_expiry(&entry, before, at_ms);
        self.free(old);
        Ok(())
    }

    /// A string of `len` bytes in place: what it had, then zeros. Made where there is none.
    ///
    /// # Errors
    /// Where there is no memory for it; the key is what it was.
    pub fn resize_string(&mut self, key: &Key<'_>, len: usize) -> Result<&mut [u8], MemoryFull> {
        let (record, before) = match self.peek(key) {
            None => {
                let record = self.heap.create(Form::Bytes, key.bytes, len, None)?;
                self.put(key, record);
                (record, 0)
            }
            Some(mut entry) => {
                self.use_entry(key, &mut entry, super::WRITE_USES);
                let before = self.heap.header(entry.record).value_bytes;
                let record = self.heap.grow(entry.record, len)?;
                self.replace(key, &mut entry, record);
                (record, before.min(len))
            }
        };
        // What the caller changes is not known; what is new is.
        let value_at = self.heap.header(record).value_at();
        self.heap.zero(record, value_at + before..value_at + len);
        self.heap.wrote(record, value_at + before, len - before);
        Ok(self.heap.value_mut(record))
    }
}
