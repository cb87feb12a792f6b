//! Text of figures: its width, its line breaks, and the key of a row as words.
//!
//! An SVG file names a font, and a viewer may use another one, so widths are estimated generously.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Height of ordinary text in pixels: it can be read at half the figure's size.
pub(super) const SIZE: f64 = 17.0;
/// From one line of ordinary text to the next.
pub(super) const LINE_HEIGHT: u32 = 21;
/// The colour of headings.
pub(super) const GREY: RGBColor = RGBColor(100, 100, 100);
/// The drawing library divides sizes by this before it writes them as pixels.
const LIBRARY_SCALE: f64 = 1.24;

/// Width in pixels of text of that height.
pub(super) fn width(text: &str, size: f64) -> u32 {
    (text.chars().map(width_over_size).sum::<f64>() * size).ceil() as u32
}

/// Width of a character over the height of its font, as in DejaVu Sans, which is wider than most.
fn width_over_size(character: char) -> f64 {
    match character {
        ' ' | '.' | ',' | ':' | '\'' | 'i' | 'j' | 'l' => 0.33,
        'f' | 'r' | 't' | '(' | ')' | '-' | 'I' => 0.41,
        'M' | 'W' | 'm' | 'w' | '%' | '+' => 0.9,
        'A'..='Z' => 0.73,
        _ => 0.63,
    }
}

/// Text broken between words into lines of at most that width, where its words allow it.
pub(super) fn wrapped(text: &str, size: f64, most: u32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The style of text of that height; `across` and `down` say which of its points the position names.
pub(super) fn style(size: f64, across: HPos, down: VPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size * LIBRARY_SCALE)).pos(Pos::new(across, down))
}

/// A row's key as a heading: words, and its unit in brackets.
pub(super) fn heading(key: &str) -> String {
    // A key that only names a position in the layout means nothing to the reader.
    if key == "shown" {
        return String::new();
    }
    let units = [("_bytes", "bytes"), ("_s", "s"), ("_ns", "ns")];
    let unit = units
        .into_iter()
        .find_map(|(ending, unit)| Some((key.strip_suffix(ending)?, unit)));
    match unit {
        Some((stem, unit)) => format!("{} [{unit}]", stem.replace('_', " ")),
        None => key.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_between_words_only() {
        let most = width("KV, updates", SIZE);
        assert_eq!(
            wrapped("KV, updates, 1 replica", SIZE, most),
            ["KV,", "updates, 1", "replica"]
        );
        assert_eq!(wrapped("incompressible", SIZE, 10), ["incompressible"]);
        assert!(wrapped("", SIZE, 10).is_empty());
        assert!(width("SF+MOVNT+NTM", SIZE) > width("its twelfths", SIZE));
    }

    #[test]
    fn keys_become_words() {
        assert_eq!(heading("in_flight"), "in flight");
        assert_eq!(heading("granularity_bytes"), "granularity [bytes]");
        assert_eq!(heading("bytes"), "bytes");
        assert_eq!(heading("shown"), "");
    }
}
