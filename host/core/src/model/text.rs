//! Texts: those from outside are shortened before they are kept, and escaped before they are shown.

/// Returns `text`, or about its first `max` bytes and `…`. Never splits a character.
pub fn cut(text: &str, max: usize) -> String {
    match text.char_indices().find(|(at, _)| *at >= max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Puts a text on one line. Errors of libraries contain newlines and indented causes.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns `text` on one line, or about its first `max` bytes and `…`.
pub fn cut_line(text: &str, max: usize) -> String {
    cut(&one_line(text), max)
}

/// The longest prefix of at most `max` bytes that ends at a character boundary.
pub fn prefix(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns `text` with control, formatting and unprintable characters escaped, and no longer than
/// about `max` bytes. The result can neither drive a terminal nor look like a further line.
pub fn escaped(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for char in text.chars() {
        if out.len() >= max {
            out.push('…');
            break;
        }
        match char {
            '\'' | '"' => out.push(char),
            _ => out.extend(char.escape_debug()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_drives_no_terminal() {
        assert_eq!(
            escaped("a\nERROR b\u{1b}[31m\u{202e}\0'ü'", 100),
            r"a\nERROR b\u{1b}[31m\u{202e}\0'ü'"
        );
        assert_eq!(escaped("aaaaaa", 3), "aaa…");
    }

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut("aaa", 3), "aaa");
        assert_eq!(cut("ééé", 3), "éé…");
    }

    #[test]
    fn a_prefix_ends_at_a_whole_character() {
        assert_eq!(prefix("aé", 2), "a");
        assert_eq!(prefix("aé", 3), "aé");
        assert_eq!(prefix(&"é".repeat(1000), 1024).len(), 1024);
        assert_eq!(prefix("", 5), "");
    }
}
