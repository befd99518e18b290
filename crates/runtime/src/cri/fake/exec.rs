//! Commands in running containers. Pure.

use std::time::Duration;

use hostlet_base::ContainerId;

use super::super::{CriError, ExecOutput, Operation};
use super::containers::{Life, no_container};
use super::world::World;

/// What a command does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exec {
    /// How long it runs.
    pub takes: Duration,
    /// What it prints, and its exit code.
    pub output: ExecOutput,
}

impl World {
    /// What a command will do: as scripted, or print itself.
    pub(super) fn exec(&self, command: &[String]) -> Exec {
        let echo = || {
            let stdout = format!("{}\n", command.join(" ")).into_bytes();
            Exec { output: ExecOutput { stdout, ..ExecOutput::default() }, ..Exec::default() }
        };
        self.execs.get(command).cloned().unwrap_or_else(echo)
    }

    /// The result of a command in a container, which must run.
    pub(super) fn exec_in(&self, id: &ContainerId, output: ExecOutput) -> Result<ExecOutput, CriError> {
        self.must_run(Operation::ExecSync, id).map(|()| output)
    }

    /// The URL of streams of a container, which must run.
    pub(super) fn streams_of(
        &self,
        operation: Operation,
        id: &ContainerId,
        path: &str,
    ) -> Result<String, CriError> {
        self.must_run(operation, id).map(|()| format!("{}{path}", self.streams))
    }

    fn must_run(&self, operation: Operation, id: &ContainerId) -> Result<(), CriError> {
        match self.containers.get(id).map(|record| &record.life) {
            None => Err(no_container(operation, id)),
            Some(Life::Running { .. }) => Ok(()),
            Some(Life::Created | Life::Exited { .. } | Life::Unknown) => Err(CriError::Failed {
                operation,
                message: format!("failed to exec in container: container \"{id}\" is not running"),
            }),
        }
    }
}
