//! A store that requires a fence with every write.
//!
//! ```text
//! PUT /NAME   with the headers kgate-gate, kgate-slots (0,2) and kgate-fence (32 hexadecimal
//!             digits): 204, or 409 if the permit has ended
//! GET /NAME   the last value written
//! ```
//!
//! The greatest fences are in a file of their own, which is on disk before the value is written: a
//! store that forgets them protects nothing.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as Name, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use kgate_client::Fences;

#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    fences: Arc<Mutex<Fences>>,
}

impl Store {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let kept = match std::fs::read_to_string(folder.join("fences")) {
            Ok(text) => text.lines().map(kept).collect::<Option<Vec<_>>>(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Vec::new()),
            Err(error) => return Err(error),
        };
        let kept = kept.ok_or_else(|| {
            io::Error::other("the file `fences` is damaged: whom to refuse is not known any more")
        })?;
        Ok(Self { folder: folder.to_owned(), fences: Arc::new(Mutex::new(Fences::restore(kept))) })
    }

    pub(crate) fn routes(self) -> Router {
        Router::new().route("/{name}", get(read).put(write)).with_state(self)
    }

    /// One at a time: check, keep the fence, write.
    fn put(&self, name: &str, permit: &Shown, bytes: &[u8]) -> Result<(), (StatusCode, String)> {
        let failed = |error: io::Error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"));
        let mut fences = self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        let mut checked = fences.clone();
        let stale = checked.check(&permit.gate, &permit.slots, permit.fence);
        stale.map_err(|stale| (StatusCode::CONFLICT, format!("{stale}\n")))?;
        if checked != *fences {
            let lines =
                checked.iter().map(|(gate, slot, fence)| format!("{gate} {slot} {fence:032x}\n"));
            self.replace("fences", lines.collect::<String>().as_bytes()).map_err(failed)?;
            *fences = checked;
        }
        self.replace(&format!("put-{name}"), bytes).map_err(failed)
    }

    /// The old file or the new one, whatever happens.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (new, place) = (self.folder.join("new"), self.folder.join(name));
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(new, place)?;
        File::open(&self.folder)?.sync_all()
    }
}

fn kept(line: &str) -> Option<(String, u32, u128)> {
    let [gate, slot, fence] = <[&str; 3]>::try_from(line.split(' ').collect::<Vec<_>>()).ok()?;
    Some((gate.to_owned(), slot.parse().ok()?, u128::from_str_radix(fence, 16).ok()?))
}

/// What a holder shows.
struct Shown {
    gate: String,
    slots: Vec<u32>,
    fence: u128,
}

impl Shown {
    fn read(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let gate = text("kgate-gate")
            .filter(|gate| !gate.is_empty() && !gate.contains(char::is_whitespace))?;
        let slots: Option<Vec<u32>> =
            text("kgate-slots")?.split(',').map(|slot| slot.parse().ok()).collect();
        let fence = u128::from_str_radix(text("kgate-fence")?, 16).ok()?;
        Some(Self { gate: gate.to_owned(), slots: slots?, fence })
    }
}

fn check_name(name: &str) -> Result<(), (StatusCode, String)> {
    let fine = !name.is_empty()
        && name.len() <= 100
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let text = "invalid name: use 1 to 100 letters, digits and dashes\n";
    if fine { Ok(()) } else { Err((StatusCode::BAD_REQUEST, text.into())) }
}

async fn write(
    State(store): State<Store>,
    Name(name): Name<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<StatusCode, (StatusCode, String)> {
    check_name(&name)?;
    let needed = "no permit given: send the headers kgate-gate, kgate-slots and kgate-fence with \
                  the values of KGATE_GATE, KGATE_SLOTS and KGATE_FENCE\n";
    let permit = Shown::read(&headers).ok_or((StatusCode::BAD_REQUEST, needed.to_owned()))?;
    let put = tokio::task::spawn_blocking(move || store.put(&name, &permit, &bytes)).await;
    put.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")))?
        .map(|()| StatusCode::NO_CONTENT)
}

async fn read(
    State(store): State<Store>,
    Name(name): Name<String>,
) -> Result<Vec<u8>, (StatusCode, String)> {
    check_name(&name)?;
    std::fs::read(store.folder.join(format!("put-{name}")))
        .map_err(|_| (StatusCode::NOT_FOUND, "nothing was put there\n".into()))
}
