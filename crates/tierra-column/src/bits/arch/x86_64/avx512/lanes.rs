//! Registers of AVX-512, and methods that may use its instructions.

use std::{arch::x86_64::__m512i, marker::PhantomData};

/// A register of lanes of the type `T`.
#[derive(Clone, Copy)]
pub(super) struct Lanes<T>(pub(super) __m512i, PhantomData<T>);

impl<T> Lanes<T> {
    #[inline(always)]
    pub(super) fn new(register: __m512i) -> Self {
        Self(register, PhantomData)
    }
}

/// Defines methods that may use the level's instructions.
macro_rules! avx512 {
    ($( $(#[$meta:meta])* unsafe fn $name:ident $arguments:tt $(-> $result:ty)? $body:block )*) => {
        $(
            $(#[$meta])*
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
            unsafe fn $name $arguments $(-> $result)? $body
        )*
    };
}
pub(super) use avx512;
