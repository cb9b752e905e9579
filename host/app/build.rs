//! Packs what `pilothouse new` writes: for each language its template, and beside that the SDK, the
//! contract and the guide, taken from this repository. The binary then needs no checkout.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// Files by their path in a new project.
type Files = BTreeMap<String, File>;

/// A file of a new project.
struct File {
    /// The path of the file in this repository that it is taken from.
    from: String,
    text: String,
}

/// Where what a project in Rust depends on is in it. Inside, all is where it is here.
const VENDOR: &str = "vendor/pilothouse/";

/// The crates that a project in Rust depends on.
const CRATES: [&str; 3] = ["host/core", "plugins/sdk/rust", "plugins/sdk/rust-derive"];

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    let projects = [("rust", rust()?), ("python", python()?)];
    for (language, mut files) in projects {
        relink(&mut files);
        let (list, packed) = pack(&files)?;
        fs::write(Path::new(&out).join(format!("{language}.rs")), list)?;
        fs::write(Path::new(&out).join(format!("{language}.zlib")), packed)?;
    }
    Ok(())
}

/// A project in Rust.
fn rust() -> Result<Files, Box<dyn Error>> {
    let mut files = Files::new();
    take(&mut files, "host/app/templates/rust", "")?;
    for krate in CRATES {
        for part in ["Cargo.toml", "src"] {
            let path = format!("{krate}/{part}");
            take(&mut files, &path, &format!("{VENDOR}{path}"))?;
        }
    }
    for path in [
        "LICENSE",
        "docs/plugins.md",
        "plugins/sdk/rust/README.md",
        "wit",
    ] {
        take(&mut files, path, &format!("{VENDOR}{path}"))?;
    }
    let mut manifests = String::new();
    for (path, File { text, .. }) in &mut files {
        if !path.starts_with(VENDOR) {
            continue;
        }
        if path.ends_with(".rs") {
            let code = text.replace("#[cfg(test)]\nmod tests;\n", "");
            *text = code.trim_end().to_owned() + "\n";
        } else if path.ends_with("Cargo.toml") {
            let is_of_tests = |header: &str| matches!(header, "[dev-dependencies]" | "[[bench]]");
            *text = tables(text, |header| !is_of_tests(header));
            manifests += text;
        }
    }
    let manifest = File {
        from: "Cargo.toml".to_owned(),
        text: workspace(&manifests)?,
    };
    files.insert(format!("{VENDOR}Cargo.toml"), manifest);
    Ok(files)
}

/// A project in Python: what it imports is beside its own code.
fn python() -> Result<Files, Box<dyn Error>> {
    let mut files = Files::new();
    for (from, to) in [
        ("host/app/templates/python", ""),
        ("plugins/sdk/python/pilothouse", "pilothouse"),
        ("LICENSE", "pilothouse/LICENSE"),
        ("plugins/sdk/python/README.md", "pilothouse/README.md"),
        ("docs/plugins-python.md", "docs/plugins-python.md"),
        ("wit", "wit"),
    ] {
        take(&mut files, from, to)?;
    }
    Ok(files)
}

/// The manifest of the vendored crates' workspace: what they inherit from this one.
fn workspace(manifests: &str) -> Result<String, Box<dyn Error>> {
    let own = read("Cargo.toml")?;
    let mut text = format!("[workspace]\nresolver = \"3\"\nmembers = {CRATES:?}\n\n");
    text += &tables(&own, |header| header == "[workspace.package]");
    let is_inherited = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default();
        manifests.contains(&format!("\n{name}.workspace = true"))
    };
    text += "[workspace.dependencies]\n";
    let dependencies = tables(&own, |header| header == "[workspace.dependencies]");
    for line in dependencies.lines().filter(is_inherited) {
        writeln!(text, "{line}")?;
    }
    text += "\n";
    let lints = tables(&own, |header| header.starts_with("[workspace.lints."));
    // What stands above the next table.
    for line in lints.lines().filter(|line| !line.starts_with('#')) {
        writeln!(text, "{line}")?;
    }
    Ok(text)
}

/// The tables of a TOML text whose headers are wanted, and what is above the first.
fn tables(text: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut kept = String::new();
    let mut keeps = true;
    for line in text.lines() {
        if line.starts_with('[') {
            keeps = is_wanted(line);
        }
        if keeps {
            kept += line;
            kept += "\n";
        }
    }
    kept
}

/// Takes a file of this repository, or all below a folder of it, but for tests, the data of tests
/// and what tools have left.
fn take(files: &mut Files, from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    let path = from_root(from);
    if !path.is_dir() {
        let file = File {
            from: from.to_owned(),
            text: read(from)?,
        };
        files.insert(to.to_owned(), file);
        return Ok(());
    }
    println!("cargo::rerun-if-changed={}", path.display());
    for entry in fs::read_dir(&path)? {
        let name = entry?.file_name();
        let name = name.to_str().ok_or("a name is not UTF-8")?;
        let is_left_out = match from {
            "wit" => matches!(name, "cases" | "frozen"),
            from if from.starts_with("host/app/templates") => name == "__pycache__",
            _ => matches!(name, "tests" | "tests.rs" | "__pycache__") || name.starts_with('.'),
        };
        if !is_left_out {
            let to = format!("{to}/{name}");
            take(files, &format!("{from}/{name}"), to.trim_start_matches('/'))?;
        }
    }
    Ok(())
}

/// Makes the links of documents lead to where their targets are in the project. A link to what is
/// not in the project becomes plain text.
fn relink(files: &mut Files) {
    let is_document = |path: &str| path.ends_with(".md");
    let places = files
        .iter()
        .map(|(to, file)| (file.from.clone(), to.clone()));
    let places: BTreeMap<String, String> = places.collect();
    for (to, file) in files.iter_mut().filter(|(to, _)| is_document(to)) {
        file.text = relinked(&file.text, &file.from, to, &places);
    }
}

/// A document that is at the path `from` in this repository and at `to` in the project. `places`
/// are the paths of files in the project, by those in this repository.
fn relinked(document: &str, from: &str, to: &str, places: &BTreeMap<String, String>) -> String {
    let (mut text, mut rest) = (String::new(), document);
    while let Some((label, after)) = rest.split_once("](") {
        let Some((link, after)) = after.split_once(')') else {
            break;
        };
        rest = after;
        let (path, heading) = link.split_at(link.find('#').unwrap_or(link.len()));
        let target = normal(&format!("{from}/../{path}"));
        // Others are addresses, headings of the document itself, or the template's own.
        let is_own = !path.is_empty() && from_root(&target).exists();
        match (is_own, places.get(&target), label.rsplit_once('[')) {
            (true, Some(place), _) => {
                text += &format!("{label}]({}{heading})", way(to, place));
            }
            (true, None, Some((before, label))) => text += &format!("{before}{label}"),
            _ => text += &format!("{label}]({link})"),
        }
    }
    text + rest
}

/// The relative path from one file to another.
fn way(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", from.len() - shared - 1);
    let steps: Vec<&str> = up.chain(to[shared..].iter().copied()).collect();
    steps.join("/")
}

/// A path without `..`.
fn normal(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps.join("/")
}

fn read(path: &str) -> Result<String, Box<dyn Error>> {
    let path = from_root(path);
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// A path in this repository.
fn from_root(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The files' names and lengths as a Rust expression, and their texts one after the other.
fn pack(files: &Files) -> Result<(String, Vec<u8>), Box<dyn Error>> {
    let mut list = String::from("&[\n");
    for (path, File { text, .. }) in files {
        writeln!(list, "    ({path:?}, {}),", text.len())?;
    }
    list += "]\n";
    let all: String = files.values().map(|file| file.text.as_str()).collect();
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(all.as_bytes(), 9);
    Ok((list, packed))
}
