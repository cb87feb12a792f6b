//! Generates a table's rows on all threads and receives them in order.
//!
//! Thread t of T makes parts t, t + T, t + 2T and so on, each into its own bounded channel. The receiver takes part after
//! part from the channels in turn. The channels bound the memory.

use std::{
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use arrow::array::RecordBatch;
use tierra_data::{Batches, Part};

/// The approximate rows of a part: enough to make the start of one cheap.
const PART_ROWS: u64 = 1 << 18;
/// Batches by which a thread may be ahead of the receiver.
const AHEAD: usize = 8;

/// The batches of `generate(part, batch_rows)` over all parts of a table of about `rows` rows, in
/// order. Dropping the iterator stops the threads.
pub(crate) fn in_order<G>(
    rows: u64,
    batch_rows: usize,
    generate: G,
) -> impl Iterator<Item = RecordBatch>
where
    G: Fn(Part, usize) -> Batches + Clone + Send + 'static,
{
    let parts = u32::try_from(rows.div_ceil(PART_ROWS))
        .unwrap_or(u32::MAX)
        .max(1);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = u32::try_from(threads).unwrap_or(u32::MAX).min(parts);
    let channels: Vec<Receiver<Option<RecordBatch>>> = (0..threads)
        .map(|thread| {
            let (sender, receiver) = sync_channel(AHEAD);
            let generate = generate.clone();
            thread::spawn(move || {
                for part in Part::split(parts)
                    .skip(thread as usize)
                    .step_by(threads as usize)
                {
                    // A part ends with None. Sending fails after the receiver is dropped.
                    let mut batches = generate(part, batch_rows).map(Some).chain([None]);
                    if !batches.all(|batch| sender.send(batch).is_ok()) {
                        return;
                    }
                }
            });
            receiver
        })
        .collect();
    let mut part = 0;
    std::iter::from_fn(move || {
        while part < parts {
            let next = channels[(part % threads) as usize].recv();
            // A thread closes its channel early only if it panics, and the panic was reported.
            match next.expect("a generator sends the end of every part") {
                Some(batch) => return Some(batch),
                None => part += 1,
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use tierra_data::{Scale, Source, ssb::Table};

    use super::*;

    const BATCH_ROWS: usize = 8_192;

    #[test]
    fn rows_arrive_as_if_generated_by_one() {
        let scale = Scale::new(0.1).unwrap();
        let table = Table::Lineorder;
        let rows = table.rows(scale);
        assert!(rows > 2 * PART_ROWS, "several parts");
        let total = rows as usize;
        let received: Vec<_> = in_order(rows, BATCH_ROWS, move |part, rows| {
            table.generate(scale, part, rows)
        })
        .collect();
        assert_eq!(received.iter().map(|b| b.num_rows()).sum::<usize>(), total);
        let mut at = 0;
        let whole: Vec<_> = table.generate(scale, Part::WHOLE, total).collect();
        for batch in received {
            assert_eq!(batch, whole[0].slice(at, batch.num_rows()));
            at += batch.num_rows();
        }
    }

    #[test]
    fn stopping_early_stops_the_threads() {
        let wide = tierra_data::wide::Wide::new(1 << 22, 2);
        let mut batches = in_order(1 << 22, 100, move |part, rows| wide.generate(part, rows));
        assert!(batches.next().is_some());
        drop(batches);
    }
}
