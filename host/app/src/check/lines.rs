//! What `pilothouse check` says about a file, line by line.

use std::collections::BTreeSet;
use std::fmt::Write;

use pilothouse_core::text::escaped;
use pilothouse_core::{Kind, Limits, Manifest, Selection};
use pilothouse_wasm::{LoadReport, RunLimits};

use crate::settings::size;

/// What a line is about, and what it says.
pub type Line = (&'static str, String);

/// One line for each entry, escaped so that a stranger's text cannot drive the terminal.
pub fn layout(lines: &[Line]) -> String {
    let width = lines.iter().map(|(what, _)| what.len()).max();
    let width = width.unwrap_or_default();
    let lines = lines
        .iter()
        .map(|(what, text)| format!("  {what:width$}  {}", escaped(text, usize::MAX)));
    lines.collect::<Vec<_>>().join("\n")
}

pub fn file_lines(report: &LoadReport) -> Vec<Line> {
    let LoadReport {
        bytes,
        native_bytes,
        compiled,
        imports,
        exports,
        describe,
        ..
    } = report;
    let compiled = match compiled {
        Some(took) => format!("in {took:.2?}"),
        None => "before; its code is in the code cache".to_owned(),
    };
    let mut lines = vec![
        ("sha256", report.digest_hex()),
        (
            "size",
            format!("{}; native code {}", size(*bytes), size(*native_bytes)),
        ),
        ("compiled", compiled),
        ("imports", imported(imports)),
    ];
    // A core module has no list of its own: it exports what the world that it was built against
    // prescribes.
    if !exports.is_empty() {
        lines.push(("exports", distinct(exports)));
    }
    lines.push((
        "describe",
        format!(
            "{} of fuel, {} of memory, {:.1?}",
            describe.fuel,
            size(describe.memory_bytes),
            describe.duration
        ),
    ));
    lines
}

/// What a file imports. A language's runtime imports dozens of interfaces of WASI, behind which
/// there is nothing.
fn imported(names: &[String]) -> String {
    let is_wasi = |name: &&String| name.starts_with("wasi:");
    let (wasi, others): (Vec<_>, Vec<_>) = names.iter().partition(is_wasi);
    let count = wasi.into_iter().collect::<BTreeSet<_>>().len();
    let wasi = (count > 0).then(|| {
        format!("{count} of WASI, which grant nothing: no files, no network, no environment")
    });
    let others = Some(distinct(others)).filter(|others| !others.is_empty());
    others
        .into_iter()
        .chain(wasi)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Each name once, in the order of the file. A core module names an interface for each of its
/// functions.
fn distinct<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let mut seen = BTreeSet::new();
    let names = names.into_iter().filter(|name| seen.insert(name.as_str()));
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

pub fn manifest_lines(manifest: &Manifest) -> Vec<Line> {
    let mut lines = vec![("plugin", format!("{} {}", manifest.name, manifest.version))];
    if manifest.reconciles.is_empty() {
        lines.push(("reconciles", "one key for the whole cluster".to_owned()));
    }
    let selections = manifest.reconciles.iter();
    lines.extend(selections.map(|selection| ("reconciles", selected(selection))));
    for read in &manifest.reads {
        let mut text = read.kind.to_string();
        let fields = if read.fields.is_empty() {
            "whole objects".to_owned()
        } else {
            read.fields.join(" ")
        };
        let _ = write!(text, ": {fields}");
        if !read.namespaces.is_empty() {
            let _ = write!(text, "; in {}", read.namespaces.join(", "));
        }
        if read.is_narrowed() {
            let fields = read.field_selector.as_deref().unwrap_or_default();
            let _ = write!(text, "; only {} {fields}", read.labels);
        }
        text += optional(manifest, &read.kind);
        lines.push(("reads", text));
    }
    for index in &manifest.indexes {
        let paths = index.paths.join(" ");
        lines.push((
            "index",
            format!("{} of {}: {paths}", index.name, index.kind),
        ));
    }
    for write in &manifest.writes {
        let verbs: Vec<&str> = write.verbs.iter().map(|verb| verb.as_str()).collect();
        let subresource = write.subresource.as_deref();
        let subresource = subresource.map(|name| format!("/{name}"));
        let children = if write.children { ", as children" } else { "" };
        let text = format!(
            "{}{}: {}{children}{}",
            write.kind,
            subresource.unwrap_or_default(),
            verbs.join(", "),
            optional(manifest, &write.kind)
        );
        lines.push(("writes", text));
    }
    lines
}

/// What is said of a kind that the plugin works without.
fn optional(manifest: &Manifest, kind: &Kind) -> &'static str {
    match manifest.optional.contains(kind) {
        true => "; if the cluster serves it",
        false => "",
    }
}

fn selected(selection: &Selection) -> String {
    let mut text = format!("each {}", selection.kind);
    let labels = selection.labels.to_string();
    if !labels.is_empty() {
        let _ = write!(text, " with {labels}");
    }
    if !selection.namespaces.is_empty() {
        let _ = write!(text, " in {}", selection.namespaces.join(", "));
    }
    if let Some(fields) = &selection.fields {
        let _ = write!(text, "; only {fields}");
    }
    if !selection.companions.is_empty() {
        let kinds: Vec<String> = selection.companions.iter().map(Kind::to_string).collect();
        let _ = write!(text, "; also enqueued by {}", kinds.join(", "));
    }
    text
}

pub fn limits(limits: &RunLimits, asked: &Limits) -> String {
    let more = asked.timeout.filter(|asked| *asked > limits.timeout);
    let more = more.map(|asked| format!(" (it asks for {asked:?}: see limits.timeout)"));
    format!(
        "{} of memory, {} of fuel, {:?} of CPU time{}, {} at once",
        size(usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX)),
        limits.fuel,
        limits.timeout,
        more.unwrap_or_default(),
        limits.concurrency
    )
}

#[cfg(test)]
mod tests {
    use pilothouse_wasm::LimitPolicy;

    use super::*;

    #[test]
    fn a_strangers_text_makes_no_line_of_its_own_and_hides_none() {
        let lines = [("reads", "v1/Pod: ['\u{1b}[8m\n  risk  none']".to_owned())];
        let text = layout(&lines);
        assert_eq!(text, r"  reads  v1/Pod: ['\u{1b}[8m\n  risk  none']");
    }

    #[test]
    fn what_is_cut_of_the_time_that_a_manifest_asks_for_is_said() {
        let asked = Limits {
            timeout: Some(std::time::Duration::from_secs(200)),
            ..Limits::default()
        };
        let granted = LimitPolicy::default().grant(&asked);
        let text = limits(&granted, &asked);
        let said = "20s of CPU time (it asks for 200s: see limits.timeout)";
        assert!(text.contains(said), "{text}");
        let text = limits(&granted, &Limits::default());
        assert!(text.contains("20s of CPU time, "), "{text}");
    }

    #[test]
    fn what_is_reconciled_is_said_with_all_that_narrows_and_widens_it() {
        let manifest = Manifest::from_json(
            r#"{"name": "p", "version": "1", "reconciles": [{
                "kind": "v1/Service", "labels": "app=web", "fieldSelector": "type=ClusterIP",
                "namespaces": ["a", "b"], "alsoEnqueuedBy": ["v1/Endpoints"]
            }]}"#,
        );
        assert_eq!(
            selected(&manifest.unwrap().reconciles[0]),
            "each v1/Service with app=web in a, b; only type=ClusterIP; also enqueued by v1/Endpoints"
        );
    }

    #[test]
    fn an_interface_is_named_once_however_many_functions_are_imported() {
        let names = ["b", "a", "b", "b"].map(str::to_owned);
        assert_eq!(imported(&names), "b, a");
    }

    #[test]
    fn what_is_imported_of_wasi_is_counted_and_said_to_grant_nothing() {
        let told = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            imported(&names)
        };
        let nothing = "of WASI, which grant nothing: no files, no network, no environment";
        let of_python = ["wasi:io/poll@0.2.6", "pilothouse:controller/log@0.2.0"];
        let again = [
            of_python[0],
            of_python[1],
            "wasi:cli/exit@0.2.6",
            of_python[0],
        ];
        assert_eq!(
            told(&again),
            format!("pilothouse:controller/log@0.2.0, 2 {nothing}")
        );
        assert_eq!(told(&of_python[..1]), format!("1 {nothing}"));
    }
}
