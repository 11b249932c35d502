//! Medians, ranges and tables.

/// The middle of the figures; of an even number, the upper of the two.
pub fn median(figures: &[f64]) -> f64 {
    percentile(figures, 0.5)
}

/// The figure below which this part of all figures lies.
pub fn percentile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let place = (sorted.len() as f64 * part) as usize;
    sorted[place.min(sorted.len() - 1)]
}

/// Median and range, with as many decimals.
pub fn spread(figures: &[f64], decimals: usize) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(0.0, f64::max);
    let middle = median(figures);
    format!("{middle:.decimals$} ({least:.decimals$}–{most:.decimals$})")
}

/// The median of what each figure is of its neighbour from the same turn: the two
/// were measured in the same minute, the medians perhaps were not.
pub fn ratio(figures: &[f64], beside: &[f64]) -> f64 {
    let ratios: Vec<f64> = figures.iter().zip(beside).map(|(a, b)| a / b).collect();
    median(&ratios)
}

/// A target and whether it was met.
pub fn verdict(text: &str, met: bool) -> String {
    format!("{text}: {}", if met { "met" } else { "**missed**" })
}

/// A table in Markdown, printed line by line.
pub struct Table;

impl Table {
    pub fn new(title: &str, columns: &[&str]) -> Self {
        println!("\n{title}\n\n| {} |", columns.join(" | "));
        println!("|{}", "---|".repeat(columns.len()));
        Self
    }

    #[allow(clippy::unused_self, reason = "rows belong under a head")]
    pub fn row(&self, cells: &[&str]) {
        println!("| {} |", cells.join(" | "));
    }
}
