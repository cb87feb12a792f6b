//! CREATE TABLE, CREATE TABLE AS, ALTER TABLE and DROP TABLE; CREATE TIER, ALTER TIER and DROP TIER.
//!
//! A table made from a query appears together with its rows. If the query fails or is cancelled, or if the process is
//! killed, nothing is left.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, AlterTableOperation};
use tierra_engine::TierError;

use super::Session;
use super::run::{done, physical, planned};
use crate::activity::Commit;
use crate::error::{DefinitionError, SqlError};
use crate::memory::Writing;
use crate::outcome::{Done, Outcome};
use crate::sink::{TableSink, blocking, committing};
use crate::tier_statement::TierStatement;
use crate::{ddl, duplicate_names};

impl Session {
    pub(super) async fn create_table(
        &self,
        create: &ast::CreateTable,
        sets: &[Arc<ScalarUDF>],
    ) -> Result<Outcome, SqlError> {
        let name = ddl::table_name(&create.name)?;
        let exists = self.database.table(&name).is_some();
        let rows = match &create.query {
            _ if create.if_not_exists && exists => None,
            None => {
                let (spec, replicas) = ddl::table_spec(create)?;
                let database = Arc::clone(&self.database);
                let commit = Commit::of_statement();
                committing(&commit, move || database.create_table_in(spec, replicas)).await?;
                None
            }
            Some(query) => Some(self.create_table_as(create, query.clone(), sets).await?),
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
        sets: &[Arc<ScalarUDF>],
    ) -> Result<u64, SqlError> {
        let state = self.state_with(sets)?;
        self.count_planning();
        let query = Statement::Statement(Box::new(ast::Statement::Query(query)));
        let (state, plan) = planned(state, query).await?;
        let physical = physical(state, plan).await?;
        let schema = physical.plan.schema();
        let schema = duplicate_names::restored(&schema).unwrap_or(schema);
        let (spec, replicas) = ddl::table_spec_of_query(create, &schema)?;
        let database = Arc::clone(&self.database);
        let table = blocking(move || database.begin_table_in(spec, replicas)).await?;
        let _writing = Writing::begin();
        let input = physical.spawned()?;
        let sink = TableSink::new(Arc::clone(&table));
        let commit = Commit::of_statement();
        let rows = sink.write_converted(input, &commit).await?;
        if rows == 0 {
            // No rows were committed: the table appears empty.
            committing(&commit, move || table.loader().finish()).await?;
        }
        Ok(rows)
    }

    /// Gives a table other tiers for its copies, if the statement alters nothing else. Options that the statement does not name
    /// stay.
    pub(super) async fn alter_table(
        &self,
        alter: &ast::AlterTable,
    ) -> Result<Option<Outcome>, SqlError> {
        let ast::AlterTable {
            only: false,
            location: None,
            on_cluster: None,
            table_type: None,
            ..
        } = alter
        else {
            return Ok(None);
        };
        let mut options: Vec<&ast::SqlOption> = Vec::new();
        for operation in &alter.operations {
            match operation {
                AlterTableOperation::SetOptionsParens { options: more } => options.extend(more),
                _ => return Ok(None),
            }
        }
        let name = ddl::table_name(&alter.name)?;
        match self.database.table(&name) {
            Some(table) => {
                let replicas = ddl::changed_replicas(table.spec(), table.replicas(), options)?;
                let commit = Commit::of_statement();
                committing(&commit, move || table.set_replicas(&replicas)).await?;
            }
            None if alter.if_exists => {}
            None => return Err(DefinitionError::NoSuchTable(name).into()),
        }
        Ok(Some(done("ALTER TABLE")))
    }

    pub(super) async fn run_tier(&self, statement: TierStatement) -> Result<Outcome, SqlError> {
        let database = Arc::clone(&self.database);
        let commit = Commit::of_statement();
        match statement {
            TierStatement::Create {
                name,
                pool,
                access,
                if_not_exists,
            } => {
                self.check_files()?;
                committing(&commit, move || {
                    match database.add_tier_with(&name, &pool, access) {
                        Err(TierError::Exists { .. }) if if_not_exists => Ok(()),
                        added => added,
                    }
                })
                .await?;
                Ok(done("CREATE TIER"))
            }
            TierStatement::Alter { name, access } => {
                committing(&commit, move || database.set_access(&name, access)).await?;
                Ok(done("ALTER TIER"))
            }
            TierStatement::Drop { name, if_exists } => {
                committing(&commit, move || match database.drop_tier(&name) {
                    Err(TierError::Unknown { .. }) if if_exists => Ok(()),
                    dropped => dropped,
                })
                .await?;
                Ok(done("DROP TIER"))
            }
        }
    }

    /// Drops all of these tables, or none.
    pub(super) async fn drop_tables(
        &self,
        names: &[ast::ObjectName],
        if_exists: bool,
    ) -> Result<(), SqlError> {
        let mut there = Vec::with_capacity(names.len());
        for name in names {
            let name = ddl::table_name(name)?;
            if self.database.table(&name).is_some() {
                there.push(name);
            } else if !if_exists {
                return Err(DefinitionError::NoSuchTable(name).into());
            }
        }
        let database = Arc::clone(&self.database);
        let commit = Commit::of_statement();
        Ok(committing(&commit, move || database.drop_tables(&there)).await?)
    }
}
