//! One text, and positions in it.

use std::ops::Range;

use super::ObjectError;

/// The position of a piece of a text, in half the space of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    pub(super) fn new(start: usize, len: usize) -> Result<Self, ObjectError> {
        let end = start.checked_add(len).ok_or(ObjectError::TooLong)?;
        u32::try_from(end).map_err(|_| ObjectError::TooLong)?;
        Ok(Self {
            start: u32::try_from(start).map_err(|_| ObjectError::TooLong)?,
            len: u32::try_from(len).map_err(|_| ObjectError::TooLong)?,
        })
    }

    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// A JSON text under construction. Texts that do not occur in the JSON literally are appended in a
/// tail after it.
pub(super) struct Text<'a> {
    json: &'a str,
    tail: String,
}

impl<'a> Text<'a> {
    pub(super) fn new(json: &'a str) -> Result<Self, ObjectError> {
        Span::new(0, json.len())?;
        Ok(Self {
            json,
            tail: String::new(),
        })
    }

    pub(super) fn json(&self) -> &'a str {
        self.json
    }

    /// Returns the position of a string. If it was borrowed from the JSON it stays there, otherwise
    /// it is appended to the tail.
    pub(super) fn place(&mut self, piece: &str) -> Result<Span, ObjectError> {
        let offset = piece.as_ptr().addr().checked_sub(self.json.as_ptr().addr());
        match offset {
            Some(offset) if offset + piece.len() <= self.json.len() => {
                Span::new(offset, piece.len())
            }
            _ => self.append(|_, tail| {
                tail.push_str(piece);
                Ok(())
            }),
        }
    }

    /// Appends what `write` derives from the JSON, and returns its position.
    pub(super) fn append(
        &mut self,
        write: impl FnOnce(&str, &mut String) -> Result<(), serde_json::Error>,
    ) -> Result<Span, ObjectError> {
        let start = self.tail.len();
        write(self.json, &mut self.tail)?;
        Span::new(self.json.len() + start, self.tail.len() - start)
    }

    /// The text that belongs after the JSON.
    pub(super) fn into_tail(self) -> String {
        self.tail
    }
}
