//! Strings: the value is the bytes.

use super::db::{Db, WRITE_USES};
use super::entry::{Expiry, LiveEntry};
use super::heap::MemoryFull;
use super::key::Key;
use super::record::Form;

impl Db {
    /// The bytes of a string.
    #[inline]
    pub fn string(&self, entry: LiveEntry) -> &[u8] {
        debug_assert_eq!(self.store.heap.header(entry.record).form, Form::Bytes);
        self.store.heap.value(entry.record)
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
                .store
                .heap
                .create(Form::Bytes, key.bytes, value.len(), at_ms)?;
            self.store.heap.value_mut(record).copy_from_slice(value);
            self.store
                .heap
                .wrote(record, 0, self.store.heap.header(record).bytes());
            self.put(key, record);
            return Ok(());
        };
        self.use_entry(key, &mut entry, WRITE_USES);
        let header = self.store.heap.header(entry.record);
        let before = self.store.heap.expiry(entry.record);
        let at_ms = match expiry {
            Expiry::Keep => before,
            Expiry::Clear => None,
            Expiry::At(at_ms) => Some(at_ms),
        };
        if header.form == Form::Bytes && header.expires == at_ms.is_some() {
            let record = self.store.heap.resize(entry.record, value.len())?;
            self.replace(key, &mut entry, record);
            self.store.heap.value_mut(record).copy_from_slice(value);
            if let Some(at_ms) = at_ms {
                self.store.heap.postpone_expiry(record, at_ms);
                self.note_expiry(&entry, before, Some(at_ms));
            }
            self.store
                .heap
                .wrote(record, 0, self.store.heap.header(record).bytes());
            return Ok(());
        }
        // Another kind of value, or another head: a new record in the old one's stead.
        let record = self
            .store
            .heap
            .create(Form::Bytes, key.bytes, value.len(), at_ms)?;
        self.store.heap.value_mut(record).copy_from_slice(value);
        self.store
            .heap
            .wrote(record, 0, self.store.heap.header(record).bytes());
        let old = entry.record;
        self.replace(key, &mut entry, record);
        self.note_expiry(&entry, before, at_ms);
        self.store.free(old);
        Ok(())
    }

    /// A string of `len` bytes in place: what it had, then zeros. Made where there is none.
    ///
    /// # Errors
    /// Where there is no memory for it; the key is what it was.
    pub fn resize_string(&mut self, key: &Key<'_>, len: usize) -> Result<&mut [u8], MemoryFull> {
        let (record, before) = match self.peek(key) {
            None => {
                let record = self.store.heap.create(Form::Bytes, key.bytes, len, None)?;
                self.put(key, record);
                (record, 0)
            }
            Some(mut entry) => {
                self.use_entry(key, &mut entry, WRITE_USES);
                let before = self.store.heap.header(entry.record).value_bytes;
                let record = self.store.heap.grow(entry.record, len)?;
                self.replace(key, &mut entry, record);
                (record, before.min(len))
            }
        };
        // What the caller changes is not known; what is new is.
        let value_at = self.store.heap.header(record).value_at();
        self.store
            .heap
            .zero(record, value_at + before..value_at + len);
        self.store
            .heap
            .wrote(record, value_at + before, len - before);
        Ok(self.store.heap.value_mut(record))
    }
}
