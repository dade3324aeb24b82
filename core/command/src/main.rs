//! The command `kimi-agent`.

fn main() {
    std::process::exit(kimi_agent_command::main(std::env::args_os()));
}
