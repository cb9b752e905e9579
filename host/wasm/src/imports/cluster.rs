//! Reads from the snapshot. The reader checks permission and records each read. This module
//! translates the types and charges the guest's fuel.

use pilothouse_core::{ListFilter, ReadError as CoreReadError, Reader};
use wasmtime::component::LinkerInstance;
use wasmtime::{StoreContextMut, Trap};

use crate::bindings::cluster::{Filter, ReadError};
use crate::bindings::types::{Kind, ObjectKey};
use crate::run::state::StoreState;

type Answer<T> = (Result<T, ReadError>,);

/// Defines the functions by hand, because generated bindings have no access to the fuel.
pub(super) fn define(instance: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    instance.func_wrap("get", |cx, (kind, key): (Kind, ObjectKey)| {
        read(cx, "cluster.get", |reader| {
            let object = reader.get(&kind.into(), &key.into())?;
            Ok(object.map(str::to_owned))
        })
    })?;
    instance.func_wrap(
        "get-part",
        |cx, (kind, key, pointer): (Kind, ObjectKey, String)| {
            read(cx, "cluster.get-part", |reader| {
                reader.get_part(&kind.into(), &key.into(), &pointer)
            })
        },
    )?;
    instance.func_wrap(
        "list",
        |cx, (kind, namespace, filter): (Kind, Option<String>, Filter)| {
            read(cx, "cluster.list", |reader| {
                reader.list(&kind.into(), namespace.as_deref(), &filter.into())
            })
        },
    )
}

/// Makes a read and charges the guest's fuel for it.
fn read<T>(
    mut cx: StoreContextMut<'_, StoreState>,
    import: &str,
    read: impl FnOnce(&mut Reader) -> Result<T, CoreReadError>,
) -> wasmtime::Result<Answer<T>> {
    let left = cx.get_fuel()?;
    let reader = cx.data_mut().reader(import)?;
    reader.set_fuel(left);
    let result = read(reader);
    let left = reader.fuel();
    cx.set_fuel(left)?;
    answer(result)
}

/// Converts a result for the guest. Errors that the guest cannot handle end the run instead: no
/// fuel left, too many or too large reads, a selector that is too large, an object that the host
/// cannot read.
fn answer<T>(result: Result<T, CoreReadError>) -> wasmtime::Result<Answer<T>> {
    let error = match result {
        Ok(found) => return Ok((Ok(found),)),
        Err(error) => error,
    };
    let text = error.to_string();
    Ok((Err(match error {
        CoreReadError::Denied(_)
        | CoreReadError::NotGranted(_)
        | CoreReadError::OtherNamespace { .. } => ReadError::Denied(text),
        CoreReadError::UnknownIndex { .. } => ReadError::UnknownIndex(text),
        CoreReadError::InvalidPointer(_) => ReadError::InvalidPointer(text),
        CoreReadError::OutOfFuel => return Err(Trap::OutOfFuel.into()),
        CoreReadError::TooMany
        | CoreReadError::TooLarge(_)
        | CoreReadError::Selector
        | CoreReadError::Unreadable { .. } => return Err(wasmtime::Error::new(error)),
    }),))
}

impl From<Filter> for ListFilter {
    fn from(filter: Filter) -> Self {
        match filter {
            Filter::Everything => Self::Everything,
            Filter::Labels(selector) => Self::Labels(crate::convert::selector(selector)),
            Filter::Index(index) => Self::Index(index.name, index.value),
        }
    }
}
