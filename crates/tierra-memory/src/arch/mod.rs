//! Instructions that move a line towards memory, and the clock to wait by, one file per instruction set.

mod lines;
mod scattered;

pub use lines::Flush;
pub(crate) use lines::Lines;
pub use scattered::Scatter;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    copy_nontemporal, detect, fence, flush, has_scatter, prefetch, prefetch_shared, scatter,
    stream_words, ticks,
};

#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::{
    copy_nontemporal, detect, fence, flush, has_scatter, prefetch, prefetch_shared, scatter,
    stream_words, ticks,
};
