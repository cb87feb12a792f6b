//! Columns: types, encodings, dictionaries, and SIMD kernels on packed data.

pub mod bits;
