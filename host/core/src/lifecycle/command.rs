//! The commands that an operator gives about one plugin.

use super::handles::Handles;

/// What an operator can ask for.
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
    /// The word for it in the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Rollback => "rollback",
            Self::Accept => "accept",
        }
    }

    /// The verb with this word.
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
    /// No plugin has this name. Those that there are come second.
    #[error("there is no plugin {0:?}; there are: {1}")]
    Unknown(String, String),
    /// The plugin cannot do it now, with the reason.
    #[error("{0}")]
    Impossible(String),
    /// The host takes no commands any more.
    #[error("the host is stopping")]
    Stopping,
}

/// What was done, or why nothing was.
pub type CommandAnswer = Result<String, CommandError>;

/// A command about one plugin.
pub struct LifecycleCommand<H: Handles> {
    /// The name of the plugin, or of its file without `.wasm`.
    pub plugin: String,
    /// What is asked for.
    pub verb: CommandVerb,
    /// The digest of the file that is meant. `None` if the command is for any file.
    pub digest: Option<String>,
    /// Where it is answered.
    pub reply: H::Reply,
}
