//! Queries of PostgreSQL's system catalog: `tierra-catalog` answers them from a description of the database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use tierra_catalog::{Answer, Column, Contents, Query, Question, Table, Type};

use crate::command::Tag;
use crate::connection::{Connection, Stop};
use crate::error::Fault;
use crate::settings::SERVER_VERSION;
use crate::statement::{Cursor, Formats, Parameter, Planned, Work};
use crate::values::argument::Argument;
use crate::values::{Field, oid};

/// The name of the only database.
const DATABASE: &str = "tierra";

/// Ends a query of the catalog when its client stops waiting.
struct Stopper(Arc<AtomicBool>);

impl Drop for Stopper {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The columns of a query.
pub(crate) fn fields_of_query(query: &Query) -> Arc<[Field]> {
    let columns = query.columns().map(|(name, ty)| Field {
        name: name.replace('\0', "\\0"),
        oid: ty.0,
        size: ty.size(),
        modifier: -1,
    });
    columns.collect()
}

impl Connection {
    /// Plans a query of the catalog, whose parameters have these types; 0 where it is to say.
    pub(crate) fn plan_catalog(
        &mut self,
        question: &Question,
        types: &[u32],
    ) -> Result<Planned, Stop> {
        self.check_transaction()?;
        let declared = types.iter().map(|oid| (*oid != 0).then_some(Type(*oid)));
        let query = question
            .plan(&declared.collect::<Vec<_>>())
            .map_err(Fault::from)?;
        let parameters = query.parameters().iter().enumerate();
        let parameters = parameters.map(|(place, ty)| Parameter {
            oid: match types.get(place).copied() {
                None | Some(0 | oid::UNKNOWN) => ty.0,
                Some(declared) => declared,
            },
            inferred: DataType::Utf8,
        });
        Ok(Planned {
            parameters: parameters.collect(),
            fields: Some(fields_of_query(&query)),
            described: OnceLock::new(),
            tag: Tag::Select,
            ends_transaction: false,
            bytes: 0,
            work: Work::Catalog(Arc::new(query)),
        })
    }

    /// The rows of a query of the catalog.
    pub(crate) async fn catalog_rows(
        &mut self,
        query: &Arc<Query>,
        arguments: &[Argument],
    ) -> Result<Cursor, Stop> {
        let arguments = arguments.iter().map(Argument::text);
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let contents = self.contents();
        let run = Arc::clone(query);
        let queries = self.shared.queries.clone();
        let stopper = Stopper(Arc::default());
        let stop = Arc::clone(&stopper.0);
        let work = queries.spawn_blocking(move || run.answer_until(&contents, &arguments, &stop));
        let work = async {
            let _stopper = stopper;
            match work.await {
                Ok(answer) => Ok(answer?),
                Err(error) => Err(Fault::new("XX000", error.to_string())),
            }
        };
        let answer: Answer = self.watched_alone(work).await?;
        Ok(Cursor::of_answer(fields_of_query(query), answer))
    }

    /// Answers a query of the catalog as text, behind its columns.
    pub(crate) async fn answer_catalog(&mut self, question: &Question) -> Result<(), Stop> {
        let query = Arc::new(question.plan(&[]).map_err(Fault::from)?);
        if !query.parameters().is_empty() {
            return Err(Fault::new("42P02", "there is no parameter $1").into());
        }
        let mut cursor = self.catalog_rows(&query, &[]).await?;
        self.put_fields(&cursor.fields, &Formats::TEXT)?;
        let sent = self.send_rows(&mut cursor, &Formats::TEXT, None).await?;
        self.complete(&Tag::Select.after(sent));
        Ok(())
    }

    /// What the catalog tells of.
    fn contents(&self) -> Contents {
        let database = self.session.database();
        let tables = database.tables().into_iter();
        let tables = tables.filter_map(|name| database.table(&name));
        let is_read_only = self.session.is_read_only();
        let settings = self.settings.all().map(|(name, value)| match name {
            "transaction_read_only" if is_read_only => (name.to_owned(), "on".to_owned()),
            _ => (name.to_owned(), value.to_owned()),
        });
        Contents {
            database: DATABASE.to_owned(),
            user: self.user().to_owned(),
            reads_only: self.session.reads_only(),
            process: self.key.process,
            application: self.settings.application().to_owned(),
            version: format!("PostgreSQL {SERVER_VERSION}"),
            settings: settings.collect(),
            tables: tables.map(|table| described(&table)).collect(),
        }
    }
}

fn described(table: &Arc<tierra_engine::Table>) -> Table {
    let (spec, schema) = (table.spec(), table.schema());
    let columns = spec.columns.iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        let (ty, modifier) = type_of(field.data_type());
        Column {
            name: column.name.clone(),
            ty,
            modifier,
            is_nullable: field.is_nullable(),
        }
    });
    Table {
        name: spec.name.clone(),
        columns: columns.collect(),
        primary_key: spec.primary_key.clone(),
        rows: table.snapshot().rows(),
    }
}

/// The type of a column, and its modifier.
fn type_of(ty: &DataType) -> (Type, i32) {
    match ty {
        DataType::Boolean => (Type::BOOL, -1),
        DataType::Int32 => (Type::INT4, -1),
        DataType::Int64 => (Type::INT8, -1),
        DataType::Float64 => (Type::FLOAT8, -1),
        DataType::Decimal128(precision, scale) => {
            let digits = (i32::from(*precision) << 16) | (i32::from(*scale) & 0xffff);
            (Type::NUMERIC, digits + 4)
        }
        DataType::Date32 => (Type::DATE, -1),
        DataType::Timestamp(..) => (Type::TIMESTAMP, -1),
        _ => (Type::TEXT, -1),
    }
}
