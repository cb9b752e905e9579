//! Serde's rules for the names of fields (`rename_all`).

/// The name that a field of this name in Rust has in JSON. `None`: serde has no such rule.
pub(crate) fn rename(rule: &str, field: &str) -> Option<String> {
    Some(match rule {
        "lowercase" | "snake_case" => field.to_owned(),
        "UPPERCASE" | "SCREAMING_SNAKE_CASE" => field.to_ascii_uppercase(),
        "kebab-case" => field.replace('_', "-"),
        "SCREAMING-KEBAB-CASE" => field.to_ascii_uppercase().replace('_', "-"),
        "PascalCase" => pascal(field),
        "camelCase" => {
            let pascal = pascal(field);
            let first = pascal.chars().next()?;
            first.to_ascii_lowercase().to_string() + &pascal[first.len_utf8()..]
        }
        _ => return None,
    })
}

fn pascal(field: &str) -> String {
    let mut is_first = true;
    let mut name = String::new();
    for letter in field.chars() {
        if letter == '_' {
            is_first = true;
        } else if std::mem::take(&mut is_first) {
            name.push(letter.to_ascii_uppercase());
        } else {
            name.push(letter);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_gives_the_name_that_serde_gives() {
        for (rule, name) in [
            ("lowercase", "node_port_2"),
            ("snake_case", "node_port_2"),
            ("UPPERCASE", "NODE_PORT_2"),
            ("SCREAMING_SNAKE_CASE", "NODE_PORT_2"),
            ("kebab-case", "node-port-2"),
            ("SCREAMING-KEBAB-CASE", "NODE-PORT-2"),
            ("PascalCase", "NodePort2"),
            ("camelCase", "nodePort2"),
        ] {
            assert_eq!(rename(rule, "node_port_2").as_deref(), Some(name), "{rule}");
        }
        assert_eq!(rename("camel", "node_port"), None);
    }
}
