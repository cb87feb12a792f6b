//! `FROM 'file'`: the files that a query reads, and their readers.
//!
//! A file's first bytes and its name decide its format, as in a load. The reader of loads reads CSV. DataFusion reads
//! Parquet, Arrow IPC and JSON, whose values have types, also in directories, patterns and URLs. A file of unknown format
//! is not a table; `missing` explains it.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::{SessionContext, SessionState};
use futures::FutureExt;

use crate::error::SqlError;
use crate::foreign;
use crate::load::{CsvTable, Format, LoadError, format_of, unreadable};
use crate::sink::blocking;

/// File extensions of JSON with one object per line.
pub(super) const JSON: [&str; 3] = ["json", "jsonl", "ndjson"];
/// File extensions of compressed files.
pub(super) const PACKED: [&str; 4] = ["gz", "bz2", "xz", "zst"];

/// The same context, in which a file name is a table.
pub(super) fn add_to(context: SessionContext) -> SessionContext {
    let catalogs = Arc::clone(context.state_ref().read().catalog_list());
    let factory = Arc::new(Files {
        listings: DynamicListTableFactory::default(),
    });
    let catalogs = DynamicFileCatalog::new(catalogs, Arc::clone(&factory) as _);
    let state = SessionStateBuilder::new_from_existing(context.state())
        .with_session_id(context.session_id())
        .with_catalog_list(Arc::new(catalogs))
        .build();
    let context = SessionContext::new_with_state(state);
    let store = factory.listings.session_store();
    store.with_state(context.state_weak_ref());
    context
}

/// Makes tables of files.
#[derive(Debug)]
struct Files {
    /// DataFusion's own factory, for names that are not a single file.
    listings: DynamicListTableFactory,
}

#[async_trait]
impl UrlTableFactory for Files {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let path = Path::new(name);
        if !path.is_file() {
            let listing = self.listing(name).await?;
            return Ok(listing.map(foreign::settled));
        }
        let found = {
            let path = path.to_path_buf();
            blocking(move || Ok::<_, LoadError>(format_of(&path))).await?
        };
        let format = match found {
            Ok(Format::Csv { delimiter }) => {
                let path = path.to_path_buf();
                let open = move || CsvTable::open(&path, delimiter).map_err(SqlError::from);
                return Ok(Some(Arc::new(blocking(open).await?)));
            }
            Ok(Format::Parquet) => "parquet",
            Ok(Format::ArrowIpc) => "arrow",
            Err(LoadError::UnknownFormat { .. }) if has_ending(path, &JSON) => "json",
            Err(LoadError::UnknownFormat { .. }) => return Ok(None),
            Err(error) => return Err(external(error)),
        };
        let damaged = |message| {
            external(LoadError::Damaged {
                file: path.to_path_buf(),
                message,
            })
        };
        // No state is kept that a panic could leave half done.
        let table = AssertUnwindSafe(self.file(name, format))
            .catch_unwind()
            .await;
        let table = table
            .map_err(|panic| damaged(unreadable(panic.as_ref())))?
            .map_err(|error| damaged(SqlError::from(error).to_string()))?;
        Ok(Some(foreign::settled(table)))
    }
}

impl Files {
    /// A directory, a pattern or a URL.
    async fn listing(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let found = self.listings.try_new(name).await?;
        let listing = found
            .as_ref()
            .map(|table| table.downcast_ref::<ListingTable>());
        if let Some(Some(listing)) = listing
            && listing
                .options()
                .format
                .downcast_ref::<CsvFormat>()
                .is_some()
        {
            return Err(external(LoadError::SeveralCsv { file: name.into() }));
        }
        Ok(found)
    }

    /// One file of a format that DataFusion reads, with any extension.
    async fn file(&self, name: &str, format: &str) -> Result<Arc<dyn TableProvider>> {
        let gone = || DataFusionError::Internal("the session has ended".to_string());
        let session = self.listings.session_store().get_session();
        let session = session.upgrade().ok_or_else(gone)?;
        let state = session
            .read()
            .as_any()
            .downcast_ref::<SessionState>()
            .cloned();
        let state = state.ok_or_else(gone)?;
        let factory = state.get_file_format_factory(format).ok_or_else(gone)?;
        let format = factory.create(&state, &HashMap::new())?;
        let config = ListingTableConfig::new(ListingTableUrl::parse(name)?)
            .with_listing_options(ListingOptions::new(format).with_file_extension(""))
            .infer_schema(&state)
            .await?;
        Ok(Arc::new(ListingTable::try_new(config)?))
    }
}

/// Whether the name of `path` ends in a dot and one of `endings`.
pub(super) fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| {
        endings
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

fn external(error: LoadError) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError::Load(error)))
}
