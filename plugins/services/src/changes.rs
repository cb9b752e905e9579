//! What is to become of slices.

use pilothouse_sdk::{Action, Create, Delete, ObjectRef, Outcome, Update};

use crate::slice::{SLICES, Slice};

/// Slices by what is to be done with them.
#[derive(Debug, Default)]
pub struct Changes {
    /// Those that are new.
    pub create: Vec<Slice>,
    /// Those that are there, as they should be.
    pub update: Vec<Slice>,
    /// Those that are to go.
    pub delete: Vec<Slice>,
    /// Those that are as they should be.
    pub unchanged: Vec<Slice>,
}

impl Changes {
    /// Adds others.
    pub fn extend(&mut self, other: Self) {
        self.create.extend(other.create);
        self.update.extend(other.update);
        self.delete.extend(other.delete);
        self.unchanged.extend(other.unchanged);
    }

    /// Those that are written anyway.
    pub fn written(&mut self) -> impl Iterator<Item = &mut Slice> {
        self.create.iter_mut().chain(&mut self.update)
    }

    /// Those that are left in the end.
    pub fn left(&self) -> impl Iterator<Item = &Slice> {
        let written = self.create.iter().chain(&self.update);
        written.chain(&self.unchanged)
    }

    /// Also updates those unchanged slices of which this is true, in their order.
    pub fn update_if(&mut self, mut is_wrong: impl FnMut(&Slice) -> bool) {
        let unchanged = std::mem::take(&mut self.unchanged).into_iter();
        let (wrong, right): (Vec<_>, _) = unchanged.partition(|slice| is_wrong(slice));
        self.update.extend(wrong);
        self.unchanged = right;
    }

    /// Takes slices that are to go for those that are to come: an update in place of a create and a
    /// delete. Only what the Service owns, which `is_owned` says: others may be on their way out
    /// with an earlier Service of the name.
    ///
    /// This is an update of what the snapshot shows, of which nothing is left but the name.
    pub fn recycle(&mut self, is_owned: impl Fn(&Slice) -> bool) {
        let creates = std::mem::take(&mut self.create);
        for mut new in creates.into_iter().rev() {
            let is_fit = |old: &Slice| old.address_type == new.address_type && is_owned(old);
            if let Some(place) = self.delete.iter().position(is_fit) {
                let old = self.delete.remove(place);
                new.set_name(old.name());
                self.update.push(new);
            } else {
                self.create.push(new);
            }
        }
        self.create.reverse();
    }

    /// Leaves writes for the next run of the key if the slices have more endpoints than there is
    /// room for, and then also all deletes. The writes that are done run the key again. Returns
    /// whether nothing is left.
    pub fn limit(&mut self, room: &mut usize) -> bool {
        let mut is_complete = true;
        let mut fits = |slice: &Slice| {
            let left = room.checked_sub(slice.endpoints.len());
            is_complete &= left.is_some();
            *room = left.unwrap_or_default();
            left.is_some()
        };
        self.create.retain(&mut fits);
        self.update.retain(fits);
        if !is_complete {
            self.delete.clear();
        }
        is_complete
    }

    /// Adds three stages to an outcome: what is new, what has changed, and what goes. With `always`
    /// the first two are begun whatever has failed before.
    ///
    /// # Errors
    ///
    /// A slice has no JSON form.
    pub fn write(&self, outcome: Outcome, always: bool) -> Result<Outcome, serde_json::Error> {
        let begin = |outcome: Outcome| match always {
            true => outcome.always(),
            false => outcome.stage(),
        };
        let mut creates: Vec<Action> = Vec::new();
        for slice in &self.create {
            creates.push(Create::new(&slice.to_object())?.into());
        }
        let mut updates: Vec<Action> = Vec::new();
        for slice in &self.update {
            updates.push(Update::new(&slice.to_object())?.into());
        }
        let outcome = creates.into_iter().fold(begin(outcome), Outcome::with);
        let outcome = updates.into_iter().fold(begin(outcome), Outcome::with);
        let deletes = self.delete.iter().map(deletion);
        Ok(deletes.fold(outcome.stage(), Outcome::with))
    }
}

/// Deletes a slice, whatever has changed in it.
#[must_use]
pub fn deletion(slice: &Slice) -> Delete {
    let slice_ref = ObjectRef::new(SLICES, slice.namespace(), slice.name());
    Delete::new(&slice_ref).uid(slice.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::Endpoint;

    fn slice(name: &str, address_type: &str) -> Slice {
        let owner = ObjectRef::new("v1/Service", "n", "s");
        let mut slice = Slice::new(&owner, "u", address_type, Vec::new());
        if !name.is_empty() {
            slice.metadata.insert("name".to_owned(), name.into());
        }
        slice
    }

    fn names(slices: &[Slice]) -> Vec<&str> {
        slices.iter().map(Slice::name).collect()
    }

    /// What is left to do after `recycle`: creates, updates, deletes.
    fn recycled(create: usize, delete: &[(&str, &str)]) -> (usize, Vec<String>, Vec<String>) {
        let mut changes = Changes {
            create: vec![slice("", "IPv4"); create],
            delete: delete.iter().map(|(name, of)| slice(name, of)).collect(),
            ..Changes::default()
        };
        changes.recycle(|slice| !slice.name().starts_with("foreign"));
        let owned = |slices: &[Slice]| names(slices).into_iter().map(str::to_owned).collect();
        (
            changes.create.len(),
            owned(&changes.update),
            owned(&changes.delete),
        )
    }

    #[test]
    fn a_slice_that_goes_is_taken_for_one_that_comes() {
        let of = |create, updates: &[&str], deletes: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            (create, owned(updates), owned(deletes))
        };
        let two = &[("a", "IPv4"), ("b", "IPv4")];
        assert_eq!(recycled(1, two), of(0, &["a"], &["b"]));
        assert_eq!(recycled(2, two), of(0, &["a", "b"], &[]));
        assert_eq!(recycled(3, two), of(1, &["a", "b"], &[]));
        assert_eq!(recycled(0, two), of(0, &[], &["a", "b"]));
        let others = &[
            ("foreign", "IPv4"),
            ("six", "IPv6"),
            ("a", "IPv4"),
            ("b", "IPv4"),
        ];
        assert_eq!(recycled(1, others), of(0, &["a"], &["foreign", "six", "b"]));
        assert_eq!(recycled(1, &others[..2]), of(1, &[], &["foreign", "six"]));
    }

    /// The slices that are left to write and to delete, of two with two endpoints that are new, one
    /// with one that has changed, and one that goes; and how much room is left.
    fn limited(mut room: usize) -> (usize, usize, usize, usize) {
        let of = |count: usize| {
            let mut slice = slice("", "IPv4");
            slice.endpoints = vec![Endpoint::default(); count];
            slice
        };
        let mut changes = Changes {
            create: vec![of(2), of(2)],
            update: vec![of(1)],
            delete: vec![of(0)],
            ..Changes::default()
        };
        changes.limit(&mut room);
        let Changes {
            create,
            update,
            delete,
            ..
        } = changes;
        (create.len(), update.len(), delete.len(), room)
    }

    #[test]
    fn what_there_is_no_room_for_waits_and_so_does_what_goes() {
        assert_eq!(limited(6), (2, 1, 1, 1), "all has room");
        assert_eq!(limited(5), (2, 1, 1, 0));
        assert_eq!(limited(4), (2, 0, 0, 0));
        assert_eq!(limited(3), (1, 0, 0, 0), "nothing comes after what waits");
    }
}
