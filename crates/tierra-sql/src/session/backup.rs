//! BACKUP DATABASE: runs the engine's backup, tells how far it is, and ends it if the statement is cancelled.

use std::sync::Arc;

use tierra_engine::BackupOptions;

use super::Session;
use super::run::done;
use crate::activity::Tracked;
use crate::backup_statement::BackupStatement;
use crate::error::SqlError;
use crate::outcome::Outcome;
use crate::sink::blocking;

/// Ends the backup when the statement's future is dropped.
struct StopOnDrop(BackupOptions);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop.stop();
    }
}

impl Session {
    pub(super) async fn backup(
        &self,
        statement: BackupStatement,
        tracked: &Tracked,
    ) -> Result<Outcome, SqlError> {
        let BackupStatement {
            file,
            compression,
            since,
        } = statement;
        let options = BackupOptions {
            compression,
            since,
            ..BackupOptions::default()
        };
        let _stop = StopOnDrop(options.clone());
        let (database, progress) = (Arc::clone(&self.database), tracked.progress());
        blocking(move || {
            database.backup(&file, &options, |told| {
                progress.set(told.bytes, told.of_bytes);
            })
        })
        .await?;
        Ok(done("BACKUP DATABASE"))
    }
}
