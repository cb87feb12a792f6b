//! Tiering: the objects that may have near copies, and the thread that gives these to what is read most.

pub(crate) mod mover;
pub(crate) mod objects;
