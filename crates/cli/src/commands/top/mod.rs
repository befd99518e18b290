//! `hostlet top`: what this node's pods use and wait for, live in a terminal, once for everything else.

mod amounts;
mod args;
mod columns;
mod draw;
#[cfg(test)]
mod draw_tests;
mod feeds;
mod keys;
#[cfg(test)]
mod keys_tests;
mod live;
mod model;
mod plain;
mod row;
mod run;
mod screen;
mod shell;
mod text;

pub use args::{SortBy, TopArgs};
pub use run::top;
