//! CREATE TABLE, CREATE TABLE AS and DROP TABLE.
//!
//! A table made of a query's rows appears with them: a query that fails, that nobody waits for any
//! more, or whose process is killed leaves nothing.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::physical_plan::execute_stream;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

use super::Session;
use crate::ddl;
use crate::error::{DefinitionError, SqlError};
use crate::outcome::{Done, Outcome};
use crate::sink::{TableSink, blocking};

impl Session {
    pub(super) async fn create_table(
        &self,
        create: &ast::CreateTable,
    ) -> Result<Outcome, SqlError> {
        let name = ddl::table_name(&create.name)?;
        let exists = self.database.table(&name).is_some();
        let rows = match &create.query {
            _ if create.if_not_exists && exists => None,
            None => {
                let spec = ddl::table_spec(create)?;
                let database = Arc::clone(&self.database);
                blocking(move || database.create_table(spec)).await?;
                None
            }
            Some(query) => Some(self.create_table_as(create, query.clone()).await?),
        };
        Ok(Outcome::Done(Done {
            command: "CREATE TABLE",
            rows,
        }))
    }

    async fn create_table_as(
        &self,
        create: &ast::CreateTable,
        query: Box<ast::Query>,
    ) -> Result<u64, SqlError> {
        let state = self.context.state();
        self.count_planning();
        let query = Statement::Statement(Box::new(ast::Statement::Query(query)));
        let plan = state.statement_to_plan(query).await?;
        let physical = state.create_physical_plan(&plan).await?;
        let spec = ddl::table_spec_of_query(create, &physical.schema())?;
        let database = Arc::clone(&self.database);
        let table = blocking(move || database.begin_table(spec)).await?;
        let input = execute_stream(physical, Arc::new(TaskContext::from(&state)))?;
        let sink = TableSink::new(Arc::clone(&table));
        let rows = sink.write_converted(input).await?;
        if rows == 0 {
            // Nothing was committed: the table appears empty.
            blocking(move || table.loader().finish()).await?;
        }
        Ok(rows)
    }

    pub(super) async fn drop_table(
        &self,
        name: &ast::ObjectName,
        if_exists: bool,
    ) -> Result<(), SqlError> {
        let name = ddl::table_name(name)?;
        if self.database.table(&name).is_none() {
            return if if_exists {
                Ok(())
            } else {
                Err(DefinitionError::NoSuchTable(name).into())
            };
        }
        let database = Arc::clone(&self.database);
        Ok(blocking(move || database.drop_table(&name)).await?)
    }
}
