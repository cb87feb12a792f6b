//! Memory for the nodes of an index: a region on large pages once they fill one, near or, on request, far;
//! the heap while they do not, or if the system grants no region.
//!
//! With small pages nearly every lookup in a large index misses the TLB besides the cache.
//!
//! Invariant: a region holds whole nodes, each aligned to lines.

use std::ops::{Deref, DerefMut};

use tierra_interleave::LINE_BYTES;
use tierra_memory::emulation::FarRange;
use tierra_memory::{FarSource, LARGE_PAGE_BYTES, Region};

/// A node of an index: one or more whole lines.
///
/// # Safety
///
/// Any bytes are a valid value, so integers only and no padding, and the type is aligned to lines.
pub unsafe trait Node: Copy {
    /// The node of zero bytes.
    const ZERO: Self;
}

/// An array of nodes.
pub(crate) enum NodeArray<T> {
    Heap(Box<[T]>),
    /// The registration of far memory comes first, so that it is dropped first.
    Large(Option<FarRange>, Region),
}

impl<T: Node> NodeArray<T> {
    /// `len` near nodes of zero bytes.
    pub(crate) fn zeroed(len: usize) -> Self {
        Self::zeroed_in(None, len)
    }

    /// `len` nodes of zero bytes, far if they fill a large page and far memory can be had.
    pub(crate) fn zeroed_in(far: Option<&FarSource>, len: usize) -> Self {
        const { assert!(align_of::<T>() == LINE_BYTES && size_of::<T>() > 0) };
        let len_bytes = len.saturating_mul(size_of::<T>());
        if len_bytes < LARGE_PAGE_BYTES {
            return NodeArray::Heap(vec![T::ZERO; len].into_boxed_slice());
        }
        let far = far.and_then(|far| Region::far(far, len_bytes).ok());
        let region = match far {
            Some((counted, region)) => Ok((Some(counted), region)),
            None => Region::near(len_bytes).map(|region| (None, region)),
        };
        match region {
            Ok((counted, region)) => {
                assert!(region.as_ptr().cast::<T>().is_aligned() && region.len() == len_bytes);
                NodeArray::Large(counted, region)
            }
            Err(_) => NodeArray::Heap(vec![T::ZERO; len].into_boxed_slice()),
        }
    }

    /// Whether the nodes are in far memory.
    pub(crate) fn is_far(&self) -> bool {
        matches!(self, NodeArray::Large(Some(_), _))
    }
}

impl<T: Node> Deref for NodeArray<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        match self {
            NodeArray::Heap(nodes) => nodes,
            NodeArray::Large(_, region) => {
                let len = region.len() / size_of::<T>();
                // SAFETY: `zeroed` has checked alignment and length of the region, which never
                // moves; any bytes are a `T`, as `Node` promises; and the region is borrowed for as
                // long as the slice.
                unsafe { std::slice::from_raw_parts(region.as_ptr().cast::<T>(), len) }
            }
        }
    }
}

impl<T: Node> DerefMut for NodeArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            NodeArray::Heap(nodes) => nodes,
            NodeArray::Large(_, region) => {
                let len = region.len() / size_of::<T>();
                // SAFETY: as in `deref`, and the region is borrowed uniquely.
                unsafe { std::slice::from_raw_parts_mut(region.as_mut_ptr().cast::<T>(), len) }
            }
        }
    }
}
