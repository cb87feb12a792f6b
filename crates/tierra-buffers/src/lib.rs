//! Replicated buffers of integers: the four calls of the thesis's library, for programs that want columns and no SQL.
//!
//! A [`Buffer`] is an ordered list of `i64` that only grows. Each of its replicas lies in a tier of memory, in an encoding of its own. It
//! is appended to by one thread at a time and read by any number: a [`Reader`] sees the values of one moment, in the replica that
//! suits what it is going to read.
//!
//! | thesis | here |
//! |---|---|
//! | `allocate(size, hint)` | [`Buffers::allocate`], with the tiers and encodings of the replicas |
//! | `get_buffer(buffer, &format, hint)` | [`Buffer::reader`], which says what it reads ([`Reader::sources`]) and gives packed blocks, values and sums |
//! | `append(buffer, value)` | [`Buffer::append`], of one value or many |
//! | `delete buffer` | [`Buffer::delete`] |
//!
//! ```
//! use tierra_buffers::{Buffers, Near, Options, ReadPattern};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let dir = directory.path().join("db");
//! let mut options = Options::default();
//! options.tiers.push(("b".to_owned(), directory.path().join("b.pool")));
//! let buffers = Buffers::open(&dir, &options)?;
//! let prices = buffers.allocate("prices", &["far/static", "b/dynamic"], Near::Never)?;
//! prices.append(&(0..100_000).collect::<Vec<i64>>())?; // durable now
//!
//! let reader = prices.reader(ReadPattern::Random)?;
//! assert_eq!(reader.sources()[0].encoding.name(), "static");
//! assert_eq!(reader.at(&[7, 99_999])?, [7, 99_999]);
//! assert_eq!(prices.reader(ReadPattern::Sequential)?.sum()?, 4_999_950_000);
//! # Ok(())
//! # }
//! ```
//!
//! A buffer is a table of Tierra with two columns, `position` and `value`, so that whatever holds for tables holds for it: what survives a
//! crash, how damage is found and repaired, backups, and SQL. [`Buffers::engine`] is the database. The column of positions keeps
//! values in the order in which they came whatever the engine moves; it is stored in 16 bytes a block of 1,024 values.
//!
//! C programs use the same by `include/tierra_buffers.h` and `libtierra_buffers.so`, which [`c`] is. See `docs/embedding.md`.

mod buffer;
pub mod c;
mod columns;
mod error;
mod order;
mod reader;
mod set;

pub use tierra_column::Encoding;
pub use tierra_engine::{Database, DatabaseOptions, ReadPattern, ReplicaInfo};

pub use buffer::{Buffer, Info};
pub use error::Error;
pub use reader::{BLOCK_VALUES, Block, Packing, Reader, Source};
pub use set::{Buffers, Near, Options};
