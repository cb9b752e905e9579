//! Each rule of the judge, what it lets pass, and what it sets apart and how far.

mod claims;
mod deletions;
mod finalizers;
mod references;
mod story;
mod thing;
mod touched;
mod ways;
mod writes;

use story::Story;
pub use thing::Thing;
