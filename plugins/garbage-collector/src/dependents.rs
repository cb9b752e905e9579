//! What an object owns, of whatever kind and in whatever namespace: the references say by which
//! uid.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use pilothouse_sdk::{Failure, Filter, Host};

use crate::item::{self, Item, ItemMetadata};
use crate::{BY_OWNER, EVERY_KIND};

/// How many dependents are looked at together. An owner may have more than fit into memory.
pub const PAGE: u32 = 500;

/// The dependents of the object with this uid, page by page. An object that owns itself is not
/// among them, nor is one of a kind that cannot be deleted.
pub fn pages(owner_uid: &str, host: &dyn Host) -> impl Iterator<Item = Result<Vec<Item>, Failure>> {
    let size = NonZeroU32::new(PAGE).unwrap_or(NonZeroU32::MIN);
    let owned = Filter::index(BY_OWNER, owner_uid);
    let owner_uid = owner_uid.to_owned();
    let mut deletable = Deletable::default();
    let pages = host.pages::<Item>(EVERY_KIND, None, &owned, size);
    pages.map(move |page| {
        let mut dependents = Vec::new();
        for item in page? {
            if item.metadata.always.uid != owner_uid && deletable.has(&item.key().kind, host)? {
                dependents.push(item);
            }
        }
        Ok(dependents)
    })
}

/// Which kinds can be deleted, each asked about once.
#[derive(Default)]
struct Deletable(BTreeMap<String, bool>);

impl Deletable {
    fn has(&mut self, kind: &str, host: &dyn Host) -> Result<bool, Failure> {
        if let Some(known) = self.0.get(kind) {
            return Ok(*known);
        }
        let is_deletable = item::is_deletable(kind, host)?;
        self.0.insert(kind.to_owned(), is_deletable);
        Ok(is_deletable)
    }
}

/// What matters of the dependents of an object that is deleted because its owner is.
#[derive(Clone, Copy, Default)]
pub struct Survey {
    /// There are some.
    pub has_some: bool,
    /// One of them waits until its own dependents are deleted, as in a cycle.
    pub has_waiting: bool,
}

pub fn survey(owner_uid: &str, host: &dyn Host) -> Result<Survey, Failure> {
    let mut survey = Survey::default();
    for page in pages(owner_uid, host) {
        let page = page?;
        survey.has_some |= !page.is_empty();
        let mut metadata = page.iter().map(|item| &item.metadata);
        if metadata.any(ItemMetadata::is_deleting_dependents) {
            survey.has_waiting = true;
            break;
        }
    }
    Ok(survey)
}
