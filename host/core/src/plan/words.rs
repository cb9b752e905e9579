//! Who may see the server's own words about a write.
//!
//! A refusal quotes the object: `Invalid value: "..."` can be something that others have put there,
//! or something that a JSON Patch has copied from another place. So a plugin sees the words only
//! for objects that it reads whole, and for those that it creates, of which it has written all; and
//! the log does not see them for a Secret that the plugin does not read whole. Everyone else sees
//! only the kind of refusal and its status.

use crate::model::outcome::ActionResult;
use crate::plan::write::{Operation, Write};
use crate::reads::reader::Reader;

/// Who may see the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// The plugin and the log.
    Plugin,
    /// The log: its reader has to fix what is refused.
    Operator,
    Nobody,
}

impl Audience {
    /// For an Event, and for an object that is created, the answer only quotes what the plugin
    /// itself has written. A create of a subresource is about an object that others have written.
    pub fn of(write: &Write, reader: &Reader) -> Self {
        let Write { kind, key, .. } = write;
        let is_its_own = match write.operation {
            Operation::Event { .. } => true,
            Operation::Create { .. } => write.subresource.is_none() && !kind.is_secret(),
            _ => false,
        };
        if is_its_own || reader.shows(kind, key, &[]) {
            Self::Plugin
        } else if kind.is_secret() {
            Self::Nobody
        } else {
            Self::Operator
        }
    }

    /// `status` comes from the [`WriteAnswer`](crate::plan::write::WriteAnswer).
    pub fn hear(self, result: ActionResult, status: Option<String>) -> Heard {
        let bare = status.map(|status| {
            result.clone().saying(format!(
                "{status}; what else the server says may quote the object, which the plugin does not read whole"
            ))
        });
        let bare = bare.unwrap_or_else(|| result.clone());
        match self {
            Self::Plugin => Heard {
                plugin: result.clone(),
                operator: result,
            },
            Self::Operator => Heard {
                plugin: bare,
                operator: result,
            },
            Self::Nobody => Heard {
                plugin: bare.clone(),
                operator: bare,
            },
        }
    }
}

/// The result of a write, in the words that each audience may see.
pub(super) struct Heard {
    pub plugin: ActionResult,
    pub operator: ActionResult,
}
