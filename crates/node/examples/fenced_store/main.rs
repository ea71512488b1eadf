//! A guarded resource that refuses late writers: `cargo run -p kgate-node --example
//! fenced_store -- 127.0.0.1:7500 FOLDER`.
//!
//! ```sh
//! kgate run deploy -k 1 -- sh -c 'make report | curl -sfT - http://127.0.0.1:7500/report \
//!     -H "kgate-gate: $KGATE_GATE" -H "kgate-slots: $KGATE_SLOTS" -H "kgate-fence: $KGATE_FENCE"'
//! ```

mod store;

use std::path::Path;

use store::Store;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, folder] = arguments.as_slice() else {
        return Err(
            "where to listen and where to keep things: fenced_store 127.0.0.1:7500 FOLDER".into()
        );
    };
    let store = Store::open(Path::new(folder))?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening at http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, store.routes()).await?)
}
