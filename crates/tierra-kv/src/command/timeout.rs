//! For how long a client wants something.

use std::time::Duration;

use super::Failure;
use crate::number::{Extended, parse_i64};

/// A time in seconds, with a fraction or not; `None` for 0, which is for ever. What is too large is negative, as in Redis.
pub(super) fn seconds(text: &[u8]) -> Result<Option<Duration>, Failure> {
    let seconds = Extended::parse(text).ok_or("ERR timeout is not a float or out of range")?;
    let timeout = positive(seconds.milliseconds())?;
    Ok((!timeout.is_zero()).then_some(timeout))
}

/// A time in milliseconds.
pub(super) fn milliseconds(text: &[u8]) -> Result<Duration, Failure> {
    let ms = parse_i64(text).ok_or("ERR timeout is not an integer or out of range")?;
    positive(ms)
}

fn positive(ms: i64) -> Result<Duration, Failure> {
    let ms = u64::try_from(ms).map_err(|_| "ERR timeout is negative")?;
    Ok(Duration::from_millis(ms))
}
