//! Who hears what a server says of a write in its own words.
//!
//! A refusal quotes the object as it is: `Invalid value: "..."` can be what somebody else has put there, or what a JSON Patch has
//! copied from another place. So a plugin hears the words only of objects that it reads whole, and the log none of a Secret that the
//! plugin does not. All others hear of what sort the refusal is, and its status.

use crate::cluster::{Operation, Write};
use crate::outcome::ActionResult;
use crate::reader::Reader;

/// Who hears the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// The plugin, and the log.
    Plugin,
    /// The log: its reader is to mend what is refused.
    Operator,
    Nobody,
}

impl Audience {
    /// What is said of an Event is of what the plugin itself has written.
    pub fn of(write: &Write, reader: &Reader) -> Self {
        let Write { kind, key, .. } = write;
        if matches!(write.operation, Operation::Event { .. }) || reader.shows(kind, key, &[]) {
            Self::Plugin
        } else if kind.is_secret() {
            Self::Nobody
        } else {
            Self::Operator
        }
    }

    /// `status` is the [`Answer`](crate::cluster::Answer)'s.
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

/// What became of a write, in the words that each may hear.
pub(super) struct Heard {
    pub plugin: ActionResult,
    pub operator: ActionResult,
}
