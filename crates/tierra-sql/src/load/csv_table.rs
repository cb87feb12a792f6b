//! A CSV file as a table of a query. It is read by the reader of loads, so that fields and errors are the same in
//! `FROM 'file.csv'` as in a load.
//!
//! Its types are those that a load would give a new table, unless the caller gives others ([`CsvTable::read_as`]). Only the
//! columns that a query needs are parsed, batch by batch. For files and records of any size, a few batches are in memory.
//! The file is opened when a statement is planned and again when it is executed, perhaps much later: the header must be the
//! same. The number of fields is checked in every record, the values only in the columns that the query needs: `count(*)`
//! needs none.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::project_schema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::csv;
use super::error::LoadError;
use super::source::{Source, UNWATCHED};
use crate::error::SqlError;

/// Batches by which the parser may be ahead.
const QUEUE: usize = 2;

/// A CSV file.
#[derive(Clone, Debug)]
pub(crate) struct CsvTable {
    file: Arc<CsvFile>,
    schema: SchemaRef,
}

#[derive(Debug)]
struct CsvFile {
    path: Box<Path>,
    delimiter: u8,
    names: Vec<String>,
}

impl CsvTable {
    /// Opens the file and infers the types of its columns. Blocks.
    pub(crate) fn open(path: &Path, delimiter: u8) -> Result<Self, LoadError> {
        let source = Source::open(path, &UNWATCHED)?;
        let opened = source.file()?;
        let names = csv::header(&source, &opened, delimiter)?;
        let spec = csv::inferred(&source, &opened, delimiter, "", &names)?;
        let fields = spec.columns.iter();
        let fields = fields.map(|column| Field::new(&column.name, column.ty.arrow(), true));
        Ok(Self {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            file: Arc::new(CsvFile {
                path: path.into(),
                delimiter,
                names,
            }),
        })
    }

    /// The same file with its columns parsed as `fields` say, in the same order. They keep their names.
    pub(crate) fn read_as(&self, fields: Vec<Field>) -> Self {
        assert_eq!(fields.len(), self.file.names.len(), "a field a column");
        Self {
            file: Arc::clone(&self.file),
            schema: Arc::new(Schema::new(fields)),
        }
    }
}

#[async_trait]
impl TableProvider for CsvTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = project_schema(&self.schema, projection)?;
        let places = match projection {
            Some(places) => places.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let scan = CsvScan {
            file: Arc::clone(&self.file),
            schema: Arc::clone(&schema),
            places,
        };
        let scan =
            StreamingTableExec::try_new(schema, vec![Arc::new(scan)], None, [], false, limit)?;
        Ok(Arc::new(scan))
    }
}

/// One pass over some columns.
#[derive(Debug)]
struct CsvScan {
    file: Arc<CsvFile>,
    schema: SchemaRef,
    /// The field of a record for each column.
    places: Vec<usize>,
}

impl PartitionStream for CsvScan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), QUEUE);
        let rows = stream.tx();
        let (file, schema) = (Arc::clone(&self.file), Arc::clone(&self.schema));
        let places = self.places.clone();
        stream.spawn_blocking(move || {
            // A query that has ended takes no more batches.
            let mut emit = |batch, _| rows.blocking_send(Ok(batch)).is_ok();
            file.parse(&places, &schema, &mut emit)
                .map_err(|error| DataFusionError::External(Box::new(SqlError::Load(error))))
        });
        stream.build()
    }
}

impl CsvFile {
    fn parse(
        &self,
        places: &[usize],
        schema: &SchemaRef,
        emit: &mut dyn FnMut(RecordBatch, u64) -> bool,
    ) -> Result<(), LoadError> {
        let source = Source::open(&self.path, &UNWATCHED)?;
        let opened = source.file()?;
        if csv::header(&source, &opened, self.delimiter)? != self.names {
            return Err(source.damaged(
                "its header is another than when the statement was planned; run it again",
            ));
        }
        csv::parse(
            &source,
            &opened,
            self.delimiter,
            &self.names,
            places,
            schema,
            emit,
        )
    }
}
