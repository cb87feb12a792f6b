//! SQL over Tierra tables, by DataFusion.
//!
//! Only this crate knows DataFusion. It adds what tables of packed columns in two speeds of memory need: predicates on
//! codes, scans shared by threads, lookups by key that hide cache misses, point queries that are planned once, and
//! files that are loaded or undone as a whole ([`load`]).
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tierra_engine::{Database, DatabaseOptions};
//! use tierra_sql::{Outcome, Session, SessionOptions};
//!
//! let database = Database::create("db".as_ref(), &DatabaseOptions::default())?;
//! let session = Session::new(database, &SessionOptions::default())?;
//! session.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR); INSERT INTO t VALUES (1, 'x')").await?;
//! let rows = session.query("SELECT name FROM t WHERE id = 1").await?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok(()) }
//! ```
//!
//! For Linux on 64-bit processors.

mod activity;
mod backup_statement;
mod blocking_thread;
mod catalog;
mod change;
mod columnar;
pub mod csv;
mod ddl;
mod ddl_text;
mod defect;
mod dialect;
mod distinct_count;
mod double_text;
mod duplicate_names;
mod error;
mod exact_sum;
mod extreme;
mod filter;
mod foreign;
mod hidden_keys;
mod information_schema;
mod join;
pub mod json;
mod keys;
mod late;
mod limits;
mod list;
pub mod load;
mod memory;
mod merged_columns;
pub mod moment_texts;
pub mod moments;
mod names;
mod ordered_keys;
mod ordered_set;
mod outcome;
mod pass;
mod placeholders;
mod prepared;
mod query_threads;
mod regexps;
mod replicas;
mod rules;
mod scan;
mod session;
mod session_tables;
mod settings;
mod sink;
mod spawned;
mod statement;
mod statistics;
mod sum;
mod syntax;
mod system_table;
mod table;
mod text;
mod text_values;
mod tier_statement;
mod time;
mod totals;
mod tree;
mod types;
mod values;
mod view;
mod visit;
mod window_functions;
mod work;

pub use activity::{Canceller, Listed, Monitor, StatementActivity, TIME_BOUNDS_S, Totals};
pub use blocking_thread::BlockingThread;
pub use ddl_text::{create_table_text, replicas_text};
pub use error::{
    ChangeError, CopyError, DefinitionError, ErrorKind, InsertError, PreparedError, SqlError,
};
pub use limits::LimitError;
pub use memory::release_memory_with;
pub use outcome::{Done, Outcome, Rows};
pub use session::{Prepared, Session, SessionOptions, TransactionState};
pub use settings::THREADS_MOST;
pub use text::{Lexeme, Statement, statements};
pub use work::Work;
