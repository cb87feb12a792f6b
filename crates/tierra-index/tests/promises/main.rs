//! What this crate promises, one file per promise; one program, because linking each of them by itself is slow.
//! Beside it lie those that change what is one for the process.

mod hash_index;
mod join_table;
mod persistent_tree;
mod persistent_tree_crash;
mod persistent_tree_damage;
mod prefix_tree;
