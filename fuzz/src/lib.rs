//! What the fuzz targets share. Each target states its promise in its own file; `README.md` lists
//! them and says how to run one.

pub mod backup;
pub mod column;
pub mod csv;
pub mod database;
pub mod dump;
pub mod image;
pub mod protocol;
pub mod queries;
pub mod seal;
pub mod seeds;
