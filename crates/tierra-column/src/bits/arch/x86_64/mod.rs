//! The x86-64 levels.

pub(super) mod avx2;
pub(super) mod avx512;
pub(super) mod sse42;
