//! What the demo prints, in steps.

use crate::failure::Outcome;
use crate::style::Style;
use std::io::{Stdout, Write};

/// Standard output as a story.
pub struct Show {
    out: Stdout,
    style: Style,
    steps: u32,
}

impl Show {
    /// On standard output, in colour if that is a terminal.
    pub fn on_stdout() -> Self {
        Show { out: std::io::stdout(), style: Style::of_stdout(), steps: 0 }
    }

    /// The first line.
    pub fn title(&mut self, title: &str, about: &str) -> Outcome {
        Ok(writeln!(self.out, "{}  {}", self.style.bold(title), self.style.faint(about))?)
    }

    /// Begins a step.
    pub fn step(&mut self, title: &str, about: &str) -> Outcome {
        self.steps += 1;
        let title = self.style.bold(&format!("{}. {title}", self.steps));
        Ok(writeln!(self.out, "\n{title}  {}", self.style.faint(about))?)
    }

    /// A line of the step.
    pub fn line(&mut self, line: &str) -> Outcome {
        Ok(writeln!(self.out, "   {line}")?)
    }

    /// Several lines of the step.
    pub fn block(&mut self, lines: &str) -> Outcome {
        lines.lines().try_for_each(|line| self.line(line))
    }

    /// Something that was checked.
    pub fn check(&mut self, holds: bool, claim: &str) -> Outcome {
        let mark = if holds { self.style.good("✓") } else { self.style.bad("✗") };
        self.line(&format!("{mark} {claim}"))
    }

    /// A remark.
    pub fn note(&mut self, line: &str) -> Outcome {
        Ok(writeln!(self.out, "{}", self.style.faint(line))?)
    }

    /// The last line.
    pub fn end(&mut self, line: &str) -> Outcome {
        Ok(writeln!(self.out, "\n{}", self.style.good(line))?)
    }
}
