//! Objects of the fake cluster as types.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::FakeCluster;
use crate::{Kind, ObjectRef};

impl FakeCluster {
    /// The whole object of `T`'s kind that has this namespace and name, as it is stored.
    ///
    /// # Panics
    ///
    /// It cannot be decoded as `T`.
    #[must_use]
    pub fn object_as<T: Kind + DeserializeOwned>(&self, namespace: &str, name: &str) -> Option<T> {
        let object = ObjectRef::new(T::KIND, namespace, name);
        let decode = |stored: &Value| {
            let decoded = T::deserialize(stored);
            decoded.unwrap_or_else(|error| panic!("{object}: {error}"))
        };
        self.object(&object).map(decode)
    }
}
