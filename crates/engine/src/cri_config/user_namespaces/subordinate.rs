//! The IDs that the host's administrator gave to the user `kubelet` (subuid(5)), read with `getsubids`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hostlet_host::file_work;
use nix::unistd::User;
use tokio::process::Command;
use tokio::time::timeout;

use super::IdRange;

/// Longest wait for `getsubids`, which may ask a server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the IDs are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubordinateIdsError {
    /// The user could not be looked up.
    #[error("cannot look up user {user}")]
    User {
        user: String,
        /// Why.
        source: io::Error,
    },
    /// `getsubids` could not be run.
    #[error("cannot run {}", program.display())]
    Run {
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `getsubids` failed or took too long.
    #[error("error retrieving additional {what} for user {user:?}")]
    Failed {
        /// `uids` or `gids`.
        what: &'static str,
        user: String,
    },
    /// The user has other groups than users.
    #[error("mismatched subuids and subgids for user {0:?}")]
    Mismatch(String),
    /// The output is not one line with a range.
    #[error("invalid line {0:?}")]
    Output(String),
}

/// Where the IDs come from.
#[derive(Clone, Debug)]
pub struct SubordinateIds {
    /// The user: `kubelet`.
    pub user: String,
    /// The program: `getsubids`.
    pub program: PathBuf,
}

impl Default for SubordinateIds {
    fn default() -> Self {
        Self { user: "kubelet".to_owned(), program: "getsubids".into() }
    }
}

impl SubordinateIds {
    /// The IDs for pods: those of the user, or without it or without the program, all from `ids_per_pod` on.
    pub(super) async fn pool(&self, ids_per_pod: u32) -> Result<IdRange, SubordinateIdsError> {
        let all = IdRange { first: ids_per_pod, length: ids_per_pod.wrapping_neg() };
        let user = self.user.clone();
        let found = file_work(move || User::from_name(&user)).await;
        let found = found.unwrap_or(Err(nix::errno::Errno::EIO));
        let lookup = |errno: nix::errno::Errno| SubordinateIdsError::User {
            user: self.user.clone(),
            source: errno.into(),
        };
        if found.map_err(lookup)?.is_none() {
            return Ok(all);
        }
        let Some(users) = self.output("uids", &[]).await? else { return Ok(all) };
        let Some(groups) = self.output("gids", &["-g"]).await? else { return Ok(all) };
        if users != groups {
            return Err(SubordinateIdsError::Mismatch(self.user.clone()));
        }
        parse(&users)
    }

    /// The program's output; `None` without the program.
    async fn output(
        &self,
        what: &'static str,
        options: &[&str],
    ) -> Result<Option<String>, SubordinateIdsError> {
        let mut command = Command::new(&self.program);
        command.args(options).arg(&self.user).kill_on_drop(true);
        let failed = || SubordinateIdsError::Failed { what, user: self.user.clone() };
        match timeout(PATIENCE, command.output()).await {
            Err(_) => Err(failed()),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Ok(Err(source)) => Err(SubordinateIdsError::Run { program: self.program.clone(), source }),
            Ok(Ok(output)) if !output.status.success() => Err(failed()),
            Ok(Ok(output)) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
        }
    }
}

/// Reads `0: kubelet 65536 7208960`.
fn parse(output: &str) -> Result<IdRange, SubordinateIdsError> {
    let invalid = || SubordinateIdsError::Output(output.chars().take(256).collect());
    let mut lines = output.trim_matches('\n').lines();
    let (Some(line), None) = (lines.next(), lines.next()) else { return Err(invalid()) };
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, _, first, length] = fields[..] else { return Err(invalid()) };
    match (first.parse(), length.parse()) {
        (Ok(first), Ok(length)) => Ok(IdRange { first, length }),
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_one_line_with_a_range() {
        let range = IdRange { first: 65_536, length: 7_208_960 };
        assert_eq!(parse("0: kubelet 65536 7208960\n").unwrap(), range);
        for wrong in
            ["", "0: kubelet 65536\n", "0: kubelet a 1\n", "0: kubelet 1 99999999999", "0: a 1 2\n1: a 3 4\n"]
        {
            assert!(matches!(parse(wrong), Err(SubordinateIdsError::Output(_))), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_host_without_the_user_gives_all_ids_beyond_its_own() {
        let ids = SubordinateIds { user: "no-such-user".to_owned(), program: "/none".into() };
        let all = ids.pool(65_536).await.unwrap();
        assert_eq!((all.first, u64::from(all.length)), (65_536, (1 << 32) - 65_536));
        let without_program = SubordinateIds { user: "root".to_owned(), program: "/none".into() };
        assert_eq!(without_program.pool(65_536).await.unwrap(), all);
    }

    #[tokio::test]
    async fn a_failing_program_is_an_error() {
        let ids = SubordinateIds { user: "root".to_owned(), program: "false".into() };
        let error = ids.pool(65_536).await.unwrap_err();
        assert_eq!(error.to_string(), "error retrieving additional uids for user \"root\"");
        let ids = SubordinateIds { user: "root".to_owned(), program: "echo".into() };
        assert!(matches!(ids.pool(65_536).await, Err(SubordinateIdsError::Mismatch(_))));
    }
}
