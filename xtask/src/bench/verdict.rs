//! Targets and whether they were met.

use std::fmt;

/// What was found for each target.
#[derive(Debug, Default)]
pub struct Verdicts(Vec<(bool, String)>);

impl Verdicts {
    /// A value that must not be smaller than the target.
    pub fn at_least(&mut self, what: &str, found: f64, target: f64, unit: &str) {
        self.0.push((found >= target, format!("{what}: {found:.1}{unit}, target ≥ {target}{unit}")));
    }

    /// A value that must not be larger than the target.
    pub fn at_most(&mut self, what: &str, found: f64, target: f64, unit: &str) {
        self.0.push((found <= target, format!("{what}: {found:.2}{unit}, target ≤ {target}{unit}")));
    }

    /// Whether every target was met.
    pub fn all_met(&self) -> bool {
        self.0.iter().all(|(met, _)| *met)
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (met, line) in &self.0 {
            writeln!(f, "{} {line}", if *met { "ok  " } else { "MISS" })?;
        }
        Ok(())
    }
}
