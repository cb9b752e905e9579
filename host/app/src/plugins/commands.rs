//! The commands that an operator gives the running host about one plugin.

use pilothouse_core::{CommandAnswer, CommandError, CommandVerb};
use tokio::sync::{mpsc, oneshot};

use super::handles::PluginCommand;

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
        let (reply, answered) = oneshot::channel();
        let command = PluginCommand {
            plugin,
            verb,
            digest,
            reply,
        };
        let stopping = CommandError::Stopping;
        self.0.send(command).await.map_err(|_| stopping.clone())?;
        answered.await.map_err(|_| stopping)?
    }
}
