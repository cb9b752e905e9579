//! Scans a file's bytes before anything is built from them: what the file is, what it is linked to,
//! and whether it would be cheap to compile. wasmtime does not treat slow compilation as a defect,
//! so this module refuses what makes it slow.

use wasmparser::{
    ComponentExternalKind, ComponentTypeRef, Encoding, FunctionBody, Operator, Parser, Payload,
    TypeBounds,
};

use pilothouse_core::text::one_line;

/// Most bytes of a file. A file from componentize-py has 18 MB.
const FILE_BYTES: usize = 64 << 20;
/// Most bytes of a function's body. Compile time grows faster than a function's size: one of 1.8
/// MiB took 20 s and 281 MiB.
const FUNCTION_BYTES: usize = 512 << 10;
/// Most functions in all modules together. Python has about 20,000.
const FUNCTIONS: usize = 200_000;
/// Most modules and components inside one file, at any depth.
const NESTED: usize = 256;
/// Most items of each type, over all sections. Each is a few times what Python's standard library
/// has, and too few to make compiling slow.
const TYPES: usize = 20_000;
const IMPORTS: usize = 40_000;
const EXPORTS: usize = 40_000;
const ITEMS: usize = 200_000;
const SEGMENTS: usize = 100_000;
/// Most blocks inside one another. A `switch` of a thousand cases is a thousand blocks deep.
const DEPTH: usize = 10_000;
/// Beginning of the name of the custom section in which a core module declares the world it was
/// built for.
const WORLD_SECTION: &str = "component-type";

/// Why a file is refused by its bytes alone.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScanError {
    /// It is another type of file. Contains the first bytes.
    #[error("is not WebAssembly: begins with {0}")]
    NotWasm(String),
    /// It is cut off or damaged.
    #[error("is damaged: {0}")]
    Malformed(String),
    /// It has more than the host compiles.
    #[error("is too large: {what} of {found}, at most {max}")]
    TooLarge {
        /// What the file has too much of.
        what: &'static str,
        /// How much it has.
        found: usize,
        /// How much it may have.
        max: usize,
    },
}

/// What a file is, and what it is linked to.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) is_component: bool,
    /// True if a core module declares its world.
    pub(crate) has_world_section: bool,
    /// Names of a component's own imports and exports, or the modules that a core module imports
    /// from.
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
            // `End` closes a nested module or component, and at last the file itself.
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ if depth == 0 => scan.outermost(payload).map_err(malformed)?,
            _ => {}
        }
    }
    Ok(scan)
}

/// The numbers of items in all modules and components of a file together.
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
    /// Adds the number of items that a section declares, before its contents are read.
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

/// Checks how deeply blocks are nested in each function, because no compiler produces very deep
/// nesting. This takes some time, so it is done in the compiling process.
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
                    // Skip names of types. The types themselves are compared when the component is
                    // linked.
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
    // Some of its messages have several lines.
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
