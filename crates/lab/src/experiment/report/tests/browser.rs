//! A report in a real browser, with the feature `browser`: `KGATE_BROWSER=chromium cargo test -p
//! kgate-lab --features browser --lib browser`.

use super::*;

/// A real browser shows the page without any network request: a listener that acts as its proxy
/// receives nothing.
#[test]
fn a_browser_opens_it_offline() {
    let browser = std::env::var_os("KGATE_BROWSER").expect("KGATE_BROWSER names a Chromium");
    let dir = std::env::temp_dir().join(format!("kgate-report-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("report.html"), small()).unwrap();
    assert_eq!(heard(&browser, &dir, "report.html"), (true, 0));
    // Planted: a page that loads a style is noticed.
    let leaky = small()
        .replace("<style>", "<link rel=\"stylesheet\" href=\"http://example.org/s.css\"><style>");
    std::fs::write(dir.join("leaky.html"), leaky).unwrap();
    let (_, asked) = heard(&browser, &dir, "leaky.html");
    assert!(asked > 0, "the listener would not have heard anything");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Whether the browser shows the page with its heading, and the number of its page requests.
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
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
            "--dump-dom",
            &proxy,
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("file://{}", dir.join(page).display()))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Each request is closed; the browser's own background requests do not count.
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
