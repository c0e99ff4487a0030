//! The terminal while `esker top` has it: raw, with a screen of its own, restored in any case.

use super::screen::View;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::Paragraph;
use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::time::Duration;

/// See the file's head. A panic restores it, too.
pub struct Terminal {
    screen: RefCell<DefaultTerminal>,
    view: RefCell<View>,
    interrupt: Interrupt,
    has_quit: Cell<bool>,
}

impl Terminal {
    /// Takes the terminal.
    pub fn start(view: View, interrupt: Interrupt) -> Outcome<Terminal> {
        // It may be there after a hangup that a user has sent.
        Interrupt::end_with_terminal(|| drop(ratatui::try_restore()))
            .map_err(|error| Failure::io("listen for", "signals", error))?;
        let screen = ratatui::try_init().map_err(failure)?;
        let (screen, view) = (RefCell::new(screen), RefCell::new(view));
        Ok(Terminal { screen, view, interrupt, has_quit: Cell::new(false) })
    }

    /// What is drawn next.
    pub fn view(&self) -> RefMut<'_, View> {
        self.view.borrow_mut()
    }

    /// Whether the user wants no more of it.
    pub fn is_over(&self) -> bool {
        self.has_quit.get() || self.interrupt.is_set()
    }

    /// Draws the view.
    pub fn draw(&self) -> Outcome {
        let view = self.view.borrow();
        let draw = |frame: &mut ratatui::Frame<'_>| draw(frame, &view);
        self.screen.borrow_mut().draw(draw).map_err(failure)?;
        Ok(())
    }

    /// Waits up to `time` for keys and changes of size, and follows them.
    pub fn attend(&self, time: Duration) -> Outcome {
        let mut time = time;
        loop {
            match event::poll(time) {
                Ok(false) => return Ok(()),
                // By a signal, which is noted.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
                Err(error) => return Err(failure(error)),
                Ok(true) => {}
            }
            match event::read().map_err(failure)? {
                Event::Key(key) if quits(key) => self.has_quit.set(true),
                Event::Resize(..) => self.draw()?,
                _ => {}
            }
            time = Duration::ZERO;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Draws `view` on the whole frame.
pub fn draw(frame: &mut ratatui::Frame<'_>, view: &View) {
    let area = frame.area();
    let lines = view.lines(usize::from(area.width), usize::from(area.height));
    frame.render_widget(Paragraph::new(lines), area);
}

/// Whether the key ends the program: q, Escape or Ctrl-C, which is no signal while the terminal is raw.
fn quits(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind != KeyEventKind::Release
        && match key.code {
            KeyCode::Char('c') => is_control,
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
            _ => false,
        }
}

fn failure(error: io::Error) -> Failure {
    Failure::io("use", "the terminal", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_escape_and_control_c_end_it() {
        let key = |code, modifiers| KeyEvent::new(code, modifiers);
        assert!(quits(key(KeyCode::Char('q'), KeyModifiers::NONE)));
        assert!(quits(key(KeyCode::Esc, KeyModifiers::NONE)));
        assert!(quits(key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!quits(key(KeyCode::Char('c'), KeyModifiers::NONE)));
        assert!(!quits(key(KeyCode::Char('x'), KeyModifiers::NONE)));
    }
}
