//! Decides whether a plugin's file may run: its digest must be one that the settings name, if they
//! name any, and it may ask for no more than has been accepted.

mod accepted;

use std::fmt;

use pilothouse_core::{Manifest, NotAccepted, Wants, settings_file_of};

use crate::settings::{GrantSetting, HostDefaults, SettingsFile};

pub use accepted::{AcceptedStore, Verdict, usual_directory};

/// The most requests that one log line names.
const NAMED: usize = 5;

/// A version of a plugin that is about to run.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The file's name.
    pub file: &'a str,
    /// The plugin's name.
    pub name: &'a str,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: &'a str,
    pub manifest: &'a Manifest,
}

/// Why a version waits for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// The settings name other digests.
    Unpinned(String),
    /// It asks for more than has been accepted.
    NotAccepted(NotAccepted),
}

impl Objection {
    /// What it asks for that has not been accepted.
    pub fn more(&self) -> &[String] {
        match self {
            Self::Unpinned(_) => &[],
            Self::NotAccepted(objection) => &objection.more,
        }
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unpinned(reason) => f.write_str(reason),
            Self::NotAccepted(objection) => f.write_str(&objection.reason),
        }
    }
}

/// True if the plugin is granted what an accepted version asked for. False for a `[grants]` table,
/// which is the operator's own decision, and in `dev`, where the person who runs a plugin also
/// writes it.
pub fn is_by_acceptance(settings: &SettingsFile, host: &HostDefaults) -> bool {
    let grants = settings.grants.as_ref().unwrap_or(&host.grants);
    *grants == GrantSetting::AsRequested && !host.accepts_all
}

/// The objection to a version under the current settings, if there is one.
pub fn objection(
    settings: &SettingsFile,
    host: &HostDefaults,
    accepted: &AcceptedStore,
    asked: Asked<'_>,
) -> Option<Objection> {
    if let Some(reason) = unpinned(settings, asked.file, asked.digest) {
        return Some(Objection::Unpinned(reason));
    }
    beyond_accepted(settings, host, accepted, asked).map(Objection::NotAccepted)
}

/// What a version asks for beyond what was accepted, if that matters under the current settings.
pub fn beyond_accepted(
    settings: &SettingsFile,
    host: &HostDefaults,
    accepted: &AcceptedStore,
    asked: Asked<'_>,
) -> Option<NotAccepted> {
    let is_asked = is_by_acceptance(settings, host) && !is_pinned(settings, asked.digest);
    is_asked.then(|| not_accepted(accepted, asked)).flatten()
}

/// True if the settings name this file's digest. Then the operator has accepted all that it asks
/// for.
pub fn is_pinned(settings: &SettingsFile, digest: &str) -> bool {
    let pinned = settings.sha256.as_ref();
    pinned.is_some_and(|pinned| pinned.contains(digest))
}

/// Why a file may not run: the settings name digests, and its own is not among them.
pub fn unpinned(settings: &SettingsFile, file: &str, digest: &str) -> Option<String> {
    let pinned = settings.sha256.as_ref()?;
    let own = settings_file_of(file);
    (!pinned.contains(digest)).then(|| {
        format!(
            "its digest {digest} is not in sha256 of {own}; if it is the file that is meant (see pilothouse check), write it there"
        )
    })
}

/// The objection to a version that asks for more than has been accepted, if it does.
fn not_accepted(accepted: &AcceptedStore, asked: Asked<'_>) -> Option<NotAccepted> {
    let Asked { name, digest, .. } = asked;
    let (more, what) = match accepted.judge(asked, &Wants::of(asked.manifest)) {
        Verdict::First | Verdict::Accepted => return None,
        Verdict::More(more) => {
            let what = format!("it asks for more than was accepted: {}", listed(&more));
            (more, what)
        }
        Verdict::Unreadable(reason) => {
            let what = format!("what was accepted cannot be read: {reason}");
            (Vec::new(), what)
        }
    };
    let reason = format!(
        "{what}. After a look at it (pilothouse check): pilothouse accept {name} --sha256 {digest}"
    );
    Some(NotAccepted { more, reason })
}

fn listed(more: &[String]) -> String {
    let (named, others) = more.split_at(more.len().min(NAMED));
    let mut text = named.join(", ");
    if !others.is_empty() {
        text += &format!(" and {} more, see notAccepted in /plugins", others.len());
    }
    text
}

#[cfg(test)]
mod tests;
