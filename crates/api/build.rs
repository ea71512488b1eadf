//! Makes the types of the API from `proto/kgate.proto`, without a compiler from the system.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/kgate.proto");
    let files = protox::compile(["proto/kgate.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
