//! The text of others as one line.

/// The text as one line of at most `limit` characters.
pub(crate) fn flatten(text: &str, limit: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
