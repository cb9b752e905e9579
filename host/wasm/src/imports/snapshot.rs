//! Reads from the snapshot. The reader checks permission and records each read. This module
//! translates the types and charges the guest's fuel.

use pilothouse_core::{KeyRef, Kind, ObjectKey, ReadError as CoreReadError, Reader};
use wasmtime::component::LinkerInstance;
use wasmtime::{StoreContextMut, Trap};

use crate::bindings::snapshot::{Query, ReadError};
use crate::bindings::types::ObjectRef;
use crate::convert;
use crate::run::state::StoreState;

type Answer<T> = (Result<T, ReadError>,);

/// Defines the functions by hand, because generated bindings have no access to the fuel.
pub(super) fn define(instance: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    instance.func_wrap("get", |cx, (object,): (ObjectRef,)| {
        let (kind, key) = convert::object_ref(&object)?;
        answer(read(cx, "snapshot.get", |reader| {
            let object = reader.get(&kind, &key)?;
            Ok(object.map(str::to_owned))
        })?)
    })?;
    instance.func_wrap("list", |cx, (query,): (Query,)| {
        let kind: Kind = query.kind.parse()?;
        let filter = convert::filter(query.filter)?;
        answer(read(cx, "snapshot.list", |reader| {
            reader.list(&kind, query.namespace.as_deref(), &filter)
        })?)
    })?;
    instance.func_wrap(
        "list-page",
        |cx, (query, after, limit): (Query, Option<ObjectRef>, u32)| {
            let kind: Kind = query.kind.parse()?;
            let filter = convert::filter(query.filter)?;
            // In a list of one kind, only the key counts.
            let last_kind = match &after {
                Some(after) if kind.is_pattern() => after.kind.parse()?,
                _ => kind.clone(),
            };
            let after = after.as_ref().map(|after| {
                let key = KeyRef {
                    namespace: &after.namespace,
                    name: &after.name,
                };
                (&last_kind, key)
            });
            answer(read(cx, "snapshot.list-page", |reader| {
                reader.list_page(&kind, query.namespace.as_deref(), &filter, after, limit)
            })?)
        },
    )?;
    instance.func_wrap("kinds", |cx, (pattern,): (String,)| {
        let pattern: Kind = pattern.parse()?;
        answer(read(cx, "snapshot.kinds", |reader| {
            let known = reader.kinds(&pattern)?.into_iter();
            Ok(known.map(convert::served_kind).collect::<Vec<_>>())
        })?)
    })
}

/// Reads the object of the key that is reconciled, as the guest itself would.
pub(crate) fn own_object(
    cx: StoreContextMut<'_, StoreState>,
    kind: &Kind,
    key: &ObjectKey,
) -> wasmtime::Result<Option<String>> {
    let object = read(cx, "reconcile", |reader| {
        let object = reader.get(kind, key)?;
        Ok(object.map(str::to_owned))
    })?;
    object.map_err(stopped)
}

/// Makes a read and charges the guest's fuel for it.
fn read<T>(
    mut cx: StoreContextMut<'_, StoreState>,
    import: &str,
    read: impl FnOnce(&mut Reader) -> Result<T, CoreReadError>,
) -> wasmtime::Result<Result<T, CoreReadError>> {
    let left = cx.get_fuel()?;
    let reader = cx.data_mut().reader(import)?;
    reader.set_fuel(left);
    let result = read(reader);
    let left = reader.fuel();
    cx.set_fuel(left)?;
    Ok(result)
}

/// Converts a result for the guest. An error that is a mistake of the plugin's author, or that the
/// guest could not handle, ends the run.
fn answer<T>(result: Result<T, CoreReadError>) -> wasmtime::Result<Answer<T>> {
    match result {
        Ok(found) => Ok((Ok(found),)),
        Err(
            error @ (CoreReadError::Denied(_)
            | CoreReadError::NotGranted(_)
            | CoreReadError::OtherNamespace { .. }
            | CoreReadError::NotOwnNamespace { .. }),
        ) => Ok((Err(ReadError::Denied(error.to_string())),)),
        Err(error @ CoreReadError::Unavailable { .. }) => {
            Ok((Err(ReadError::Unavailable(error.to_string())),))
        }
        Err(error) => Err(stopped(error)),
    }
}

/// The error with which a read ends the run.
fn stopped(error: CoreReadError) -> wasmtime::Error {
    match error {
        CoreReadError::OutOfFuel => Trap::OutOfFuel.into(),
        error => wasmtime::Error::new(error),
    }
}
