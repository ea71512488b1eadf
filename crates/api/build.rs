//! Generates the types of the API from `proto/kgate.proto`. No installed `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/kgate.proto");
    let files = protox::compile(["proto/kgate.proto"], ["proto"])?;
    // These carry secrets: `secrets.rs` implements `Debug` for them.
    let secret = [
        ".kgate.v1.Hello",
        ".kgate.v1.Welcome",
        ".kgate.v1.Acquire",
        ".kgate.v1.PermitCommand",
        ".kgate.v1.MarkOnce",
        ".kgate.v1.Granted",
        ".kgate.v1.ReenterRequest",
    ];
    tonic_prost_build::configure()
        .btree_map(".")
        .skip_debug(secret)
        // Most messages are small: the few large ones must not make all of them large.
        .boxed(".kgate.v1.ClientMessage.message.acquire")
        .boxed(".kgate.v1.ClientMessage.message.hello")
        .compile_fds(files)?;
    Ok(())
}
