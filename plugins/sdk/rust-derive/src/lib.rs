//! The derive macro of `pilothouse-sdk`, which re-exports it. It is a crate of its own because Rust
//! asks that of macros.

mod attributes;
mod expand;
mod rename;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives the fields that a type is decoded from, from its declaration and serde's attributes.
///
/// For a struct with named fields these are the fields of its members, one below the other. An enum
/// is read whole. Every member's type must say which fields it has, too: it derives this, or it is
/// a number, a string, a `serde_json::Value`, or an `Option`, `Box`, `Vec` or map of such a type.
///
/// On the type:
///
/// - `#[projection(kind = "example.com/v1/Widget")]`: its objects are of this kind. The type then
///   implements `Kind`, too.
/// - `#[projection(whole)]`: it is read whole, whatever it consists of. A type that contains itself
///   needs this.
///
/// On a field:
///
/// - `#[projection(whole)]`: it is read whole. Its type need not say which fields it has.
/// - `#[projection(as = Vec<Port>)]`: it is read as this type. For a field that a function decodes
///   (`deserialize_with`), which is otherwise read whole.
///
/// Of serde's attributes, those that change what is read are honoured: `rename`, `rename_all`,
/// `alias`, `flatten`, `skip`, `skip_deserializing`, `with`, `deserialize_with`, `transparent`,
/// `from` and `try_from`.
#[proc_macro_derive(Projection, attributes(projection, serde))]
pub fn derive_projection(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = expand::projection(&input);
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
