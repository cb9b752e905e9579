//! The code that the macro stands for.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Generics, Result, Type, parse_quote};

use crate::attributes::{FieldAttributes, TypeAttributes};

/// The implementations for a type.
pub(crate) fn projection(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = TypeAttributes::read(&input.attrs)?;
    let shape = shape_of_type(input, &attributes)?;
    let name = &input.ident;
    let generics = bounded(input.generics.clone());
    let (impl_generics, type_generics, bounds) = generics.split_for_impl();
    let kind = attributes.kind.as_ref().map(|kind| {
        quote! {
            #[automatically_derived]
            impl #impl_generics ::pilothouse_sdk::Kind for #name #type_generics #bounds {
                const KIND: &'static str = #kind;
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::pilothouse_sdk::Projection for #name #type_generics #bounds {
            const SHAPE: ::pilothouse_sdk::Shape = #shape;
        }
        #kind
    })
}

/// A type parameter must have a shape of its own.
fn bounded(mut generics: Generics) -> Generics {
    for parameter in generics.type_params_mut() {
        parameter
            .bounds
            .push(parse_quote!(::pilothouse_sdk::Projection));
    }
    generics
}

fn shape_of_type(input: &DeriveInput, attributes: &TypeAttributes) -> Result<TokenStream> {
    if attributes.whole {
        return Ok(whole());
    }
    if let Some(from) = &attributes.from {
        return Ok(shape_of(from));
    }
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        // Which of its variants an object has is not known before it is read.
        Data::Enum(_) => return Ok(whole()),
        Data::Union(_) => return Err(Error::new_spanned(input, "a union cannot be decoded")),
    };
    match fields {
        Fields::Named(_) => members(fields, input, attributes),
        Fields::Unnamed(unnamed) if unnamed.unnamed.len() == 1 => {
            let field = &unnamed.unnamed[0];
            let read = FieldAttributes::read(&field.attrs)?;
            shape_of_field(field, &read, &input.ident)
        }
        // An array of values that differ.
        Fields::Unnamed(_) => Ok(whole()),
        Fields::Unit => Err(nothing(&input.ident)),
    }
}

/// The shape of a struct with named fields.
fn members(
    fields: &Fields,
    input: &DeriveInput,
    attributes: &TypeAttributes,
) -> Result<TokenStream> {
    let mut members = Vec::new();
    for field in fields {
        let read = FieldAttributes::read(&field.attrs)?;
        if read.skip {
            continue;
        }
        let shape = shape_of_field(field, &read, &input.ident)?;
        if attributes.transparent {
            return Ok(shape);
        }
        if read.flatten {
            members.push(quote!(::pilothouse_sdk::Member::Flat(#shape)));
            continue;
        }
        for name in read.names(field, attributes)? {
            members.push(quote!(::pilothouse_sdk::Member::Named(#name, #shape)));
        }
    }
    if members.is_empty() {
        return Err(nothing(&input.ident));
    }
    Ok(quote!(::pilothouse_sdk::Shape::Members(&[#(#members),*])))
}

fn shape_of_field(field: &Field, read: &FieldAttributes, of: &Ident) -> Result<TokenStream> {
    if read.whole {
        return Ok(whole());
    }
    let read_as = read.as_type.as_ref().unwrap_or(&field.ty);
    if mentions(read_as.to_token_stream(), of) {
        let message = format!(
            "{of} contains itself, so its fields cannot be listed: \
             add #[projection(whole)] to this field"
        );
        return Err(Error::new_spanned(read_as, message));
    }
    Ok(shape_of(read_as))
}

/// The shape of another type. An error about it is shown at its name.
fn shape_of(other: &Type) -> TokenStream {
    quote_spanned!(other.span()=> <#other as ::pilothouse_sdk::Projection>::SHAPE)
}

fn whole() -> TokenStream {
    quote!(::pilothouse_sdk::Shape::Whole)
}

fn nothing(name: &Ident) -> Error {
    let message = format!(
        "{name} has no fields, so nothing would be read: \
         give it a field, or add #[projection(whole)]"
    );
    Error::new_spanned(name, message)
}

fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name || ident == "Self",
        TokenTree::Group(group) => mentions(group.stream(), name),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(input: &DeriveInput) -> String {
        let expanded = projection(input);
        expanded.map_or_else(|error| error.to_string(), |code| code.to_string())
    }

    #[test]
    fn what_cannot_be_derived_says_what_to_write() {
        let whole = "add #[projection(whole)]";
        for (input, wanted) in [
            (
                parse_quote!(
                    struct A;
                ),
                whole,
            ),
            (
                parse_quote!(
                    struct A {}
                ),
                "A has no fields",
            ),
            (
                parse_quote!(
                    struct A {
                        #[serde(skip)]
                        a: u8,
                    }
                ),
                "A has no fields",
            ),
            (
                parse_quote!(
                    struct A {
                        a: Option<Box<A>>,
                    }
                ),
                "A contains itself",
            ),
            (
                parse_quote!(
                    struct A {
                        a: Vec<Option<Self>>,
                    }
                ),
                whole,
            ),
            (parse_quote!(union A { a: u8 }), "a union cannot be decoded"),
            (
                parse_quote!(
                    struct A {
                        #[serde(rename = "a']b")]
                        a: u8,
                    }
                ),
                whole,
            ),
            (
                parse_quote!(
                    #[projection(kind = "Widget")]
                    struct A {
                        a: u8,
                    }
                ),
                "\"Widget\" is no kind: write example.com/v1/Widget",
            ),
            (
                parse_quote!(
                    #[projection(kind = "example.com//Widget")]
                    struct A {
                        a: u8,
                    }
                ),
                "is no kind",
            ),
            (
                parse_quote!(
                    #[projection(name = "x")]
                    struct A {
                        a: u8,
                    }
                ),
                "a type has #[projection(kind",
            ),
            (
                parse_quote!(
                    struct A {
                        #[projection(kind = "v1/Pod")]
                        a: u8,
                    }
                ),
                "a field has #[projection(whole)]",
            ),
            (
                parse_quote!(
                    #[serde(rename_all = "Camel")]
                    struct A {
                        a: u8,
                    }
                ),
                "serde has no such rule",
            ),
        ] {
            let message = error(&input);
            assert!(message.contains(wanted), "{message:?} has no {wanted:?}");
        }
    }

    #[test]
    fn attributes_that_change_nothing_are_passed_over() {
        let plain = error(&parse_quote!(
            struct A {
                a: u8,
            }
        ));
        let input: DeriveInput = parse_quote! {
            #[serde(default, deny_unknown_fields, bound(deserialize = "u8: Copy"), crate = "serde")]
            struct A {
                #[serde(default = "one", skip_serializing_if = "is_one", rename(serialize = "b"))]
                a: u8,
            }
        };
        assert_eq!(error(&input), plain);
    }
}
