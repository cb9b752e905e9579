//! A look at a file's bytes before anything is built of them: what it is, what it is linked to, and whether compiling it would be
//! cheap. Upstream does not count slow compilation as a fault, so what makes it slow is refused here.

use wasmparser::{ComponentExternalKind, ComponentTypeRef, Encoding, Parser, Payload, TypeBounds};

/// The largest file. componentize-py's is 18 MB.
const FILE_BYTES: usize = 64 << 20;
/// The largest function body. Compile time grows faster than a function does: one of 1.8 MiB took 20 s and 281 MiB.
const FUNCTION_BYTES: usize = 512 << 10;
/// Functions in all modules together. Python has some 20,000.
const FUNCTIONS: usize = 200_000;
/// Modules and components inside one file, whatever the depth.
const NESTED: usize = 256;
/// A core module carries the world it was built for in a custom section of this name (and a suffix).
const WORLD_SECTION: &str = "component-type";

/// Why a file is refused unread.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScanError {
    /// Another kind of file.
    #[error("is not WebAssembly: begins with {0}")]
    NotWasm(String),
    /// Broken off or damaged.
    #[error("is damaged: {0}")]
    Malformed(String),
    /// More than the host will compile.
    #[error("is too large: {what} of {found}, at most {max}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: usize,
        /// How much there may be.
        max: usize,
    },
}

/// What a file is linked to.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) is_component: bool,
    /// A core module says which world it is of.
    pub(crate) has_world_section: bool,
    /// Names of a component's own imports and exports, or the modules a core module imports from.
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
}

/// Reads the outline of `bytes`.
pub(crate) fn scan(bytes: &[u8]) -> Result<Scan, ScanError> {
    if !bytes.starts_with(b"\0asm") {
        return Err(ScanError::NotWasm(beginning(bytes)));
    }
    check("a file", bytes.len(), FILE_BYTES)?;
    let mut scan = Scan::default();
    let (mut depth, mut nested, mut functions) = (0_usize, 0, 0);
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(malformed)?;
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                (depth, nested) = (depth + 1, nested + 1);
                check("a number of nested modules", nested, NESTED)?;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CodeSectionStart { count, .. } => {
                functions += count as usize;
                check("a number of functions", functions, FUNCTIONS)?;
            }
            Payload::CodeSectionEntry(body) => {
                let range = body.range();
                check(
                    "a function",
                    usize::try_from(range.end - range.start).unwrap_or(usize::MAX),
                    FUNCTION_BYTES,
                )?;
            }
            _ if depth == 0 => scan.outermost(payload).map_err(malformed)?,
            _ => {}
        }
    }
    Ok(scan)
}

impl Scan {
    fn outermost(&mut self, payload: Payload<'_>) -> wasmparser::Result<()> {
        match payload {
            Payload::Version { encoding, .. } => {
                self.is_component = encoding == Encoding::Component;
            }
            Payload::CustomSection(section) if section.name().starts_with(WORLD_SECTION) => {
                self.has_world_section = true;
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    self.imports.push(import?.module.to_owned());
                }
            }
            Payload::ComponentImportSection(imports) => {
                for import in imports {
                    let import = import?;
                    // Names of types; what they are is compared when it is linked.
                    if !matches!(import.ty, ComponentTypeRef::Type(TypeBounds::Eq(_))) {
                        self.imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    if export.kind != ComponentExternalKind::Type {
                        self.exports.push(export.name.name.to_owned());
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn check(what: &'static str, found: usize, max: usize) -> Result<(), ScanError> {
    if found > max {
        return Err(ScanError::TooLarge { what, found, max });
    }
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn malformed(error: wasmparser::BinaryReaderError) -> ScanError {
    ScanError::Malformed(error.to_string())
}

/// The first bytes, as text where they are text.
fn beginning(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(16)];
    if head.is_empty() {
        "nothing: the file is empty".to_owned()
    } else {
        format!("\"{}\"", head.escape_ascii())
    }
}
