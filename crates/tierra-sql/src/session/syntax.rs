//! Statements of a text before the first of them runs: an error in one is found while nothing has happened yet.

use std::sync::Arc;

use datafusion::sql::parser::Statement as Sql;
use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;

use super::run::is_definition;
use super::{Session, unsupported};
use crate::backup_statement::BackupStatement;
use crate::defect;
use crate::error::SqlError;
use crate::limits::Roomy;
use crate::memory::{Planning, TokenAccount};
use crate::statement::{self, Parsed};
use crate::text::Statement;

impl Session {
    /// The statements of a text. Their memory belongs to that of queries as long as they are there.
    ///
    /// # Errors
    /// If the text cannot be split: a quote that is not closed. If its tokens take more memory than queries may use.
    pub fn statements(&self, sql: &str) -> Result<Vec<Statement>, SqlError> {
        let (statements, account) = self.split(sql)?;
        let account = account.map(Arc::new);
        let statements = statements.into_iter();
        Ok(statements
            .map(|parsed| Statement::new(parsed, account.clone()))
            .collect())
    }

    /// The statements of a text, and the account of their tokens.
    pub(super) fn split(&self, sql: &str) -> Result<(Vec<Parsed>, Option<TokenAccount>), SqlError> {
        let account = TokenAccount::of(sql, &self.memory)?;
        Ok((statement::split(sql)?, account))
    }

    /// Parses a statement that is to run later. Returns whether it may be part of a transaction: what changes the tables that there are,
    /// tiers, and backups commit by themselves.
    ///
    /// # Errors
    /// If it is not SQL.
    pub fn parse_only<'a>(
        &'a self,
        statement: &'a Statement,
    ) -> BoxFuture<'a, Result<bool, SqlError>> {
        Box::pin(self.read(&statement.parsed))
    }

    /// As [`Session::parse_only`].
    pub(super) async fn read(&self, parsed: &Parsed) -> Result<bool, SqlError> {
        let is_shallow = parsed.depth()?.is_shallow();
        let check = Box::pin(defect::caught(async { self.fits_transaction(parsed) }));
        match is_shallow {
            true => check.await,
            false => Roomy(check).await,
        }
    }

    fn fits_transaction(&self, parsed: &Parsed) -> Result<bool, SqlError> {
        if parsed.tier_statement()?.is_some() || BackupStatement::parse(parsed.tokens())?.is_some()
        {
            return Ok(false);
        }
        let planning = Planning::new(&self.memory);
        let compact = parsed.parse_compact(|tokens| Ok(planning.of_tokens(tokens)?));
        let compact = compact.map_err(|error| match parsed.is_copy_from() {
            true => unsupported::COPY_FROM.into(),
            false => error,
        })?;
        Ok(match &compact.statement {
            Sql::Statement(statement) => {
                !is_definition(statement) && !matches!(**statement, ast::Statement::Truncate { .. })
            }
            Sql::CreateExternalTable(_) => false,
            Sql::CopyTo(_) | Sql::Explain(_) | Sql::Reset(_) => true,
        })
    }
}
