//! The driver, and a database of it.

use std::sync::{Arc, Once};

use adbc_core::error::Result;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{Database, Driver, Optionable};
use tierra::sql::{Session, SessionOptions};

use crate::connection::TierraConnection;
use crate::error::{self, no_option, state};
use crate::guard::{self, OfProcess, call};
use crate::options::{Opening, switch};

/// The driver.
#[derive(Debug, Default)]
pub struct TierraDriver;

/// An open database. Databases of one process in one directory share what is open.
#[derive(Debug)]
pub struct TierraDatabase {
    database: OfProcess<tierra::Database>,
    /// The options that it was opened with.
    given: Vec<(String, OptionValue)>,
}

impl TierraDatabase {
    /// The value of an option that was given.
    fn given(&self, key: &OptionDatabase) -> Result<&OptionValue> {
        let mut given = self.given.iter();
        let found = given.rfind(|(name, _)| name == key.as_ref());
        found
            .map(|(_, value)| value)
            .ok_or_else(|| no_option(key.as_ref()))
    }
}

/// Memory that queries free is kept for the next one, and given back when it counts.
fn keep_freed_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tierra_allocator::keep_freed_memory();
        tierra::sql::release_memory_with(tierra_allocator::release_freed_memory);
    });
}

impl Driver for TierraDriver {
    type DatabaseType = TierraDatabase;

    fn new_database(&mut self) -> Result<TierraDatabase> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<TierraDatabase> {
        call(|| {
            let opening = Opening::of(options)?;
            guard::begin()?;
            keep_freed_memory();
            let opened = match opening.creates {
                true => opening.options.open_or_create_shared(&opening.path),
                false => opening.options.open_shared(&opening.path),
            };
            let database = opened.map_err(|error| error::of_database(&error))?;
            Ok(TierraDatabase {
                database: OfProcess::new(database),
                given: opening.given,
            })
        })
    }
}

impl Database for TierraDatabase {
    type ConnectionType = TierraConnection;

    fn new_connection(&self) -> Result<TierraConnection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<TierraConnection> {
        call(|| {
            let mut others = Vec::new();
            let mut of_session: SessionOptions = self.database.get().session_options().clone();
            for (key, value) in options {
                match key {
                    OptionConnection::ReadOnly => {
                        of_session.reads_only = switch(key.as_ref(), &value)?;
                    }
                    _ => others.push((key, value)),
                }
            }
            let reads_only = of_session.reads_only;
            let engine = Arc::clone(self.database.get().engine());
            let session = Session::new(engine, &of_session);
            let session = session.map_err(|error| error::of_sql(&error))?;
            session.set_client("", "ADBC");
            let mut connection = TierraConnection::new(session, reads_only);
            for (key, value) in others {
                connection.set_option(key, value)?;
            }
            Ok(connection)
        })
    }
}

impl Optionable for TierraDatabase {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, _: OptionValue) -> Result<()> {
        Err(state(format!(
            "option '{}' of a database cannot change while it is open; SET changes settings of a connection",
            key.as_ref()
        )))
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        match self.given(&key)? {
            OptionValue::String(text) => Ok(text.clone()),
            OptionValue::Int(number) => Ok(number.to_string()),
            _ => Err(no_option(key.as_ref())),
        }
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> Result<Vec<u8>> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_int(&self, key: OptionDatabase) -> Result<i64> {
        match self.given(&key)? {
            OptionValue::Int(number) => Ok(*number),
            _ => Err(no_option(key.as_ref())),
        }
    }

    fn get_option_double(&self, key: OptionDatabase) -> Result<f64> {
        Err(no_option(key.as_ref()))
    }
}
