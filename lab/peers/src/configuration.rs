//! What was set on a peer and why, kept for the report.

/// Options in the order they were set.
#[derive(Default)]
pub(crate) struct Configuration {
    options: Vec<(String, String)>,
}

impl Configuration {
    /// Notes that `option` was given `value`, and why. Returns the value, so that noting and setting
    /// are one line and can't part ways.
    pub(crate) fn note<T: std::fmt::Display>(&mut self, option: &str, value: T, why: &str) -> T {
        self.options.push((option.to_owned(), format!("{value} ({why})")));
        value
    }

    pub(crate) fn options(&self) -> Vec<(String, String)> {
        self.options.clone()
    }
}
