//! Bytes that cannot be guessed: salts of passwords, and the secrets that cancel statements.

use std::io;

/// So many of them.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
