//! The scripted agent as a program of its own. `--help` lists its options.

fn main() {
    std::process::exit(kimi_agent_testing::scripted::main(std::env::args_os().skip(1)));
}
