//! One list-watch at work: sends its requests, reads what comes, and keeps what is not in the cache
//! yet. Does not decide what to ask next.

mod alarm;
mod ask;
mod initial;
mod pages;
mod probe_answers;
mod report;
mod requests;
mod stream;
mod unreadable;

pub(crate) use alarm::{Alarm, Listener};
pub(super) use initial::Initial;
#[cfg(test)]
pub(super) use pages::MAX_EMPTY_PAGES;
pub(super) use pages::Pages;
pub(crate) use probe_answers::ProbeAnswers;
pub(super) use report::StateReport;
pub(super) use requests::Requests;
pub(super) use stream::WatchStream;
pub(super) use unreadable::UnreadableObjects;
