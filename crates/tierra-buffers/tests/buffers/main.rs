//! What buffers promise, a file for each promise.

mod c;
mod crash;
mod damage;
mod fixture;
mod full;
mod life;
mod order;
mod replicas;
mod snapshots;
