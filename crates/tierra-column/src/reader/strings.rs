//! A string column under construction: 16-byte views and the buffers they point into.
//!
//! Invariant: every view is of text that was checked to be UTF-8, lies inside the buffer it names,
//! and repeats its first bytes as arrow wants. Views come from three places: a dictionary (checked
//! when it was opened), another array, and `make_view` on bytes checked here, in the copy and not
//! where they came from: a chunk's bytes are a file's, and a concurrent write to that file must not
//! bypass the check. The array is therefore built without checking every string once more.

use arrow::array::{Array, StringViewArray, make_view};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};

use crate::bits::{Kernels, Mask};
use crate::chunk::Scratch;
use crate::encoding::coded_strings::{CodedStrings, CodedText};
use crate::encoding::plain_strings::Strings;
use crate::error::FormatError;
use crate::view::INLINE_BYTES;

/// A buffer is closed at this size: views hold 32-bit offsets.
const HEAP_BYTES_MAX: usize = 1 << 30;

#[derive(Debug)]
pub(super) struct StringColumn {
    views: Vec<u128>,
    buffers: Vec<Buffer>,
    /// Where the open buffer will stand among the buffers, and its bytes so far.
    heap_index: Option<u32>,
    heap: Vec<u8>,
    /// The first of the buffers that were shared last.
    shared: Option<u32>,
}

impl StringColumn {
    pub(super) fn new(capacity: usize) -> StringColumn {
        StringColumn {
            views: Vec::with_capacity(capacity),
            buffers: Vec::new(),
            heap_index: None,
            heap: Vec::new(),
            shared: None,
        }
    }

    /// Places for `count` NULLs.
    pub(super) fn append_empty(&mut self, count: usize) {
        self.views.resize(self.views.len() + count, 0);
    }

    /// Copies one string.
    pub(super) fn append_bytes(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        if bytes.len() <= INLINE_BYTES {
            let mut copy = [0; INLINE_BYTES];
            let copy = &mut copy[..bytes.len()];
            copy.copy_from_slice(bytes);
            check_text(copy)?;
            self.views.push(make_view(copy, 0, 0));
            return Ok(());
        }
        let (index, offset) = self.heap_room(bytes.len())?;
        self.heap.extend_from_slice(bytes);
        let copy = &self.heap[offset as usize..];
        check_text(copy)?;
        self.views.push(make_view(copy, index, offset));
        Ok(())
    }

    /// The open buffer's index and length, with room for `len` more bytes.
    fn heap_room(&mut self, len: usize) -> Result<(u32, u32), FormatError> {
        if u32::try_from(len).is_err() {
            return Err(FormatError::corrupt(
                "a block of strings",
                "a string passes 4 GiB",
            ));
        }
        if self.heap.len() + len > HEAP_BYTES_MAX {
            self.close_heap();
        }
        let index = *self.heap_index.get_or_insert_with(|| {
            // An empty buffer keeps the place.
            self.buffers.push(Buffer::from_vec(Vec::<u8>::new()));
            (self.buffers.len() - 1) as u32
        });
        Ok((index, self.heap.len() as u32))
    }

    fn close_heap(&mut self) {
        if let Some(index) = self.heap_index.take() {
            self.buffers[index as usize] = Buffer::from_vec(std::mem::take(&mut self.heap));
        }
    }

    /// Appends the selected strings of a plain block: all of them, or none.
    pub(super) fn append_block(
        &mut self,
        block: &Strings<'_>,
        rows: usize,
        mask: &Mask,
        count: usize,
        scratch: &mut Scratch,
    ) -> Result<(), FormatError> {
        let before = self.views.len();
        let appended = self.append_rows(block, rows, mask, count, scratch);
        if appended.is_err() {
            self.views.truncate(before);
        }
        appended
    }

    fn append_rows(
        &mut self,
        block: &Strings<'_>,
        rows: usize,
        mask: &Mask,
        count: usize,
        scratch: &mut Scratch,
    ) -> Result<(), FormatError> {
        if count * 2 < rows {
            for row in mask {
                self.append_bytes(block.get(row)?)?;
            }
            return Ok(());
        }
        // For many rows all ends are unpacked at once, for all of them the bytes are copied and
        // checked at once too.
        let ends = &mut scratch.codes[..rows];
        scratch.kernels.unpack_u64(block.ends, block.width, ends);
        let bounds = |row: usize| (if row == 0 { 0 } else { ends[row - 1] }, ends[row]);
        if count < rows {
            for row in mask {
                self.append_bytes(block.slice(bounds(row))?)?;
            }
            return Ok(());
        }
        let (index, offset) = self.heap_room(block.bytes.len())?;
        self.heap.extend_from_slice(block.bytes);
        let text = check_text(&self.heap[offset as usize..])?;
        for row in 0..rows {
            let (start, end) = bounds(row);
            let text = usize::try_from(start)
                .ok()
                .zip(usize::try_from(end).ok())
                // `None` too where a string would begin or end inside a character.
                .and_then(|(start, end)| text.get(start..end))
                .ok_or_else(|| {
                    FormatError::corrupt("a block of strings", "a string lies outside it")
                })?;
            // The block is smaller than 4 GiB, and so is what the open buffer holds with it.
            self.views
                .push(make_view(text.as_bytes(), index, offset + start as u32));
        }
        Ok(())
    }

    /// Appends the selected strings of a block that does not store them as they are: all of them, or none.
    pub(super) fn append_coded(
        &mut self,
        block: &CodedStrings<'_>,
        mask: &Mask,
        scratch: &mut Scratch,
    ) -> Result<(), FormatError> {
        let before = self.views.len();
        let mut outcome = Ok(());
        let (kernels, buffers) = (scratch.kernels, &mut scratch.coded);
        let decoded = block.for_each(kernels, mask, buffers, |_, text| {
            if outcome.is_ok() {
                outcome = self.append_bytes(text);
            }
        });
        let appended = decoded.and(outcome);
        if appended.is_err() {
            self.views.truncate(before);
        }
        appended
    }

    /// Decodes one string.
    pub(super) fn append_text(&mut self, text: CodedText<'_>) -> Result<(), FormatError> {
        let mut decoded = Vec::new();
        text.decode(&mut decoded)?;
        self.append_bytes(&decoded)
    }

    /// Appends dictionary values: views are gathered, buffers shared.
    pub(super) fn append_codes(
        &mut self,
        values: &StringViewArray,
        codes: &[u32],
        kernels: Kernels,
    ) -> Result<(), FormatError> {
        let start = self.views.len();
        let gathered = kernels.gather(values.views(), codes, &mut self.views);
        gathered.map_err(|error| FormatError::corrupt("a dictionary chunk", error.to_string()))?;
        let first = self.share(values.data_buffers());
        if first > 0 {
            rebase(&mut self.views[start..], first);
        }
        Ok(())
    }

    /// Appends all strings of an array.
    pub(super) fn append_array(&mut self, array: &StringViewArray) {
        let start = self.views.len();
        self.views.extend_from_slice(array.views());
        let first = self.share(array.data_buffers());
        if first > 0 {
            rebase(&mut self.views[start..], first);
        }
        // A NULL row's view may hold anything.
        if let Some(nulls) = array.nulls() {
            for (row, view) in self.views[start..].iter_mut().enumerate() {
                if nulls.is_null(row) {
                    *view = 0;
                }
            }
        }
    }

    /// Takes part in `buffers` and returns the index of the first one here.
    fn share(&mut self, buffers: &[Buffer]) -> u32 {
        if let Some(index) = self.shared
            && let Some(known) = self.buffers.get(index as usize..index as usize + buffers.len())
            // Buffers held here are not freed, so nothing else can have come to their address.
            && known.iter().zip(buffers).all(|(a, b)| a.as_ptr() == b.as_ptr() && a.len() == b.len())
        {
            return index;
        }
        let index = self.buffers.len() as u32;
        self.buffers.extend_from_slice(buffers);
        self.shared = Some(index);
        index
    }

    pub(super) fn finish(mut self, nulls: Option<NullBuffer>) -> StringViewArray {
        assert!(
            nulls
                .as_ref()
                .is_none_or(|nulls| nulls.len() == self.views.len()),
            "whatever adds a row adds a string or NULL"
        );
        self.close_heap();
        let views = ScalarBuffer::from(self.views);
        // SAFETY: by this type's invariant every view is of valid UTF-8 inside the buffer it
        // names, inlined up to 12 bytes and with its prefix else. Buffers keep their places: they
        // are only added, and the open one takes the place that was kept for it, with all bytes
        // that views of it were made of. A NULL row has such a view, or that of an empty string.
        // There are as many views as rows that may be NULL, as just asserted.
        unsafe { StringViewArray::new_unchecked(views, self.buffers, nulls) }
    }
}

/// Moves views of long strings on by `first` buffers.
fn rebase(views: &mut [u128], first: u32) {
    for view in views {
        if *view as u32 as usize > INLINE_BYTES {
            *view += u128::from(first) << 64;
        }
    }
}

fn check_text(bytes: &[u8]) -> Result<&str, FormatError> {
    std::str::from_utf8(bytes)
        .map_err(|_| FormatError::corrupt("a block of strings", "its bytes are not UTF-8"))
}
