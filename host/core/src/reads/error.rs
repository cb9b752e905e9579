//! Why a read has no answer, and how much one reconcile may read.

use crate::model::key::{Kind, ObjectKey};

/// The maximum number of different reads in one reconcile. A plugin that needs more objects should
/// list them.
pub const MAX_READS: usize = 10_000;

/// The maximum number of bytes of names, selectors and values in the reads of one reconcile.
pub const MAX_READ_BYTES: usize = 1024 * 1024;

/// The maximum number of objects that are fetched for one reconcile because no watch brings them.
/// Each is a request.
pub const MAX_FETCHED: usize = 100;

/// With answers of this many bytes no further such object is fetched for a reconcile. The last
/// answer may go beyond it.
pub const MAX_FETCHED_BYTES: usize = 16 * 1024 * 1024;

/// The maximum number of conditions in one selector.
pub const MAX_CONDITIONS: usize = 100;
/// The maximum number of values in all conditions of one selector.
pub const MAX_VALUES: usize = 1_000;

/// Why a read has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The kind is not among the manifest's reads.
    #[error("{0} is not among the manifest's reads")]
    Denied(Kind),
    /// The operator has not granted reads of this kind.
    #[error("reads of {0} are not granted; the operator grants them in the plugin's settings")]
    NotGranted(Kind),
    /// The manifest does not read the kind in this namespace, or the operator has not granted it
    /// there.
    #[error("the plugin reads {kind} in other namespaces, not in {namespace:?}")]
    OtherNamespace {
        /// The kind that was asked for.
        kind: Kind,
        /// The namespace that was asked for.
        namespace: String,
    },
    /// The plugin's keys are divided by namespace, and this is not a read of the key's own.
    #[error(
        "{kind} can be read in the key's own namespace {own:?} alone, because the plugin's settings divide its keys by namespace"
    )]
    NotOwnNamespace {
        /// The kind that was asked for.
        kind: Kind,
        /// The key's namespace.
        own: String,
    },
    /// Objects of this kind cannot be read now. The kind is read by a pattern, and one kind that
    /// cannot be listed must not stop a plugin that reads them all.
    #[error("{kind} cannot be read now: {reason}")]
    Unavailable {
        /// The kind.
        kind: Kind,
        /// The reason.
        reason: String,
    },
    /// Objects of this kind are not listed yet: it is read by a pattern and was not asked about
    /// before. The guest is stopped, and the key runs again when they are.
    #[error("{0} is not listed yet")]
    NotYet(Kind),
    /// The object is of a kind that can be got and not watched, and was not asked about before. The
    /// guest is stopped, and the key runs again when the object has been fetched.
    #[error("{kind} {key} is not fetched yet")]
    NotFetched {
        /// The object's kind.
        kind: Kind,
        /// The object's key.
        key: ObjectKey,
    },
    /// The reconcile has asked about too many such objects. The guest is stopped.
    #[error("more than {MAX_FETCHED} objects of kinds that cannot be watched, in one reconcile")]
    TooManyFetched,
    /// What has been fetched for the reconcile is too much. The guest is stopped.
    #[error(
        "the objects of kinds that cannot be watched take more than {} MiB in one reconcile; \
         read fewer of them, or name fewer of their fields",
        MAX_FETCHED_BYTES >> 20
    )]
    TooMuchFetched,
    /// A pattern where only a kind can stand. The guest is stopped.
    #[error("{0} is a pattern: it can be listed, and no single object of it be read")]
    Pattern(Kind),
    /// The object, or one of the objects of a list, exists but cannot be read. The guest is
    /// stopped, because no answer would be right.
    #[error("{kind} {key} cannot be read: {reason}")]
    Unreadable {
        /// The object's kind.
        kind: Kind,
        /// The object's key.
        key: ObjectKey,
        /// The reason.
        reason: String,
    },
    /// The manifest does not declare this index.
    #[error("the manifest declares no index {name:?} of {kind}")]
    UnknownIndex {
        /// The name of the index.
        name: String,
        /// The kind of which it was asked.
        kind: Kind,
    },
    /// The reconcile has made more reads than are recorded. The guest is stopped.
    #[error(
        "more than {MAX_READS} different reads, or {MAX_READ_BYTES} bytes of them, in one reconcile"
    )]
    TooMany,
    /// The selector is too large, given that every object is compared with all of it. The guest is
    /// stopped.
    #[error("a selector of more than {MAX_CONDITIONS} conditions, or {MAX_VALUES} values")]
    Selector,
    /// A list is longer than the limit of the reader. The guest is stopped.
    #[error("a list of more than {0} bytes, which is all the memory there is for it")]
    TooLarge(usize),
    /// A page of a list with room for no object. The guest is stopped.
    #[error("list-page with a limit of 0")]
    EmptyPage,
    /// The reads have used all the fuel of the reader. The guest is stopped.
    #[error("all fuel used in a read")]
    OutOfFuel,
}
