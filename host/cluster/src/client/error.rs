//! Why a request has no usable answer, each reason as one line.
//!
//! Nothing here repeats a request. That is decided by code that knows what the request does: a
//! watch resumes, a list starts over, and a write is almost never repeated.

use std::error::Error as _;
use std::time::Duration;

use super::status::Status;
use pilothouse_core::text::cut_line;

/// Why a request has no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The server refused it.
    #[error("{0}")]
    Status(Box<Status>),
    /// The request did not reach the server, or the answer did not reach us.
    #[error("{}", one_line(.0))]
    Transport(#[source] kube::Error),
    /// It was not sent: another host may have the right to write by now.
    #[error("not sent: this host does not have the right to write")]
    NoRight,
    /// No complete answer within the deadline.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Deadline(Duration),
    /// The answer is larger than the limit, in bytes.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The answer does not have the form expected for this request.
    #[error("the answer cannot be read: {0}")]
    Answer(#[source] serde_json::Error),
}

impl RequestError {
    /// The refusal, if the server sent one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The HTTP status code of the refusal, if the server sent one.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }
}

/// A kube error together with its causes. Its own text only names the layer; "connection refused"
/// is hidden three causes down.
pub(crate) fn one_line(error: &kube::Error) -> String {
    let mut line = String::new();
    let mut cause = error.source().or(Some(error));
    while let Some(error) = cause {
        let text = error.to_string();
        // hyper's label for the step that failed; the next cause tells what went wrong.
        let is_label = text.starts_with("client error (") && error.source().is_some();
        if !is_label && !line.contains(&text) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&text);
        }
        cause = error.source();
    }
    cut_line(&line, 500)
}
