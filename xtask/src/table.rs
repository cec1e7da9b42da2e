//! Plain text tables: the first column to the left, the others to the right.

/// Draws a table with a head; every line ends with a line break.
pub(crate) fn draw(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = line(&head, &widths);
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    text += &line(&rule, &widths);
    for row in rows {
        text += &line(row, &widths);
    }
    text
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if column == 0 {
            text += &format!("{cell:<width$}");
        } else {
            text += &format!("  {cell:>width$}");
        }
    }
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["proxy-core".to_owned(), "7".to_owned()],
            vec!["x".to_owned(), "1234567".to_owned()],
        ];
        assert_eq!(
            draw(&["part", "tests"], &rows),
            "part          tests\n----------  -------\nproxy-core        7\nx           1234567\n"
        );
    }
}
