//! Sessions that work at the same time, each on a thread of its own.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::error::LabError;

/// Has every session do its work, by its number, from one moment on. Returns the time until the last is done.
///
/// # Errors
/// The first error of a session.
pub(crate) fn at_once<S: Send>(
    sessions: &mut [S],
    work: impl Fn(usize, &mut S) -> Result<(), LabError> + Sync,
) -> Result<Duration, LabError> {
    let together = Barrier::new(sessions.len());
    let times = std::thread::scope(|scope| {
        let mut running = Vec::with_capacity(sessions.len());
        for (number, session) in sessions.iter_mut().enumerate() {
            let (together, work) = (&together, &work);
            running.push(scope.spawn(move || {
                together.wait();
                let start = Instant::now();
                work(number, session)?;
                Ok((start, Instant::now()))
            }));
        }
        let joined = running.into_iter().map(|thread| thread.join());
        let times = joined.map(|times| times.expect("a session returns its errors"));
        times.collect::<Result<Vec<(Instant, Instant)>, LabError>>()
    })?;
    let start = times.iter().map(|(start, _)| *start).min();
    let end = times.iter().map(|(_, end)| *end).max();
    Ok(start
        .zip(end)
        .map_or(Duration::ZERO, |(start, end)| end - start))
}
