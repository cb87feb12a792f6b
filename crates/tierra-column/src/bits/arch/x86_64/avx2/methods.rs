//! Methods that may use the instructions of AVX2.

/// Defines methods that may use the level's instructions.
macro_rules! avx2 {
    ($( $(#[$meta:meta])* unsafe fn $name:ident $arguments:tt $(-> $result:ty)? $body:block )*) => {
        $(
            $(#[$meta])*
            #[inline]
            #[target_feature(enable = "avx2")]
            unsafe fn $name $arguments $(-> $result)? $body
        )*
    };
}
pub(super) use avx2;
