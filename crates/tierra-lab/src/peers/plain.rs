//! The bare instructions: `peers/c/plain.c`, a store with flush and fence, and copies past the cache, run in this process on the
//! same kind of memory as ours.

use std::path::Path;

use libloading::Library;
use tierra_memory::persist::Flush;
use tierra_memory::{ExtentWriter, LINE_BYTES};

use super::native;
use crate::error::{Context, LabError};

const SOURCE: &str = include_str!("../../peers/c/plain.c");

/// `array, positions, count, value, evict`
type Update = unsafe extern "C" fn(*mut u32, *const u32, usize, u32, i32);
/// `arrays, copies, positions, count, value, evict`
type UpdateCopies = unsafe extern "C" fn(*const *mut u32, usize, *const u32, usize, u32, i32);
/// `to, copies, from, len`
type Append = unsafe extern "C" fn(*const *mut u8, usize, *const u8, usize);

/// The compiled peer.
#[derive(Debug)]
pub struct PlainC {
    update: Update,
    update_copies: UpdateCopies,
    append: Append,
    /// Keeps both mapped.
    _library: Library,
}

impl PlainC {
    /// The contender's name in results.
    pub const NAME: &str = "C, the instructions alone";
    /// The name of its updates of several copies: the lower limit of ours.
    pub const COPIES: &str = "C, all copies and one fence";

    /// Compiles the peer into `folder`; `None` if there is no C compiler, or the processor lacks the instructions.
    ///
    /// # Errors
    /// A compiler that cannot compile or load it.
    pub fn compile(folder: &Path) -> Result<Option<PlainC>, LabError> {
        if Flush::best() != Some(Flush::Clwb) || !has_avx512() {
            return Ok(None);
        }
        let more = ["-shared", "-fPIC"];
        let Some(object) = native::compile(folder, "plain.so", SOURCE, "immintrin.h", &more)?
        else {
            return Ok(None);
        };
        // SAFETY: the object was compiled from the source above, which has nothing that runs on loading.
        let library = unsafe { Library::new(&object) }.by(Self::NAME, "loading")?;
        // SAFETY: the source defines functions of these names, whose signatures the types repeat.
        let (update, update_copies, append) = unsafe {
            (
                *library
                    .get::<Update>("tierra_peer_update")
                    .by(Self::NAME, "loading")?,
                *library
                    .get::<UpdateCopies>("tierra_peer_update_copies")
                    .by(Self::NAME, "loading")?,
                *library
                    .get::<Append>("tierra_peer_append")
                    .by(Self::NAME, "loading")?,
            )
        };
        Ok(Some(PlainC {
            update,
            update_copies,
            append,
            _library: library,
        }))
    }

    /// Stores `value` at each position and makes it durable before the next.
    ///
    /// # Panics
    /// If a position lies beyond the array.
    pub fn update(&self, flush: Flush, array: &mut [u8], positions: &[u32], value: u32) {
        assert_in(array, positions);
        let evict = i32::from(flush != Flush::Clwb);
        // SAFETY: positions lie in the array, which is aligned; asserted above.
        unsafe {
            (self.update)(
                array.as_mut_ptr().cast(),
                positions.as_ptr(),
                positions.len(),
                value,
                evict,
            );
        }
    }

    /// Stores `value` at each position of every copy and makes it durable in all of them before the next.
    ///
    /// # Panics
    /// If a position lies beyond a copy.
    pub fn update_copies(
        &self,
        flush: Flush,
        copies: &mut [ExtentWriter],
        positions: &[u32],
        value: u32,
    ) {
        copies.iter().for_each(|copy| assert_in(copy, positions));
        let evict = i32::from(flush != Flush::Clwb);
        let copies = copies.iter_mut();
        let arrays: Vec<*mut u32> = copies.map(|copy| copy.as_mut_ptr().cast()).collect();
        // SAFETY: positions lie in each of the arrays, which are aligned; asserted above.
        unsafe {
            (self.update_copies)(
                arrays.as_ptr(),
                arrays.len(),
                positions.as_ptr(),
                positions.len(),
                value,
                evict,
            );
        }
    }

    /// Copies `from` to the beginning of every copy past the cache, and fences once.
    ///
    /// # Panics
    /// If a copy is shorter, or they are not whole lines.
    pub fn append(&self, to: &mut [&mut [u8]], from: &[u8]) {
        assert!(from.len().is_multiple_of(LINE_BYTES));
        for copy in to.iter() {
            assert!(copy.len() >= from.len() && copy.as_ptr().addr().is_multiple_of(LINE_BYTES));
        }
        let places: Vec<*mut u8> = to.iter_mut().map(|copy| copy.as_mut_ptr()).collect();
        // SAFETY: every place has as many bytes, aligned to lines; asserted above.
        unsafe { (self.append)(places.as_ptr(), places.len(), from.as_ptr(), from.len()) }
    }
}

fn assert_in(array: &[u8], positions: &[u32]) {
    let elements = array.len() / size_of::<u32>();
    let beyond = positions.iter().any(|&at| at as usize >= elements);
    assert!(!beyond && array.as_ptr().addr().is_multiple_of(LINE_BYTES));
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}
