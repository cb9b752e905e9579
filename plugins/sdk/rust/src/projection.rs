//! Types that objects are decoded as: of which kind they are, and which fields they have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Number, Value};

/// A type that stands for the objects of one kind, so that the kind is written once.
///
/// `#[derive(Projection)]` with `#[projection(kind = "…")]` implements it, and with the feature
/// `k8s-openapi` every kind of that crate has it. Other types implement it by hand:
///
/// ```
/// use pilothouse_sdk::Kind;
///
/// struct Widget;
///
/// impl Kind for Widget {
///     const KIND: &'static str = "example.com/v1/Widget";
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say of which kind it is",
    note = "derive `Projection` for it, with `#[projection(kind = \"example.com/v1/Widget\")]`",
    note = "types of k8s-openapi need pilothouse-sdk's feature `k8s-openapi`"
)]
pub trait Kind {
    /// The kind, as `apps/v1/Deployment`.
    const KIND: &'static str;
}

/// A type that says which fields of an object it is decoded from, so that a manifest declares what
/// is read, neither more nor less.
///
/// The derive takes the names from the declaration and serde's attributes:
///
/// ```
/// use std::collections::BTreeMap;
///
/// use pilothouse_sdk::{Kind, Manifest, Metadata, Projection, Selection};
/// use serde::Deserialize;
///
/// #[derive(Deserialize, Projection)]
/// #[projection(kind = "example.com/v1/Widget")]
/// struct Widget {
///     metadata: WidgetMetadata,
///     spec: Spec,
/// }
///
/// #[derive(Deserialize, Projection)]
/// struct WidgetMetadata {
///     #[serde(flatten)]
///     always: Metadata,
///     #[serde(default)]
///     labels: BTreeMap<String, String>,
/// }
///
/// #[derive(Deserialize, Projection)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec {
///     max_size: Option<u32>,
///     #[serde(default)]
///     items: Vec<Item>,
/// }
///
/// #[derive(Deserialize, Projection)]
/// struct Item {
///     name: String,
/// }
///
/// assert_eq!(Widget::KIND, "example.com/v1/Widget");
/// assert_eq!(
///     Widget::fields(),
///     [".metadata.labels", ".spec.maxSize", ".spec.items[*].name"],
/// );
/// let manifest = Manifest::new("widgets", "1.0.0", Selection::of(Widget::KIND))
///     .reads_as::<Widget>();
/// assert_eq!(manifest.reads[0].fields, Widget::fields());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which fields it has",
    note = "derive `Projection` for it; of maps there is BTreeMap, because a reconcile must be pure",
    note = "or add `#[projection(whole)]` to the field of this type, to read all of it"
)]
pub trait Projection {
    /// The fields, as a tree.
    const SHAPE: Shape;

    /// The fields as a manifest lists them: `.spec.items[*].name`. Empty: the whole object.
    ///
    /// Those that are there whatever a manifest names ([`Metadata`](crate::Metadata)) are left
    /// out, unless there are no others.
    #[must_use]
    fn fields() -> Vec<String> {
        let mut all = Vec::new();
        Self::SHAPE.add_paths("", &mut all);
        let is_declared = |path: &&String| {
            let mut others = all.iter();
            !ALWAYS.contains(&path.as_str()) && !others.any(|other| is_below(path, other))
        };
        let mut fields: Vec<String> = Vec::new();
        for path in all.iter().filter(is_declared) {
            if !fields.contains(path) {
                fields.push(path.clone());
            }
        }
        if fields.is_empty() {
            // An empty list would stand for the whole object.
            fields.push(ALWAYS[0].to_owned());
        }
        fields.retain(|path| !path.is_empty());
        fields
    }
}

/// What every view has.
const ALWAYS: [&str; 4] = [
    ".metadata.name",
    ".metadata.namespace",
    ".metadata.uid",
    ".metadata.deletionTimestamp",
];

/// Which part of a JSON value a type is decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All of it.
    Whole,
    /// This part of every element of an array, or of every value of a map.
    Each(&'static Shape),
    /// These members of an object.
    Members(&'static [Member]),
}

/// A part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// This part of the member of this name.
    Named(&'static str, Shape),
    /// This part of the object itself (`#[serde(flatten)]`).
    Flat(Shape),
}

impl Shape {
    fn add_paths(&self, at: &str, paths: &mut Vec<String>) {
        match self {
            Self::Whole => paths.push(at.to_owned()),
            Self::Each(shape) => shape.add_paths(&format!("{at}[*]"), paths),
            Self::Members(members) => {
                for member in *members {
                    match member {
                        Member::Named(name, shape) => shape.add_paths(&step(at, name), paths),
                        Member::Flat(shape) => shape.add_paths(at, paths),
                    }
                }
            }
        }
    }

    /// The shape of a list or map of values of this shape.
    const fn each(&'static self) -> Self {
        match self {
            Self::Whole => Self::Whole,
            _ => Self::Each(self),
        }
    }
}

fn step(at: &str, name: &str) -> String {
    if name.contains(['.', '[', '/']) {
        format!("{at}['{name}']")
    } else {
        format!("{at}.{name}")
    }
}

/// True if what `path` leads to is a part of what `other` leads to.
fn is_below(path: &str, other: &str) -> bool {
    let rest = path.strip_prefix(other);
    rest.is_some_and(|rest| rest.starts_with(['.', '[']))
}

macro_rules! whole {
    ($($leaf:ty),*) => {
        $(impl Projection for $leaf {
            const SHAPE: Shape = Shape::Whole;
        })*
    };
}
#[cfg(feature = "k8s-openapi")]
pub(crate) use whole;

whole!(
    bool,
    char,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    isize,
    usize,
    f32,
    f64,
    String,
    Number,
    Value,
    Map<String, Value>,
    crate::Condition,
    crate::IntOrString,
    crate::LabelSelector,
    crate::MicroTime,
    crate::Quantity,
    crate::Time
);

macro_rules! same {
    ($($holder:ident),*) => {
        $(impl<T: Projection> Projection for $holder<T> {
            const SHAPE: Shape = T::SHAPE;
        })*
    };
}

same!(Option, Box);

impl<T: Projection> Projection for Vec<T> {
    const SHAPE: Shape = Shape::each(&T::SHAPE);
}

impl<T: Projection> Projection for BTreeSet<T> {
    const SHAPE: Shape = Shape::each(&T::SHAPE);
}

impl<K, V: Projection> Projection for BTreeMap<K, V> {
    const SHAPE: Shape = Shape::each(&V::SHAPE);
}
