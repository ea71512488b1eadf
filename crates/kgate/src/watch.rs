//! `kgate watch`: the status, again whenever it changes.
//!
//! On a terminal it is redrawn in place, once a second, so that ages count on. Elsewhere each
//! change is printed below the one before, every line with the time at which the status was read:
//! the output is a log that `grep` can search.

use std::io::{IsTerminal, Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use kgate_client::{LeaseInstant, Status};
use rustix::termios::{Winsize, tcgetwinsize};
use tokio_stream::StreamExt;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use unicode_width::UnicodeWidthChar;

use crate::Outcome;
use crate::status::{StatusArgs, block_on, lines};

/// Between two drawings.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &StatusArgs) -> Outcome {
    let address = args.target.address()?;
    let name = args.name.as_deref();
    let on_terminal = stdout().is_terminal() && !args.json;
    block_on(async {
        let mut replies = std::pin::pin!(Status::watch(&address, name).await?);
        let mut shown: Option<(Status, LeaseInstant)> = None;
        let mut redraw = tokio::time::interval(REDRAW_INTERVAL);
        loop {
            tokio::select! {
                reply = replies.next() => {
                    let Some(reply) = reply.transpose()? else { return Ok(ExitCode::SUCCESS) };
                    if !on_terminal {
                        print(&reply, args)?;
                    }
                    shown = Some((reply, LeaseInstant::now()));
                }
                _ = redraw.tick(), if on_terminal => {}
            }
            if let (true, Some((status, read_at))) = (on_terminal, &shown) {
                let size = tcgetwinsize(stdout()).ok();
                let lines = lines(status, name, LeaseInstant::now().after(*read_at));
                stdout().write_all(screen(&time(), &lines, size).as_bytes())?;
                stdout().flush()?;
            }
        }
    })
}

/// Appends the status to the output.
fn print(reply: &Status, args: &StatusArgs) -> std::io::Result<()> {
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", reply.to_json())?;
        return out.flush();
    }
    let time = time();
    for line in lines(reply, args.name.as_deref(), Duration::ZERO) {
        writeln!(out, "{time} {line}")?;
    }
    out.flush()
}

/// What is written to redraw: from the top, each line cut to the width, and as many as fit. Nothing
/// is cleared before it is overwritten, so that nothing flickers.
fn screen(time: &str, lines: &[String], size: Option<Winsize>) -> String {
    let (rows, columns) = match size {
        Some(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        Some(_) | None => (24, 80),
    };
    // The last row stays free: the cursor is there, and the prompt afterwards.
    let room = usize::from(rows).saturating_sub(2);
    let mut text = format!("\x1b[H{}\x1b[K\r\n", cut(time, columns));
    let fits = if lines.len() > room { room.saturating_sub(1) } else { lines.len() };
    for line in &lines[..fits] {
        text.push_str(&cut(line, columns));
        text.push_str("\x1b[K\r\n");
    }
    if fits < lines.len() {
        let more = format!("({} more lines)", lines.len() - fits);
        text.push_str(&cut(&more, columns));
        text.push_str("\x1b[K\r\n");
    }
    text + "\x1b[J"
}

/// As much of the text as is less wide than that.
fn cut(text: &str, columns: u16) -> String {
    let mut left = usize::from(columns).saturating_sub(1);
    text.chars()
        .take_while(|character| {
            let width = character.width().unwrap_or(0);
            let fits = width <= left;
            left = left.saturating_sub(width);
            fits
        })
        .collect()
}

/// The present time, in UTC.
fn time() -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    let seconds = text.split('.').next().unwrap_or_default();
    format!("{seconds}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A screen has no more rows and columns than the terminal, wide characters count twice, and
    /// what does not fit is counted.
    #[test]
    fn a_screen_fits() {
        let size = |ws_row, ws_col| Some(Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 });
        let lines = ["漢字漢字漢字", "abcdefghijkl", "c", "d"].map(String::from);
        assert_eq!(
            screen("12:00:00Z", &lines, size(5, 9)),
            "\x1b[H12:00:00\x1b[K\r\n漢字漢字\x1b[K\r\nabcdefgh\x1b[K\r\n(2 more \x1b[K\r\n\x1b[J"
        );
        assert!(screen("now", &lines, size(7, 80)).contains("\nd\x1b[K\r\n\x1b[J"));
        assert!(screen("now", &lines, size(1, 1)).ends_with("\x1b[J"));
        assert!(screen("now", &lines, size(0, 0)).contains("abcdefghijkl"));
    }

    /// RFC 3339, to the second.
    #[test]
    fn times_are_in_utc() {
        let time = time();
        assert!(time.len() == 20 && time.ends_with('Z') && time.contains('T'), "{time}");
    }
}
