//! An API server in memory that reviews tokens and accesses.

use async_trait::async_trait;
use kube::core::Status;
use parking_lot::Mutex;

use super::{ReviewError, Reviews, User};

/// Knows the token `good`, grants the permissions it was given, and records every review.
#[derive(Default)]
pub(in crate::node_api) struct FakeReviews {
    asked: Mutex<Vec<String>>,
    permitted: Mutex<Vec<String>>,
    failures: Mutex<usize>,
}

impl FakeReviews {
    /// Permits only this: user, verb, node and subresource.
    pub(in crate::node_api) fn permit(&self, permitted: &[&str]) {
        *self.permitted.lock() = permitted.iter().map(|one| (*one).to_owned()).collect();
    }

    /// Fails this often.
    pub(in crate::node_api) fn fail(&self, times: usize) {
        *self.failures.lock() = times;
    }

    fn answer(&self, question: String) -> Result<(), ReviewError> {
        self.asked.lock().push(question);
        let mut failures = self.failures.lock();
        if *failures > 0 {
            *failures -= 1;
            let error = kube::Error::Api(Status::failure("no", "InternalError").with_code(500).boxed());
            return Err(ReviewError::Request("review", Box::new(error)));
        }
        Ok(())
    }

    /// What it was asked since the last call.
    pub(in crate::node_api) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock())
    }
}

#[async_trait]
impl Reviews for FakeReviews {
    async fn user_of(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.answer(format!("token {token}"))?;
        Ok((token == "good").then(|| user("robot")))
    }

    async fn may(&self, user: &User, verb: &str, node: &str, subresource: &str) -> Result<bool, ReviewError> {
        let question = format!("{} {verb} {node}/{subresource}", user.name);
        self.answer(question.clone())?;
        Ok(self.permitted.lock().contains(&question))
    }
}

/// A user with only a name.
pub(in crate::node_api) fn user(name: &str) -> User {
    User { name: name.to_owned(), uid: String::new(), groups: Vec::new(), extra: Default::default() }
}
