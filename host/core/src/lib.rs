//! The decisions of Pilothouse: what should be done, never doing it.
//!
//! Each folder is one step on the way of a change. An object is parsed (`model`) and enters the
//! cache of its kind and the indexes of that cache in one step (`cache`). The change is compared
//! with what every reconcile has read (`reads`), and the keys that it concerns are queued
//! (`queue`). A reconcile gets a frozen [`Snapshot`] through a [`Reader`], which lets it read what
//! it may (`access`) and records each read. The [`Outcome`] that it returns becomes writes
//! (`plan`). [`Hub`] is the one place where all of this meets (`hub`). Which versions of plugins
//! come there, and when they go, [`Lifecycle`] decides (`lifecycle`). Which of several hosts runs
//! which part of them, [`Sharing`] decides on each (`sharing`).
//!
//! Nothing here does I/O, reads a clock or draws a random number. Time comes in as an argument, so
//! every test is exact.
#![deny(missing_docs)]

mod access;
mod cache;
mod hub;
mod leadership;
mod lifecycle;
mod model;
mod plan;
mod queue;
mod reads;
mod sharing;

// What everything is made of.
pub use model::detail::Detail;
pub use model::division::{DividedBy, Division, NotADivision};
pub use model::extent::Extent;
pub use model::fields::FieldPath;
pub use model::informer_key::InformerKey;
pub use model::jitter::Jitter;
pub use model::key::{KeyRef, Kind, KindError, ObjectKey, ResourceVersion};
pub use model::manifest::{
    HOST, IndexDeclaration, Limits, Manifest, ManifestError, ReadDeclaration, Selection, Verb,
    WriteDeclaration, is_dns_label, is_qualified_name,
};
pub use model::namespaces::Namespaces;
pub use model::object::{Object, Schema};
pub use model::outcome::{
    Action, ActionResult, Delete, DeleteAll, Effect, EffectVerb, Event, Failure, FollowUp, NextRun,
    Outcome, PatchType, Propagation, Stage,
};
pub use model::query::{Confirmation, ListFilter};
pub use model::selector::{FieldSelector, LabelSelector, LabelSelectorError, Requirement};
pub use model::served_kind::ServedKind;
pub use model::subject_key::SubjectKey;
pub use model::text;

// What informers bring, and what a reconcile sees of it.
pub use cache::snapshot::{InformerId, Snapshot};
pub use cache::{Cache, Delta, Listing, Subscribed, Subscription, Unreadable};

// What a plugin may read and write.
pub use access::grants::{Granted, Grants, KindName, ReadGrant, WriteGrant};
pub use access::permission::Permissions;
pub use access::scope::{KindScope, Scope, ScopePart};
pub use access::wants::{Wants, reads_secret_values};

// What a reconcile reads, and which keys a change wakes.
pub use reads::ReadSets;
pub use reads::error::ReadError;
pub use reads::fetched::{FetchedObjects, UnwatchedObject};
pub use reads::read::{Filter, Read};
pub use reads::reader::{KnownKind, Reader};
pub use reads::source::{Origin, Source};

// Which key runs next.
pub use queue::backoff::Backoff;
pub use queue::{NORMAL, Priority, Time, WorkQueue};

// From actions to writes.
pub use plan::confirm::{Confirmed, ConfirmedList, ConfirmedObject, ObjectIdentity};
pub use plan::execution::{Executed, Execution, PendingWrite};
pub use plan::unchanged::Applied;
pub use plan::write::{
    Author, MAX_EVENT_NOTE, MAX_EVENT_WORD, Operation, TakenEvent, Write, WriteAnswer,
};
pub use plan::{Halt, Plan, PlanContext, plan};

// Where all of it meets.
pub use hub::doubts::{Doubt, Proof};
pub use hub::duties::{Duties, HeldShards, Relinquish};
pub use hub::plugin::{Plugin, Request, RunError};
pub use hub::{
    BrokenKey, Conclusion, ConfirmAnswers, ConfirmEnd, Confirming, ControllerSettings,
    ControllerStatus, Decision, Exchange, Fetch, Fetching, Finished, Hub, InformerStatus,
    JoinError, LoopingKey, Next, PluginId, Preparation, Purpose, Quarantine, Question, Ran,
    ReadFailure, Reconcile, ReconcileError, Rehearsal, RunningKey, Writing,
};

// Which of several hosts leads.
pub use leadership::{
    Attempt, Election, ElectionNews, ElectionRequest, ElectionSettings, ElectionSettingsError,
    LeaseAnswer, LeaseRecord,
};

// Which versions of plugins come there, and when they go.
pub use lifecycle::command::{CommandAnswer, CommandError, CommandVerb, LifecycleCommand};
pub use lifecycle::effect::{LifecycleEffect, LifecycleQuestion, Notice, VersionInFile};
pub use lifecycle::entry::{PluginEntry, PluginState};
pub use lifecycle::event::{
    Installed, LifecycleAnswer, LifecycleEvent, LoadOutcome, NotAccepted, RunTerms, SeenDirectory,
    SeenFile,
};
pub use lifecycle::handles::{
    DEFAULTS_FILE, Digest, Handles, SettingsHandle, VersionHandle, lack_of_settings,
    settings_file_of,
};
pub use lifecycle::switched_off::called;
pub use lifecycle::{Lifecycle, RECHECK_INTERVAL, lack_of_namespaces, unread_subject};

// How several hosts divide plugins and keys among themselves.
pub use sharing::{
    AssignmentRecord, DutyState, LeaseVersion, MemberId, MemberRecord, NotARecord, NotAShard,
    Offer, Owners, Record, Shard, Sharing, SharingAnswer, SharingCall, SharingEffect, SharingError,
    SharingEvent, SharingGroup, SharingNotice, SharingRequest, StoredRecord,
};
