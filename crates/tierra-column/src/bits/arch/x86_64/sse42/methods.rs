//! Methods that may use the instructions of SSE 4.2.

/// Defines methods that may use the level's instructions.
macro_rules! sse42 {
    ($( $(#[$meta:meta])* unsafe fn $name:ident $arguments:tt $(-> $result:ty)? $body:block )*) => {
        $(
            $(#[$meta])*
            #[inline]
            #[target_feature(enable = "sse4.2")]
            unsafe fn $name $arguments $(-> $result)? $body
        )*
    };
}
pub(super) use sse42;
