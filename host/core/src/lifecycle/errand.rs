//! What a lifecycle has left to do, and what it waits for an answer to.

use std::collections::VecDeque;

use super::attempt::{Attempt, Ready};
use super::handles::Handles;
use super::plugin_file::FileVersion;
use crate::hub::Quarantine;

/// Something that takes a question or more.
pub(super) enum Errand<H: Handles> {
    /// Replace the running version by the previous one.
    RollBack(String, RollbackCause<H>),
    /// Accept what the first of these versions asks for that is objected to.
    Accept(AcceptErrand<H>, VecDeque<FileVersion<H>>),
    /// Install the version to roll back to, if there is one.
    Back(String),
    /// Give the running version its current settings.
    Again(String),
    /// Install the candidate, if there is one.
    New(String),
    /// Drain the plugins that have turned out to have the name of an earlier file.
    Outranked,
    /// Answer a command with the plugin's state.
    State(StateErrand<H>),
}

pub(super) struct AcceptErrand<H: Handles> {
    pub file: String,
    pub plugin: String,
    pub digest: Option<String>,
    pub reply: H::Reply,
}

pub(super) struct StateErrand<H: Handles> {
    pub reply: H::Reply,
    pub file: String,
    pub plugin: String,
    pub done: Option<String>,
}

/// Why a version is rolled back.
pub(super) enum RollbackCause<H: Handles> {
    Quarantine(Quarantine),
    Command { plugin: String, reply: H::Reply },
}

/// A question that has been asked, and what goes on with the answer.
pub(super) enum OpenQuestion<H: Handles> {
    Attempt(Attempt<H>),
    Install(Ready<H>),
    RollBack(String, RollbackCause<H>),
    Accept(AcceptErrand<H>, FileVersion<H>, VecDeque<FileVersion<H>>),
}
