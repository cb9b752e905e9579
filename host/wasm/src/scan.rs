//! A look at a file's bytes before anything is built of them: what it is, what it is linked to, and whether compiling it would be
//! cheap. Upstream does not count slow compilation as a fault, so what makes it slow is refused here.

use wasmparser::{
    ComponentExternalKind, ComponentTypeRef, Encoding, FunctionBody, Operator, Parser, Payload,
    TypeBounds,
};

use crate::load::one_line;

/// The largest file. componentize-py's is 18 MB.
const FILE_BYTES: usize = 64 << 20;
/// The largest function body. Compile time grows faster than a function does: one of 1.8 MiB took 20 s and 281 MiB.
const FUNCTION_BYTES: usize = 512 << 10;
/// Functions in all modules together. Python has some 20,000.
const FUNCTIONS: usize = 200_000;
/// Modules and components inside one file, whatever the depth.
const NESTED: usize = 256;
/// Of each kind of thing in a section: some times what Python's standard library comes to, and too little to make anybody slow.
const TYPES: usize = 20_000;
const IMPORTS: usize = 40_000;
const EXPORTS: usize = 40_000;
const ITEMS: usize = 200_000;
const SEGMENTS: usize = 100_000;
/// A `switch` of a thousand cases is a thousand blocks deep.
const DEPTH: usize = 10_000;
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
    let mut counts = Counts::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(malformed)?;
        counts.add(&payload)?;
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ if depth == 0 => scan.outermost(payload).map_err(malformed)?,
            _ => {}
        }
    }
    Ok(scan)
}

/// What there is, in all modules and components of a file together.
#[derive(Default)]
struct Counts {
    nested: usize,
    functions: usize,
    types: usize,
    imports: usize,
    exports: usize,
    items: usize,
    segments: usize,
}

impl Counts {
    /// Counts what a section says it has, before its contents are looked at.
    fn add(&mut self, payload: &Payload<'_>) -> Result<(), ScanError> {
        use Payload as P;
        let (count, what, most, more) = match payload {
            P::ModuleSection { .. } | P::ComponentSection { .. } => {
                (&mut self.nested, "a number of nested modules", NESTED, 1)
            }
            P::FunctionSection(section) => {
                let more = section.count();
                (
                    &mut self.functions,
                    "a number of functions",
                    FUNCTIONS,
                    more,
                )
            }
            P::CodeSectionEntry(body) => {
                let range = body.range();
                let size = range.end - range.start;
                return check("a function", size, FUNCTION_BYTES);
            }
            P::TypeSection(section) => self.types(section.count()),
            P::CoreTypeSection(section) => self.types(section.count()),
            P::ComponentTypeSection(section) => self.types(section.count()),
            P::ImportSection(section) => self.imports(section.count()),
            P::ComponentImportSection(section) => self.imports(section.count()),
            P::ExportSection(section) => self.exports(section.count()),
            P::ComponentExportSection(section) => self.exports(section.count()),
            P::TableSection(section) => self.items(section.count()),
            P::MemorySection(section) => self.items(section.count()),
            P::GlobalSection(section) => self.items(section.count()),
            P::TagSection(section) => self.items(section.count()),
            P::InstanceSection(section) => self.items(section.count()),
            P::ComponentInstanceSection(section) => self.items(section.count()),
            P::ComponentAliasSection(section) => self.items(section.count()),
            P::ComponentCanonicalSection(section) => self.items(section.count()),
            P::ElementSection(section) => self.segments(section.count()),
            P::DataSection(section) => self.segments(section.count()),
            _ => return Ok(()),
        };
        *count = count.saturating_add(more as usize);
        check(what, *count, most)
    }

    fn types(&mut self, more: u32) -> (&mut usize, &'static str, usize, u32) {
        (&mut self.types, "a number of types", TYPES, more)
    }

    fn imports(&mut self, more: u32) -> (&mut usize, &'static str, usize, u32) {
        (&mut self.imports, "a number of imports", IMPORTS, more)
    }

    fn exports(&mut self, more: u32) -> (&mut usize, &'static str, usize, u32) {
        (&mut self.exports, "a number of exports", EXPORTS, more)
    }

    fn items(&mut self, more: u32) -> (&mut usize, &'static str, usize, u32) {
        let what = "a number of tables, memories, globals and instances";
        (&mut self.items, what, ITEMS, more)
    }

    fn segments(&mut self, more: u32) -> (&mut usize, &'static str, usize, u32) {
        (&mut self.segments, "a number of segments", SEGMENTS, more)
    }
}

/// Looks into every function: blocks inside blocks without end are no compiler's output. Takes some time, so it is done where the file is
/// compiled.
pub(crate) fn check_nesting(bytes: &[u8]) -> Result<(), ScanError> {
    for payload in Parser::new(0).parse_all(bytes) {
        if let Payload::CodeSectionEntry(body) = payload.map_err(malformed)? {
            check("a depth of nested blocks", depth(&body)?, DEPTH)?;
        }
    }
    Ok(())
}

/// The deepest nesting in a function.
fn depth(body: &FunctionBody<'_>) -> Result<usize, ScanError> {
    let (mut depth, mut deepest) = (0_usize, 0);
    for operator in body.get_operators_reader().map_err(malformed)? {
        match operator.map_err(malformed)? {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            Operator::End => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(deepest)
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
    // Some of its texts are of several lines.
    ScanError::Malformed(one_line(&error.to_string()))
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
