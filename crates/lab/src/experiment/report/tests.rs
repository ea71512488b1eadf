use super::super::plot::draw;
use super::super::summary::tests::row;
use super::*;

const TEXT: &str = r#"
name = "small"
title = "A <small> one"
paper = "Somebody & others"
about = "First.\n\nSecond."

[[grid]]
name = "low"
vary = { protocol = ["raymond", "vcube"], processes = [8, 16] }

[[plot]]
name = "grants"
title = "Units"
figure = "6(a)"
grid = "low"
x = "processes"
y = "grants"
series = "protocol"
x_label = "processes"
y_label = "units"

[[fact]]
id = "A1"
place = "figure 6"
claim = "raymond is ahead"
check = [{ grid = "low", metric = "grants", left = { protocol = "raymond" }, is = "greater", right = { protocol = "vcube" } }]

[[fact]]
id = "A2"
place = "figure 6"
claim = "vcube is ahead"
check = [{ grid = "low", metric = "grants", left = { protocol = "vcube" }, is = "greater", right = { protocol = "raymond" } }]

[[fact]]
id = "A3"
place = "figure 7"
claim = "unknown"
cannot = "no setting is given"
"#;

fn results() -> Results {
    let mut rows = Vec::new();
    for (protocol, grants) in [("raymond", 9.0), ("vcube", 4.0)] {
        for n in ["8", "16"] {
            rows.push(row("low", &[("protocol", protocol), ("processes", n)], 1, &[("grants", grants)]));
        }
    }
    Results::of(Experiment::parse(TEXT).unwrap(), &rows)
}

fn small() -> String {
    let results = results();
    let drawings: Vec<_> =
        results.experiment.plot.iter().map(|plot| draw(plot, &results.cells).unwrap()).collect();
    page(&results, &drawings)
}

/// Everything that the page owes its reader is there: claim, numbers, all three verdicts, the figure, and the command of every point.
#[test]
fn a_page_is_complete() {
    let page = small();
    let words = [
        "A &lt;small&gt; one",
        "Somebody &amp; others",
        "<p>First.</p>",
        "<p>Second.</p>",
        "raymond is ahead",
        "9 against 4",
        "class=\"verdict reproduced\"",
        "class=\"verdict not-reproduced\"",
        "class=\"verdict cannot-be-checked\"",
        "no setting is given",
        "<svg",
        "figure 6(a)",
        "kgate sim --processes 16 --protocol vcube --seed 1",
        "kgate lab run small",
        "3 published facts: 1 reproduced, 1 not reproduced, 1 that cannot be checked.",
    ];
    for word in words {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(page, small());
}

/// Nothing is loaded from anywhere: no script, no link to a style or a picture, no address but the name of SVG.
#[test]
fn a_page_needs_nothing() {
    let page = small().replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "<script", "<link", "<img", "@import", "url(", "src="] {
        assert!(!page.contains(word), "{word}");
    }
}

/// The index has every experiment with its verdicts and a link.
#[test]
fn an_index_links_to_its_pages() {
    let results = results();
    let page = index(&[("small".into(), &results)]);
    assert!(page.contains("<a href=\"small/report.html\">small</a>") && page.contains("vcube is ahead"));
}

/// A real browser shows the page without asking the network for anything: a listener that is its proxy hears nothing.
#[test]
#[ignore = "needs a browser: KGATE_BROWSER=chromium cargo test -p kgate-lab --lib browser -- --ignored"]
fn a_browser_opens_it_offline() {
    let browser = std::env::var_os("KGATE_BROWSER").expect("KGATE_BROWSER names a Chromium");
    let dir = std::env::temp_dir().join(format!("kgate-report-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("report.html"), small()).unwrap();
    assert_eq!(heard(&browser, &dir, "report.html"), (true, 0));
    // Planted: a page that loads a style from somewhere is heard.
    let leaky =
        small().replace("<style>", "<link rel=\"stylesheet\" href=\"http://example.org/s.css\"><style>");
    std::fs::write(dir.join("leaky.html"), leaky).unwrap();
    let (_, asked) = heard(&browser, &dir, "leaky.html");
    assert!(asked > 0, "the listener would not have heard anything");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Whether the browser shows the page with its heading, and how many requests for a page it made.
fn heard(browser: &std::ffi::OsStr, dir: &std::path::Path, page: &str) -> (bool, usize) {
    use std::io::Read;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("--proxy-server=http://{}", listener.local_addr().unwrap());
    let mut child = std::process::Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args(["--disable-component-update", "--disable-sync", "--disable-extensions", "--dump-dom", &proxy])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("file://{}", dir.join(page).display()))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Each request is hung up on; the browser's own calls home do not count.
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 512];
            let length = stream.read(&mut request).unwrap_or(0);
            let own = String::from_utf8_lossy(&request[..length]).contains("google");
            count.fetch_add(usize::from(!own), std::sync::atomic::Ordering::SeqCst);
        }
    });
    let mut shown = String::new();
    child.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
    child.wait().unwrap();
    (shown.contains("A &lt;small&gt; one</h1>"), asked.load(std::sync::atomic::Ordering::SeqCst))
}
