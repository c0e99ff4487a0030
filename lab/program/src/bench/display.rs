//! Progress on a terminal.

use esker_bench::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// A line on a terminal that says how far the run is.
pub struct Display(Option<ProgressBar>);

impl Display {
    pub fn on_terminal() -> Self {
        Display(std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            ProgressBar::new_spinner().with_style(style.expect("the template is well formed"))
        }))
    }

    pub fn show(&mut self, progress: &Progress<'_>) {
        let Some(bar) = &self.0 else { return };
        let done = match progress.wanted {
            Some(wanted) if wanted > 0 => {
                format!("{:.0} %", 100.0 * progress.operations as f64 / wanted as f64)
            }
            _ => crate::units::counted(progress.operations, "operation"),
        };
        let rate = crate::units::per_second(progress.operations, progress.elapsed.as_secs_f64());
        let (stage, at, of) = (progress.stage, progress.index + 1, progress.stages);
        bar.set_message(format!("{stage} ({at} of {of})  {done}  {rate}/s"));
        bar.tick();
    }

    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
