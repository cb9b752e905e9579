//! How much of each object an informer keeps.

/// How much of each object is fetched and kept. An informer uses the most that any of its plugins
/// reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Detail {
    /// `apiVersion`, `kind` and `metadata`: the server is asked for PartialObjectMetadata.
    Metadata,
    /// Everything but `data` and `stringData` (a Secret without its values) and the schemas of a
    /// CustomResourceDefinition, which are most of it and no plugin needs.
    WithoutValues,
    /// Everything.
    #[default]
    Full,
}

impl Detail {
    /// True if this much includes the value at this path of names, given that the object has it.
    pub fn has(self, names: &[&str]) -> bool {
        let first = names.first().copied();
        match self {
            Self::Full => true,
            Self::WithoutValues => !matches!(first, None | Some("data" | "stringData")),
            Self::Metadata => matches!(first, Some("apiVersion" | "kind" | "metadata")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_more() {
        assert!(Detail::Metadata < Detail::WithoutValues);
        assert!(Detail::WithoutValues < Detail::Full);
    }
}
