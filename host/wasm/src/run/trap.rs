//! The text of a trap: what happened, and where in the guest's own code.

use wasmtime::{FrameInfo, Trap, WasmBacktrace};

use pilothouse_core::text::{escaped, one_line};

/// Most bytes of the whole text. It ends up in tables and Events.
const BYTES: usize = 400;
/// Most bytes of one part: what happened, or what the guest printed about it.
pub(super) const PART_BYTES: usize = 200;
/// Most frames that are named, and most bytes of each name.
const FRAMES: usize = 4;
const FRAME_BYTES: usize = 80;

/// Crates that are below a guest's own code, or around it.
const FOREIGN: &[&str] = &[
    "alloc",
    "compiler_builtins",
    "core",
    "dlmalloc",
    "hashbrown",
    "panic_abort",
    "pilothouse_sdk",
    "rustc_std_workspace_core",
    "std",
    "wit_bindgen",
    "wit_bindgen_rt",
    "__rustc",
];

/// Describes what happened and where. Together with `said` the text is at most [`BYTES`] long.
pub(super) fn told(error: &wasmtime::Error, said: Option<&str>) -> String {
    let room = BYTES.saturating_sub(said.map_or(0, str::len));
    let mut text = escaped(&kind(error), PART_BYTES.min(room));
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map(|trace| own(trace.frames().iter().map(Frame::of), said.is_some()));
    let mut separator = "; in ";
    for frame in frames.unwrap_or_default() {
        if text.len() + separator.len() + frame.len() > room {
            break;
        }
        text += separator;
        text += &frame;
        separator = " <- ";
    }
    text
}

/// Names a trap in a word or two. Any other error, of an import or about an invalid answer, keeps
/// its own text.
fn kind(error: &wasmtime::Error) -> String {
    match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => "unreachable".to_owned(),
        Some(trap) => {
            let text = trap.to_string();
            text.trim_start_matches("wasm trap: ").to_owned()
        }
        None => one_line(&error.root_cause().to_string()),
    }
}

/// One frame of a backtrace.
struct Frame {
    index: u32,
    /// The name in the file's name section. Released files usually have no such section.
    name: Option<String>,
}

impl Frame {
    fn of(info: &FrameInfo) -> Self {
        Self {
            index: info.func_index(),
            name: info.func_name().map(str::to_owned),
        }
    }

    /// The path of a Rust function, without its hash.
    fn path(&self) -> Option<String> {
        let name = rustc_demangle::try_demangle(self.name.as_deref()?).ok()?;
        Some(format!("{name:#}"))
    }
}

/// The frames that help the author of the guest, innermost first: those of the crate that the host
/// called into. If there are no Rust names, all frames are taken, with their index where there is
/// no name, unless the guest has already printed a reason.
fn own(frames: impl Iterator<Item = Frame>, has_said: bool) -> Vec<String> {
    let frames: Vec<Frame> = frames.collect();
    let paths: Vec<String> = frames.iter().filter_map(Frame::path).collect();
    let is_own = |path: &&String| !FOREIGN.contains(&crate_of(path));
    let outermost = paths.iter().rev().find(is_own).map(|path| crate_of(path));
    let names: Vec<String> = match outermost {
        Some(own) => {
            let paths = paths.iter().filter(|path| crate_of(path) == own);
            paths.cloned().collect()
        }
        None if has_said || !paths.is_empty() => vec![],
        None => {
            let name = |frame: &Frame| match &frame.name {
                Some(name) => name.clone(),
                None => format!("function {}", frame.index),
            };
            frames.iter().map(name).collect()
        }
    };
    let mut names: Vec<String> = names
        .iter()
        .map(|name| escaped(name, FRAME_BYTES))
        .collect();
    names.dedup();
    names.truncate(FRAMES);
    names
}

/// The crate of a path: `website` for
/// `<website::Website as pilothouse_sdk::Controller>::reconcile`.
fn crate_of(path: &str) -> &str {
    let mut path = path.trim_start_matches(['<', '&', '*', '(', '[']);
    for word in ["mut ", "const ", "dyn "] {
        path = path.strip_prefix(word).unwrap_or(path);
    }
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    let end = path.find(|char| !is_name(char)).unwrap_or(path.len());
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[Option<&str>], has_said: bool) -> Vec<String> {
        let frames = (1..).zip(names).map(|(index, name)| Frame {
            index,
            name: name.map(str::to_owned),
        });
        own(frames, has_said)
    }

    #[test]
    fn only_the_guest_s_own_frames_are_told() {
        let panic = [
            Some("_RNvCsjPv3JbDkVWT_7___rustc17rust_begin_unwind"),
            Some("_ZN4core9panicking9panic_fmt17h0123456789abcdefE"),
            Some("_ZN10serde_json2de8from_str17h0123456789abcdefE"),
            Some("_ZN7website5image17h0123456789abcdefE"),
            Some(
                "_ZN63_$LT$website..Website$u20$as$u20$pilothouse_sdk..Controller$GT$9reconcile17h0123456789abcdefE",
            ),
            Some(
                "_ZN85_$LT$pilothouse_sdk..exported..Exported$LT$C$GT$$u20$as$u20$pilothouse_sdk..Guest$GT$9reconcile17h0123456789abcdefE",
            ),
            Some("reconcile"),
        ];
        assert_eq!(
            frames(&panic, true),
            [
                "website::image",
                "<website::Website as pilothouse_sdk::Controller>::reconcile"
            ]
        );
    }

    #[test]
    fn without_names_the_numbers_are_told_if_nothing_better_is_known() {
        assert_eq!(frames(&[None, None], false), ["function 1", "function 2"]);
        assert!(frames(&[None, Some("PyObject_Call")], true).is_empty());
    }

    #[test]
    fn a_recursion_is_told_in_a_few_frames() {
        let one = "_ZN7website4deep17h0123456789abcdefE";
        let two = "_ZN7website6deeper17h0123456789abcdefE";
        assert_eq!(frames(&[Some(one); 9], false), ["website::deep"]);
        let both = [Some(one), Some(two)].repeat(9);
        assert_eq!(frames(&both, false).len(), FRAMES);
    }
}
