//! Paths to values inside an object, as plugins write them.

use std::fmt;

/// A path to values inside an object: a subset of kubectl's JSONPath.
///
/// A step is `.name`, `['name']` or `[*]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    pub(super) steps: Vec<PathStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum PathStep {
    Name(String),
    /// Every element of an array, or every value of a map.
    Each,
}

/// Why a path cannot be parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("field path {path:?}: {reason} at byte {at}; write .name, ['name'] or [*]")]
pub struct FieldPathError {
    path: String,
    reason: &'static str,
    pub(super) at: usize,
}

/// The maximum number of steps in a path. This is deeper than any path that people write, yet
/// following it needs little stack.
pub(super) const MAX_STEPS: usize = 64;

impl FieldPath {
    /// The first name of the path. `None` if it begins with `[*]`.
    pub fn root(&self) -> Option<&str> {
        match self.steps.first()? {
            PathStep::Name(name) => Some(name),
            PathStep::Each => None,
        }
    }

    /// True if everything that the other path leads to is part of what this one leads to. Steps are
    /// compared literally: `[*]` is not taken to include a name.
    pub fn holds(&self, other: &Self) -> bool {
        other.steps.starts_with(&self.steps)
    }

    /// The number of `[*]` steps.
    pub fn branchings(&self) -> usize {
        let steps = self.steps.iter();
        steps.filter(|step| matches!(step, PathStep::Each)).count()
    }

    /// Parses a path such as `.spec.ports[*].name` or `.metadata.labels['app.kubernetes.io/name']`.
    pub fn parse(path: &str) -> Result<Self, FieldPathError> {
        let mut steps = Vec::new();
        let mut rest = path;
        while !rest.is_empty() {
            let (step, after) = parse_step(rest).map_err(|reason| FieldPathError {
                path: path.to_owned(),
                reason,
                at: path.len() - rest.len(),
            })?;
            steps.push(step);
            rest = after;
            if steps.len() > MAX_STEPS {
                return Err(FieldPathError {
                    path: path.chars().take(200).collect(),
                    reason: "has too many steps",
                    at: path.len() - rest.len(),
                });
            }
        }
        if steps.is_empty() {
            return Err(FieldPathError {
                path: path.to_owned(),
                reason: "is empty",
                at: 0,
            });
        }
        Ok(Self { steps })
    }
}

fn parse_step(text: &str) -> Result<(PathStep, &str), &'static str> {
    if let Some(after) = text.strip_prefix("[*]") {
        return Ok((PathStep::Each, after));
    }
    if let Some(quoted) = text.strip_prefix("['") {
        let (name, after) = quoted.split_once("']").ok_or("no closing ']")?;
        return Ok((PathStep::Name(name.to_owned()), after));
    }
    let named = text
        .strip_prefix('.')
        .ok_or("a step must begin with . or [")?;
    let end = named.find(['.', '[']).unwrap_or(named.len());
    if end == 0 {
        return Err("a name is missing");
    }
    Ok((PathStep::Name(named[..end].to_owned()), &named[end..]))
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                PathStep::Each => f.write_str("[*]")?,
                PathStep::Name(name) if name.contains(['.', '[', '/']) => write!(f, "['{name}']")?,
                PathStep::Name(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}
