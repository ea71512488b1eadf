//! The differences between two texts, as a unified diff.

/// Number of equal lines shown around a difference.
const AROUND: usize = 3;

/// The lines that differ, `-` for expected and `+` for actual lines, with some context; empty if
/// the texts are equal.
pub fn between(expected: &str, actual: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    if old == new {
        return Vec::new();
    }
    let marked = mark(&old, &new);
    let near = |place: usize| {
        let from = place.saturating_sub(AROUND);
        marked[from..marked.len().min(place + AROUND + 1)].iter().any(|(mark, ..)| *mark != ' ')
    };
    let mut lines = Vec::new();
    let mut last = None;
    for (place, (mark, number, text)) in marked.iter().enumerate().filter(|(place, _)| near(*place))
    {
        if last != Some(place.wrapping_sub(1)) {
            lines.push(format!("@@ line {number} @@"));
        }
        last = Some(place);
        lines.push(format!("{mark}{text}"));
    }
    lines
}

/// Marks every line with ` `, `-` or `+` and its number, by a longest common subsequence.
fn mark<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(char, usize, &'t str)> {
    // common[i][j]: the length of a longest common subsequence of old[i..] and new[j..].
    let mut common = vec![vec![0u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut marked) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            marked.push((' ', i + 1, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            marked.push(('-', i + 1, old[i]));
            i += 1;
        } else {
            marked.push(('+', i + 1, new[j]));
            j += 1;
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changed, added and removed lines are marked and shown with context; equal texts give no
    /// lines.
    #[test]
    fn lines_that_differ() {
        assert_eq!(between("a\nb\n", "a\nb\n"), [""; 0]);
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n14";
        let expected = [
            "@@ line 2 @@",
            " 2",
            " 3",
            " 4",
            "-5",
            "+five",
            " 6",
            " 7",
            " 8",
            "@@ line 11 @@",
            " 11",
            " 12",
            " 13",
            "+14",
        ];
        assert_eq!(between(old, new), expected);
        assert_eq!(between("a\nb", "b"), ["@@ line 1 @@", "-a", " b"]);
    }
}
