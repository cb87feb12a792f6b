//! The table's end of COPY FROM: a bulk load that is all or nothing, or a part of the open transaction.
//!
//! Reading and encoding rows takes a thread for its time, so both are done on a thread for blocking work. Bytes come to it through
//! a channel that holds a few messages, and not more bytes of them than one message may have and some: a client that sends faster
//! than the table takes waits.
//!
//! The thread is told to stop by a flag, which it heeds until it hands the rows to the table. Then its result is the truth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};
use bytes::Bytes;
use tierra_engine::Table;
use tierra_sql::SqlError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::input::CopyInput;
use super::options::CopyIn;
use crate::error::Fault;

/// Messages that wait for the table, and their bytes unless one alone has more.
const WAITING: usize = 32;
const WAITING_BYTES: u32 = 16 << 20;
/// The most bytes of rows that a transaction keeps for one COPY.
const KEPT_MOST_BYTES: usize = 1 << 30;

/// What a COPY has done.
pub(crate) enum Loaded {
    /// So many rows are in the table.
    Rows(u64),
    /// The transaction is to insert these.
    Kept(SchemaRef, Vec<RecordBatch>),
}

/// What is sent to the thread.
enum Part {
    /// With its share of the bytes that may wait.
    Data(Bytes, OwnedSemaphorePermit),
    End,
}

/// A running COPY. Dropping it undoes it.
pub(crate) struct Target {
    parts: Option<mpsc::Sender<Part>>,
    room: Arc<Semaphore>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Loaded, Fault>>,
    columns: usize,
}

/// What the thread reads.
struct Source {
    parts: mpsc::Receiver<Part>,
    input: CopyInput,
    stop: Arc<AtomicBool>,
}

/// Where each of the table's columns is among those of COPY.
struct Columns {
    schema: SchemaRef,
    places: Vec<Option<usize>>,
    names: Vec<(String, DataType)>,
}

impl Columns {
    fn of(table: &Table, copy: &CopyIn) -> Result<Self, Fault> {
        let schema = table.schema();
        let names: Vec<String> = match copy.columns.is_empty() {
            true => schema
                .fields()
                .iter()
                .map(|field| field.name().clone())
                .collect(),
            false => copy.columns.clone(),
        };
        let typed = names.iter().enumerate().map(|(place, name)| {
            if names[..place].contains(name) {
                return Err(Fault::new(
                    "42701",
                    format!("column \"{name}\" specified more than once"),
                ));
            }
            match schema.field_with_name(name) {
                Ok(field) => Ok((name.clone(), field.data_type().clone())),
                Err(_) => Err(Fault::new(
                    "42703",
                    format!(
                        "column \"{name}\" of table \"{}\" does not exist",
                        copy.table
                    ),
                )),
            }
        });
        let typed = typed.collect::<Result<Vec<_>, _>>()?;
        let places = schema.fields().iter().map(|field| {
            let place = names.iter().position(|name| name == field.name());
            match place {
                None if !field.is_nullable() => Err(Fault::new(
                    "23502",
                    format!(
                        "column \"{}\" is NOT NULL, and COPY has no values for it",
                        field.name()
                    ),
                )),
                place => Ok(place),
            }
        });
        let places = places.collect::<Result<_, _>>()?;
        Ok(Self {
            schema,
            places,
            names: typed,
        })
    }

    /// Rows of the table.
    fn batch(&self, columns: &[ArrayRef]) -> Result<RecordBatch, Fault> {
        let rows = columns.first().map_or(0, |column| column.len());
        let whole =
            self.places
                .iter()
                .zip(self.schema.fields())
                .map(|(place, field)| match place {
                    Some(place) => Arc::clone(&columns[*place]),
                    None => new_null_array(field.data_type(), rows),
                });
        RecordBatch::try_new(Arc::clone(&self.schema), whole.collect())
            .map_err(|error| Fault::new("23502", error.to_string()))
    }
}

impl Target {
    /// Begins a COPY into `table`, as a part of a transaction if `in_transaction`.
    pub(crate) fn begin(
        table: &Arc<Table>,
        copy: &CopyIn,
        in_transaction: bool,
    ) -> Result<Self, Fault> {
        let columns = Columns::of(table, copy)?;
        let input = CopyInput::new(&copy.layout, &columns.names)?;
        let count = columns.names.len();
        let (parts, received) = mpsc::channel(WAITING);
        let stop = Arc::<AtomicBool>::default();
        let source = Source {
            parts: received,
            input,
            stop: Arc::clone(&stop),
        };
        let table = Arc::clone(table);
        let thread = tokio::task::spawn_blocking(move || match in_transaction {
            true => keep(source, &columns),
            false => load(source, &columns, &table),
        });
        Ok(Self {
            parts: Some(parts),
            room: Arc::new(Semaphore::new(WAITING_BYTES as usize)),
            stop,
            thread,
            columns: count,
        })
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Hands data on; `false` if the COPY has failed. `finish` tells why.
    pub(crate) async fn push(&mut self, data: Bytes) -> bool {
        let Some(parts) = &self.parts else {
            return false;
        };
        let bytes = u32::try_from(data.len()).map_or(WAITING_BYTES, |len| len.min(WAITING_BYTES));
        let share = Arc::clone(&self.room).acquire_many_owned(bytes);
        tokio::select! {
            biased;
            // It no longer takes any.
            () = parts.closed() => false,
            share = share => match share {
                Ok(share) => parts.send(Part::Data(data, share)).await.is_ok(),
                Err(_) => false,
            },
        }
    }

    /// What tells the thread to stop, as long as the table has not taken the rows.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Ends the data.
    pub(crate) async fn finish(mut self) -> Result<Loaded, Fault> {
        if let Some(parts) = self.parts.take() {
            // If the receiver is gone, the result tells why.
            let _ = parts.send(Part::End).await;
        }
        match self.thread.await {
            Ok(result) => result,
            Err(error) => Err(Fault::new(
                "XX000",
                format!("COPY ended because of a defect: {error}"),
            )),
        }
    }
}

impl Source {
    /// Reads all parts, up to the end.
    fn read(
        mut self,
        mut take: impl FnMut(Vec<ArrayRef>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let stop = self.stop;
        let heed = || match stop.load(Ordering::Relaxed) {
            true => Err(Fault::new(Fault::CANCELLED, "COPY was cancelled")),
            false => Ok(()),
        };
        let mut sink = |arrays| {
            heed()?;
            take(arrays)
        };
        loop {
            match self.parts.blocking_recv() {
                Some(Part::Data(data, _share)) => self.input.feed(&data, &mut sink)?,
                Some(Part::End) => {
                    self.input.finish(&mut sink)?;
                    return heed();
                }
                None => return Err(Fault::new(Fault::CANCELLED, "COPY was cancelled")),
            }
        }
    }
}

fn load(source: Source, columns: &Columns, table: &Arc<Table>) -> Result<Loaded, Fault> {
    let failed = |error: tierra_engine::LoadError| Fault::from(SqlError::Engine(Box::new(error)));
    // Dropped without its end it leaves nothing.
    let mut loader = table.loader();
    source.read(|arrays| loader.push(columns.batch(&arrays)?).map_err(failed))?;
    Ok(Loaded::Rows(loader.finish().map_err(failed)?.rows))
}

fn keep(source: Source, columns: &Columns) -> Result<Loaded, Fault> {
    let (mut batches, mut bytes) = (Vec::new(), 0);
    source.read(|arrays| {
        let batch = columns.batch(&arrays)?;
        bytes += batch.get_array_memory_size();
        if bytes > KEPT_MOST_BYTES {
            return Err(Fault::new(
                "53200",
                "a COPY in a transaction keeps its rows in memory, at most 1 GiB",
            )
            .with_hint("COPY outside a transaction: it is all or nothing, too"));
        }
        batches.push(batch);
        Ok(())
    })?;
    Ok(Loaded::Kept(Arc::clone(&columns.schema), batches))
}
