//! A progress bar.

use indicatif::{ProgressBar, ProgressStyle};

const STEPS: u64 = 200;

/// A progress bar on standard error; without a terminal there it shows nothing.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar at its beginning, beside `message`.
    ///
    /// # Panics
    /// Never: its template is sound.
    pub fn new(message: &str) -> Self {
        let style = ProgressStyle::with_template("{msg:24} {wide_bar} {percent:>3} %");
        let style = style.expect("the template is sound");
        Self(ProgressBar::new(STEPS).with_style(style).with_message(message.to_owned()))
    }

    /// Sets the bar to `part` of its length, from 0 to 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position")]
    #[expect(clippy::cast_precision_loss, reason = "a position")]
    pub fn set(&self, part: f64) {
        self.0.set_position((part.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
