//! Follows objects of one kind with kube's watcher, restarted or resumed after any failure, with back-off and the server's
//! Retry-After. Retries forever; decides nothing about the objects.

mod client;
mod query;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use run::{FollowError, Notification, follow, follow_with_recovery};
