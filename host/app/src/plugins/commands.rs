//! The commands that an operator gives the running host about one plugin.

use tokio::sync::{mpsc, oneshot};

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandVerb {
    /// Run nothing until the plugin is resumed or the host restarts.
    Pause,
    /// Run again, unless the plugin's settings pause it.
    Resume,
    /// Swap the running version for the previous one.
    Rollback,
    /// Accept what the waiting version asks for.
    Accept,
}

impl CommandVerb {
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

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("there is no plugin {0:?}; there are: {1}")]
    Unknown(String, String),
    #[error("{0}")]
    Impossible(String),
    #[error("the host is stopping")]
    Stopping,
}

/// What was done, or why nothing was.
pub type CommandAnswer = Result<String, CommandError>;

/// A command about one plugin, and where its answer is sent.
pub struct PluginCommand {
    pub plugin: String,
    pub verb: CommandVerb,
    /// The digest of the file that is meant. `None` if the command is for any file.
    pub digest: Option<String>,
    pub answer: oneshot::Sender<CommandAnswer>,
}

/// The sending side, for those that give commands.
#[derive(Clone)]
pub struct Commands(mpsc::Sender<PluginCommand>);

/// A channel for commands. A few may wait in it to be carried out.
pub fn channel() -> (Commands, mpsc::Receiver<PluginCommand>) {
    let (give, take) = mpsc::channel(16);
    (Commands(give), take)
}

impl Commands {
    pub async fn give(
        &self,
        plugin: String,
        verb: CommandVerb,
        digest: Option<String>,
    ) -> CommandAnswer {
        let (answer, answered) = oneshot::channel();
        let command = PluginCommand {
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
