//! Colour, on a terminal only.

use std::io::IsTerminal;

/// Whether and how to colour standard output.
#[derive(Clone, Copy)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// Colour if standard output is a terminal and `NO_COLOR` is not set.
    pub fn of_stdout() -> Self {
        let objected = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Style { colour: !objected && std::io::stdout().is_terminal() }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Something that holds.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Something that does not.
    pub fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Something of less importance.
    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }
}
