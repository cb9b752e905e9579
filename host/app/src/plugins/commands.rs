//! What an operator tells the running host about one plugin.

use tokio::sync::{mpsc, oneshot};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Run nothing until it is resumed or the host starts again.
    Pause,
    /// Run, unless its settings pause it.
    Resume,
    /// Put the version before in the place of the one that runs.
    Rollback,
    /// Let the version that waits have what it asks for.
    Accept,
}

impl Verb {
    pub fn word(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Rollback => "rollback",
            Self::Accept => "accept",
        }
    }

    pub fn of(word: &str) -> Option<Self> {
        match word {
            "pause" => Some(Self::Pause),
            "resume" => Some(Self::Resume),
            "rollback" => Some(Self::Rollback),
            "accept" => Some(Self::Accept),
            _ => None,
        }
    }
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("there is no plugin {0:?}; there are: {1}")]
    Unknown(String, String),
    #[error("{0}")]
    Impossible(String),
    #[error("the host is stopping")]
    Stopping,
}

/// Says what was done, or why nothing was.
pub type Answer = Result<String, CommandError>;

pub struct Command {
    pub plugin: String,
    pub verb: Verb,
    /// Of the file that is meant, if it is to be that file and no other.
    pub digest: Option<String>,
    pub answer: oneshot::Sender<Answer>,
}

/// Where commands are given.
#[derive(Clone)]
pub struct Commands(mpsc::Sender<Command>);

/// Where they are carried out; a few may wait.
pub fn channel() -> (Commands, mpsc::Receiver<Command>) {
    let (give, take) = mpsc::channel(16);
    (Commands(give), take)
}

impl Commands {
    pub async fn give(&self, plugin: String, verb: Verb, digest: Option<String>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let command = Command {
            plugin,
            verb,
            digest,
            answer,
        };
        let stopping = CommandError::Stopping;
        self.0.send(command).await.map_err(|_| stopping.clone())?;
        answered.await.map_err(|_| stopping)?
    }
}
