//! Tasks on some threads, whose results arrive on the thread that asked for them.
//!
//! Invariant: at most one result per thread is queued, and a thread ends if it is asked to stop or if the
//! receiver is gone.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;

use super::error::PostingsError;

/// Where a task leaves its results, one by one.
pub(super) struct Results<'a, T> {
    sender: SyncSender<Result<T, PostingsError>>,
    stop: &'a AtomicBool,
}

impl<T> Results<'_, T> {
    /// Sends a result. Blocks while the queue is full.
    pub(super) fn send(&self, result: T) -> Result<(), PostingsError> {
        let sent = self.sender.send(Ok(result));
        match sent.is_err() || self.stop.load(Ordering::Relaxed) {
            true => Err(PostingsError::Interrupted),
            false => Ok(()),
        }
    }
}

/// Runs `tasks` tasks and hands each result to `each`. The first error is returned, and ends
/// the rest.
pub(super) fn on_threads<T: Send>(
    threads: NonZeroUsize,
    tasks: usize,
    stop: &AtomicBool,
    run: impl Fn(usize, &Results<'_, T>) -> Result<(), PostingsError> + Sync,
    mut each: impl FnMut(T),
) -> Result<(), PostingsError> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = |results: Results<'_, T>| {
        while !failed.load(Ordering::Relaxed) {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            let done = match stop.load(Ordering::Relaxed) {
                true => Err(PostingsError::Interrupted),
                false => run(task, &results),
            };
            if let Err(error) = done {
                failed.store(true, Ordering::Relaxed);
                // An error is of no use once the receiver is gone.
                let _ = results.sender.send(Err(error));
            }
        }
    };
    std::thread::scope(|scope| {
        // Made in here: if anything below panics it is gone before the scope waits for threads that
        // want to send.
        let (sender, arriving) = sync_channel(threads.get());
        let (mut started, mut refused) = (0, None);
        for _ in 0..threads.get().min(tasks) {
            let sender = sender.clone();
            let (work, results) = (&work, Results { sender, stop });
            match Builder::new().spawn_scoped(scope, move || work(results)) {
                Ok(_) => started += 1,
                Err(error) => refused = Some(error.to_string()),
            }
        }
        // Fewer threads take longer; none would never come back.
        if let (0, Some(why)) = (started, refused) {
            return Err(PostingsError::Thread { why });
        }
        drop(sender);
        let mut outcome = Ok(());
        for result in &arriving {
            match result {
                Ok(result) if outcome.is_ok() => each(result),
                Err(error) if outcome.is_ok() => outcome = Err(error),
                _ => {}
            }
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn all_results_of_all_tasks_arrive() {
        for (count, tasks) in [(1, 0), (1, 7), (3, 2), (4, 100)] {
            let mut sum = 0;
            let run = |task: usize, results: &Results<'_, usize>| {
                results.send(task)?;
                results.send(1000)
            };
            let stop = AtomicBool::new(false);
            on_threads(threads(count), tasks, &stop, run, |result| sum += result).unwrap();
            assert_eq!(sum, (0..tasks).sum::<usize>() + tasks * 1000);
        }
    }

    #[test]
    fn the_first_error_is_the_one_that_is_told() {
        let stop = AtomicBool::new(false);
        let contradiction = PostingsError::Contradiction { first: 9 };
        let run = |task: usize, results: &Results<'_, ()>| {
            if task < 2 {
                return results.send(());
            }
            // Later results are refused.
            stop.store(true, Ordering::Relaxed);
            Err(contradiction.clone())
        };
        let outcome = on_threads(threads(1), 50, &stop, run, |()| {});
        assert_eq!(outcome, Err(contradiction.clone()));
    }

    #[test]
    fn a_task_that_goes_on_for_long_is_stopped_between_results() {
        let stop = AtomicBool::new(false);
        let mut arrived = 0;
        let endless = |_: usize, results: &Results<'_, ()>| {
            loop {
                results.send(())?;
            }
        };
        let outcome = on_threads(threads(2), 2, &stop, endless, |()| {
            arrived += 1;
            stop.store(arrived >= 10, Ordering::Relaxed);
        });
        assert_eq!(outcome, Err(PostingsError::Interrupted));
    }

    /// Threads that wait to send would keep the scope from ending.
    #[test]
    fn a_panic_of_the_asker_ends_the_threads() {
        let stop = AtomicBool::new(false);
        let run = |_: usize, results: &Results<'_, ()>| results.send(());
        let asked = std::panic::catch_unwind(|| {
            on_threads(threads(2), 1000, &stop, run, |()| panic!("on purpose"))
        });
        assert!(asked.is_err());
    }
}
