//! Makes the types of the API from `proto/kgate.proto`, without a compiler from the system.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/kgate.proto");
    let files = protox::compile(["proto/kgate.proto"], ["proto"])?;
    // What has a secret is shown by hand, without it.
    tonic_prost_build::configure().skip_debug([".kgate.v1.Hello", ".kgate.v1.Welcome"]).compile_fds(files)?;
    Ok(())
}
