//! Records: a server that speaks Redis's protocol and looks keys up in groups.

pub mod keyspace;
