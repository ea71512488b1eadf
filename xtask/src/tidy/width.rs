//! Width: Rust code and comments have at most 100 columns. Markdown has either one paragraph per
//! line or at most 100 columns.

use super::File;

const COLUMNS_MAX: usize = 100;

pub(super) fn rust(file: &File) -> Vec<String> {
    if !super::is_rust(file) {
        return Vec::new();
    }
    // An address cannot be broken.
    super::lines_where(file, "more than 100 columns", |line| {
        is_wide(line) && !line.contains("https://")
    })
}

/// A wide line must be a whole paragraph, list item, table row or heading: a paragraph must not
/// continue on the line before or after it.
pub(super) fn markdown(file: &File) -> Vec<String> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let mut fenced = false;
    let lines: Vec<(&str, Kind)> =
        file.text.lines().map(|line| (line, Kind::of(line, &mut fenced))).collect();
    let broken = |at: usize| {
        let (line, kind) = lines[at];
        let starts = matches!(kind, Kind::Text | Kind::Item);
        let continued = lines.get(at + 1).is_some_and(|(_, next)| *next == Kind::Text);
        let continues =
            kind == Kind::Text && at > 0 && matches!(lines[at - 1].1, Kind::Text | Kind::Item);
        is_wide(line) && starts && (continued || continues)
    };
    let why = "more than 100 columns, and the paragraph has another line: \
               one line per paragraph, or at most 100 columns";
    (0..lines.len())
        .filter(|at| broken(*at))
        .map(|at| format!("{}:{}: {why}", file.path, at + 1))
        .collect()
}

fn is_wide(line: &str) -> bool {
    line.chars().count() > COLUMNS_MAX
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A line of a paragraph, or a further line of a list item.
    Text,
    /// The first line of a list item.
    Item,
    /// Blank lines, code blocks, tables, headings, quotes and HTML end a paragraph.
    Other,
}

impl Kind {
    fn of(line: &str, fenced: &mut bool) -> Self {
        let text = line.trim_start();
        if text.starts_with("```") {
            *fenced = !*fenced;
            return Self::Other;
        }
        let is_link_definition = text.starts_with('[') && text.contains("]: ");
        if *fenced
            || text.is_empty()
            || is_link_definition
            || text.starts_with(['|', '#', '>', '<'])
        {
            return Self::Other;
        }
        if is_item(text) { Self::Item } else { Self::Text }
    }
}

fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = number.len() < text.len() && number.starts_with(". ");
    numbered || ["- ", "* ", "+ "].iter().any(|bullet| text.starts_with(bullet))
}
