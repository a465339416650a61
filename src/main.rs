//! Installs the process-wide TLS provider and allocator, then hands over to the command line.

// The Dockerfile sets its options: it reads them before the first line of this program runs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // Fails only when a provider is installed already, and this is the first line of the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    sherpack_operator::cli::Cli::from_arguments(std::env::args_os()).run()
}
