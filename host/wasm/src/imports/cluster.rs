//! Reads. The reader decides what is permitted and records what is asked; this only translates.

use pilothouse_core::reader;

use crate::bindings::cluster::{Filter, Host, ReadError};
use crate::bindings::types::{Kind, ObjectKey};
use crate::state::State;

impl Host for State {
    fn get(
        &mut self,
        kind: Kind,
        key: ObjectKey,
    ) -> wasmtime::Result<Result<Option<String>, ReadError>> {
        let object = self.reader("cluster.get")?.get(&kind.into(), &key.into());
        Ok(object
            .map(|object| object.map(str::to_owned))
            .map_err(ReadError::from))
    }

    fn get_part(
        &mut self,
        kind: Kind,
        key: ObjectKey,
        pointer: String,
    ) -> wasmtime::Result<Result<Option<String>, ReadError>> {
        let reader = self.reader("cluster.get-part")?;
        Ok(reader
            .get_part(&kind.into(), &key.into(), &pointer)
            .map_err(ReadError::from))
    }

    fn list(
        &mut self,
        kind: Kind,
        namespace: Option<String>,
        filter: Filter,
    ) -> wasmtime::Result<Result<String, ReadError>> {
        let reader = self.reader("cluster.list")?;
        Ok(reader
            .list(&kind.into(), namespace.as_deref(), &filter.into())
            .map_err(ReadError::from))
    }
}

impl From<Filter> for reader::ListFilter {
    fn from(filter: Filter) -> Self {
        match filter {
            Filter::Everything => Self::Everything,
            Filter::Labels(selector) => Self::Labels(crate::convert::selector(selector)),
            Filter::Index(index) => Self::Index(index.name, index.value),
        }
    }
}

impl From<reader::ReadError> for ReadError {
    fn from(error: reader::ReadError) -> Self {
        let text = error.to_string();
        match error {
            reader::ReadError::Denied(_) => Self::Denied(text),
            reader::ReadError::UnknownIndex { .. } => Self::UnknownIndex(text),
            reader::ReadError::InvalidPointer(_) => Self::InvalidPointer(text),
        }
    }
}
