//! What the attributes of a type and of its fields say, serde's and this macro's own.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Field, Lit, LitStr, Result, Token, Type, parenthesized, token};

use crate::rename::rename;

/// What the attributes of a type say.
#[derive(Default)]
pub(crate) struct TypeAttributes {
    /// The kind of its objects.
    pub kind: Option<LitStr>,
    /// It is read whole.
    pub whole: bool,
    /// It is decoded by way of this type.
    pub from: Option<Type>,
    /// It is decoded as its only field is.
    pub transparent: bool,
    rename_all: Option<LitStr>,
}

impl TypeAttributes {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut read = Self::default();
        each(attributes, "projection", |meta| read.projection(meta))?;
        each(attributes, "serde", |meta| read.serde(meta))?;
        Ok(read)
    }

    fn projection(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("whole") {
            self.whole = true;
        } else if meta.path.is_ident("kind") {
            self.kind = Some(kind(meta.value()?.parse()?)?);
        } else {
            return Err(
                meta.error("a type has #[projection(kind = \"…\")] or #[projection(whole)]")
            );
        }
        Ok(())
    }

    fn serde(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("rename_all") {
            self.rename_all = name_read(meta)?;
        } else if meta.path.is_ident("transparent") {
            self.transparent = true;
        } else if meta.path.is_ident("from") || meta.path.is_ident("try_from") {
            self.from = Some(meta.value()?.parse::<LitStr>()?.parse()?);
        } else {
            pass_over(meta)?;
        }
        Ok(())
    }
}

/// What the attributes of a field say.
#[derive(Default)]
pub(crate) struct FieldAttributes {
    /// It is not decoded.
    pub skip: bool,
    /// Its fields are those of the type itself.
    pub flatten: bool,
    /// It is read whole.
    pub whole: bool,
    /// It is read as this type.
    pub as_type: Option<Type>,
    name: Option<LitStr>,
    aliases: Vec<LitStr>,
}

impl FieldAttributes {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut read = Self::default();
        let mut by_function = false;
        each(attributes, "projection", |meta| read.projection(meta))?;
        each(attributes, "serde", |meta| {
            by_function |= meta.path.is_ident("with") || meta.path.is_ident("deserialize_with");
            read.serde(meta)
        })?;
        // What a function reads cannot be seen.
        read.whole |= by_function && read.as_type.is_none();
        Ok(read)
    }

    fn projection(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("whole") {
            self.whole = true;
        } else if meta.path.is_ident("as") {
            self.as_type = Some(meta.value()?.parse()?);
        } else {
            return Err(meta.error("a field has #[projection(whole)] or #[projection(as = Type)]"));
        }
        Ok(())
    }

    fn serde(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("rename") {
            self.name = name_read(meta)?;
        } else if meta.path.is_ident("alias") {
            self.aliases.push(meta.value()?.parse()?);
        } else if meta.path.is_ident("skip") || meta.path.is_ident("skip_deserializing") {
            self.skip = true;
        } else if meta.path.is_ident("flatten") {
            self.flatten = true;
        } else {
            pass_over(meta)?;
        }
        Ok(())
    }

    /// The names under which the field is looked for.
    pub(crate) fn names(&self, field: &Field, of: &TypeAttributes) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.aliases.iter().map(LitStr::value).collect();
        names.insert(0, self.name(field, of)?);
        if names
            .iter()
            .any(|name| name.is_empty() || name.contains("']"))
        {
            let message = "no field path has an empty name, or one with ']: \
                           add #[projection(whole)] to the type";
            return Err(Error::new_spanned(field, message));
        }
        Ok(names)
    }

    fn name(&self, field: &Field, of: &TypeAttributes) -> Result<String> {
        if let Some(name) = &self.name {
            return Ok(name.value());
        }
        let name = field.ident.as_ref().map(|ident| ident.unraw().to_string());
        let name = name.unwrap_or_default();
        let Some(rule) = &of.rename_all else {
            return Ok(name);
        };
        let unknown = || Error::new_spanned(rule, "serde has no such rule for names");
        rename(&rule.value(), &name).ok_or_else(unknown)
    }
}

/// Calls `read` for each part of the attributes of this name.
fn each(
    attributes: &[Attribute],
    name: &str,
    mut read: impl FnMut(&ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    for attribute in attributes {
        if attribute.path().is_ident(name) {
            attribute.parse_nested_meta(|meta| read(&meta))?;
        }
    }
    Ok(())
}

/// The text of `rename = "…"`, or of `rename(deserialize = "…")`. `None`: it is about writing.
fn name_read(meta: &ParseNestedMeta<'_>) -> Result<Option<LitStr>> {
    if meta.input.peek(Token![=]) {
        return meta.value()?.parse().map(Some);
    }
    let mut name = None;
    meta.parse_nested_meta(|nested| {
        let text = nested.value()?.parse()?;
        if nested.path.is_ident("deserialize") {
            name = Some(text);
        }
        Ok(())
    })?;
    Ok(name)
}

/// Passes over an attribute that does not change what is read.
fn pass_over(meta: &ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<Lit>()?;
    } else if meta.input.peek(token::Paren) {
        let content;
        parenthesized!(content in meta.input);
        content.parse::<TokenStream>()?;
    }
    Ok(())
}

/// Checks a kind as the manifest's schema does: `[group/]version/kind`.
fn kind(text: LitStr) -> Result<LitStr> {
    let value = text.value();
    let parts: Vec<&str> = value.split('/').collect();
    if matches!(parts.len(), 2 | 3) && parts.iter().all(|part| !part.is_empty()) {
        return Ok(text);
    }
    let message = format!("{value:?} is no kind: write example.com/v1/Widget or v1/ConfigMap");
    Err(Error::new_spanned(&text, message))
}
