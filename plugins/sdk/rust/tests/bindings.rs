//! Checks that `src/bindings.rs` is exactly what the generator produces from `wit/`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use wit_bindgen_core::{Files, WorldGenerator, wit_parser::Resolve};
use wit_bindgen_rust::Opts;

#[test]
fn the_committed_bindings_are_those_of_the_contract() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = root.join("src/bindings.rs");
    let generated = generate(&root.join("../../../wit"))?;

    if std::env::var_os("UPDATE_BINDINGS").is_some() {
        std::fs::write(&committed, &generated).context("writing src/bindings.rs")?;
    }
    let found = std::fs::read_to_string(&committed).context("reading src/bindings.rs")?;
    ensure!(
        found == generated,
        "src/bindings.rs does not match wit/: run `UPDATE_BINDINGS=1 cargo test -p pilothouse-sdk --test bindings`"
    );
    Ok(())
}

fn generate(wit: &Path) -> Result<String> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).context("reading wit/")?;
    let world = resolve.select_world(&[package], None)?;

    let mut files = Files::default();
    Opts {
        format: true,
        generate_all: true,
        pub_export_macro: true,
        default_bindings_module: Some("::pilothouse_sdk::bindings".to_owned()),
        additional_derive_attributes: vec!["PartialEq".to_owned(), "Eq".to_owned()],
        ..Opts::default()
    }
    .build()
    .generate(&mut resolve, world, &mut files)?;

    let (_, source) = files.iter().next().context("the generator wrote no file")?;
    Ok(String::from_utf8(source.to_vec())?)
}
