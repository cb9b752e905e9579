//! What is to become of slices.

use services::slice::Slice;

/// The slices of a Service of one address type, by what is to be done with them.
#[derive(Debug, Default)]
pub struct Changes {
    pub create: Vec<Slice>,
    pub update: Vec<Slice>,
    pub delete: Vec<Slice>,
    pub unchanged: Vec<Slice>,
}

impl Changes {
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
    pub fn recycle(&mut self, is_owned: impl Fn(&Slice) -> bool) {
        let mut deleted = std::mem::take(&mut self.delete).into_iter();
        while let Some(mut new) = self.create.pop() {
            let is_fit = |old: &Slice| old.address_type == new.address_type && is_owned(old);
            let found = deleted.by_ref().find_map(|old| {
                if is_fit(&old) {
                    return Some(old);
                }
                self.delete.push(old);
                None
            });
            let Some(old) = found else {
                self.create.push(new);
                break;
            };
            new.replace(&old);
            self.update.push(new);
        }
        self.delete.extend(deleted);
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::ObjectRef;

    use super::*;

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
}
